// Events into blocks of bytes. Compression, checksums and files are the sink's business (traces/).
//
// Memory: one block. Not thread-safe: one thread writes a trace.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/trace/trace_codec.h"
#include "core/trace/trace_event.h"

namespace outsize::trace {

class Encoder {
 public:
  // Takes one block; the bytes are the encoder's and gone afterwards. `last`: the trace is whole.
  using Sink = std::function<Status(std::string_view block, bool last)>;
  explicit Encoder(Sink sink);

  // kInvalidArgument, and nothing is written, for what the format has no bytes for: a birth whose
  // storage is not the next number, a number below zero or above kNumberMax, an event that may take
  // more than kEventMax, a kEnd. What merely makes no sense is written: the validator tells (trace_validator.h).
  // Any error of the sink is final: it is given again to whoever goes on.
  Status write(const Event& event);

  // Gives the sink what there is, so that it outlives the process.
  Status cut();

  // The end record and the last block. `held_up` and `foreign_operands` are the recorder's (Totals).
  Status finish(Nanos time, std::uint64_t foreign_operands = 0, Nanos held_up = 0);

  StorageId next_storage() const { return state_.next_storage; }
  Nanos latest() const { return state_.time; }  // of the event before
  const Totals& totals() const { return totals_; }

 private:
  void body(const Event& event);
  void op_begin(const Event& event);
  void graph(GraphPlace place);
  void features(const Event& event);
  void site(SiteId id);
  void storage(StorageId id, unsigned extra_bits, unsigned extra);
  void number(std::uint64_t value);
  void fixed(std::uint64_t value);
  void text(std::string_view text);
  void end_record();
  void start_block();
  Status give(bool last);

  Sink sink_;
  std::string block_;
  std::size_t prologue_ = 0;  // bytes of the block before its first event
  BlockState state_;
  Totals totals_;
  Error error_;
  bool failed_ = false, finished_ = false;
};

}  // namespace outsize::trace
