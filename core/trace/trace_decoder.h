// Blocks of bytes into events. Believes nothing: whatever the bytes are, the answer is events or an
// error that says where, never a crash, and never a whole trace where one byte of it is missing.
//
// Memory: one block and one event, however long the trace. Not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/trace/trace_codec.h"
#include "core/trace/trace_event.h"

namespace outsize::trace {

class Decoder {
 public:
  // Puts the next block into `block`; false: there is none. An error of its own ends the reading.
  using Source = std::function<Result<bool>(std::string& block)>;
  explicit Decoder(Source source) : source_(std::move(source)) {}

  // The next event, good until the next call; false after the end record. kInvalidArgument where the
  // trace was cut off or damaged; every later call gives the same error. The end record's numbers
  // have been compared with what was read, so false means that nothing is missing.
  Result<bool> next(Event& event);

  // So far; after the end all of it.
  const Totals& totals() const { return totals_; }
  std::uint64_t blocks() const { return blocks_; }

 private:
  Result<bool> fill();
  Status start_block();
  Status event_head(Event& event);
  bool body(Event& event);
  bool op_begin(Event& event);
  bool graph(GraphPlace& place);
  bool features(Event& event);
  bool end_record();
  bool site(SiteId& id);
  bool storage(unsigned extra_bits, StorageId& id, unsigned& extra);
  bool number(std::uint64_t& value, std::uint64_t most = kNumberMax);
  bool number(std::int64_t& value);
  bool fixed(std::uint64_t& value);
  bool byte(std::uint8_t& value);
  bool text(std::string_view& text);
  bool no(const char* why);          // remembers it for damaged()
  Error damaged();
  Error fail(Error error);

  Source source_;
  std::string block_;
  std::size_t at_ = 0;
  std::uint64_t blocks_ = 0;
  BlockState state_;
  Totals totals_;
  std::vector<Operand> operands_;
  std::vector<double> numbers_;
  std::vector<Feature> features_;
  const char* why_ = "";
  Error error_;
  bool failed_ = false, ended_ = false;
};

}  // namespace outsize::trace
