// Records a run: takes what happens under the runtime's lock and has it written to a trace on a thread
// of its own.
//
// A call under the lock copies a few records of 24 bytes into a buffer, and no more: no memory is
// asked for, nothing is looked up, nobody is woken unless a buffer is full. There are two buffers: one
// is filled while the thread translates, encodes, compresses and writes the other. Where the disk
// cannot keep up, whoever fills the last record waits, and the trace says for how long in all.
//
// Threading: the recording functions are called under one lock of the caller's, the runtime's. The
// others by the owner. Not to be used in a forked child, where the thread is missing.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/result.h"
#include "core/trace/raw_events.h"
#include "platforms/host/runtime.h"
#include "traces/trace_file.h"

namespace outsize::host {

class TraceRecorder {
 public:
  // 26 thousand ops with four operands, in 3 MiB; two of them.
  static constexpr std::size_t kBufferRecords = std::size_t{1} << 17;

  // Makes the file. `meta` is one JSON object, the trace's first event; `now` is time 0 of the trace,
  // of the same clock as every later `now`.
  static Result<std::unique_ptr<TraceRecorder>> create(const std::string& path, const std::string& meta, Nanos now,
                                                       std::size_t buffer_records = kBufferRecords);
  // Ends the thread; a trace that was not finished is told as cut off by whoever reads it.
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  // --- under the lock. Ranges of bytes may lie anywhere: what is no storage of the trace is left out.

  // The op runs from `now` on: it has waited for its operands before. `flags`: trace::OpFlag.
  void op_begin(Nanos now, ThreadId thread, SiteId site, std::uint8_t flags, GraphPlace graph,
                std::span<const Operand> operands) noexcept {
    put(Raw::kOpBegin, now, thread, flags, site);
    if (graph != 0) put(Raw::kPlace, now, thread, 0, graph);
    for (const Operand& operand : operands) {
      trace::RawEvent& raw = next();
      raw.a = reinterpret_cast<std::uintptr_t>(operand.address);
      raw.b = operand.bytes;
      raw.flags = static_cast<std::uint8_t>(operand.access);
      raw.kind = Raw::kOperand;
    }
  }
  void op_end(Nanos now, ThreadId thread) noexcept { put(Raw::kOpEnd, now, thread, 0, 0); }
  // `bytes` as asked for, of one storage, however extents hold it.
  void birth(Nanos now, ThreadId thread, const void* address, std::size_t bytes) noexcept {
    put_range(Raw::kBirth, now, thread, 0, address, bytes);
  }
  void adopt(Nanos now, ThreadId thread, const void* address, std::size_t bytes, bool file) noexcept {
    put_range(Raw::kAdopt, now, thread, file ? 1 : 0, address, bytes);
  }
  void death(Nanos now, ThreadId thread, const void* address) noexcept {
    put(Raw::kDeath, now, thread, 0, reinterpret_cast<std::uintptr_t>(address));
  }
  void expose(Nanos now, ThreadId thread, const void* address, std::size_t bytes) noexcept {
    put_range(Raw::kExpose, now, thread, 0, address, bytes);
  }
  void raw_access(Nanos now, ThreadId thread, const void* address, std::size_t bytes, bool write) noexcept {
    put_range(Raw::kRawAccess, now, thread, write ? 1 : 0, address, bytes);
  }
  void pin(Nanos now, ThreadId thread, const void* address, std::size_t bytes) noexcept {
    put_range(Raw::kPin, now, thread, 0, address, bytes);
  }
  void unpin(Nanos now, ThreadId thread, const void* address, std::size_t bytes) noexcept {
    put_range(Raw::kUnpin, now, thread, 0, address, bytes);
  }
  void hint(Nanos now, ThreadId thread, const void* address, std::size_t bytes, bool soon) noexcept {
    put_range(Raw::kHint, now, thread, soon ? 1 : 0, address, bytes);
  }
  // This thread has just waited so long.
  void wait(Nanos now, ThreadId thread, trace::WaitCause cause, Nanos waited) noexcept {
    put(Raw::kWait, now, thread, static_cast<std::uint8_t>(cause), static_cast<std::uint64_t>(waited));
  }
  void untracked(Nanos now, ThreadId thread, SiteId site, Bytes bytes) noexcept;
  // Also gives what there is to the thread, if it has nothing to do: little is lost by a program that
  // is killed.
  void step(Nanos now, ThreadId thread) noexcept;
  // These two take memory; once a site, and once a sample.
  void name_site(Nanos now, ThreadId thread, SiteId site, std::string name);
  void sample(Nanos now, ThreadId thread, std::vector<std::pair<std::string, std::vector<double>>> features);

  // Of the latest event: near enough for what cannot afford a look at the clock.
  Nanos latest() const noexcept { return latest_; }

  // --- by the owner

  // Writes what is left and the end. No recording function may be called any more. kIo where the
  // trace could not be written, at any time since it was created.
  Status finish(Nanos now);

  // Recording goes on as if nothing were, and finish() tells: a disk that is full is no reason to stop
  // a training run.
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

  // After finish().
  std::uint64_t file_bytes() const { return file_->file_bytes(); }
  const trace::Totals& totals() const { return file_->encoder().totals(); }

 private:
  using Raw = trace::RawEvent::Kind;
  struct Buffer {
    std::vector<trace::RawEvent> records;  // all of it, whatever its use
    std::size_t used = 0;
    std::vector<trace::RawText> texts;
  };

  TraceRecorder(std::unique_ptr<traces::FileWriter> file, Nanos now, std::size_t buffer_records);

  trace::RawEvent& next() noexcept {
    if (used_ == capacity_) hand_over(true);
    return records_[used_++];
  }
  void put(Raw kind, Nanos now, ThreadId thread, std::uint8_t flags, std::uint64_t b) noexcept {
    trace::RawEvent& raw = next();
    latest_ = now;
    raw.a = static_cast<std::uint64_t>(now);
    raw.b = b;
    raw.thread = thread;
    raw.flags = flags;
    raw.kind = kind;
  }
  void put_range(Raw kind, Nanos now, ThreadId thread, std::uint8_t flags, const void* address,
                 std::size_t bytes) noexcept {
    put(kind, now, thread, flags, 0);
    trace::RawEvent& raw = next();
    raw.a = reinterpret_cast<std::uintptr_t>(address);
    raw.b = bytes;
    raw.kind = Raw::kRange;
  }
  void put_text(Nanos now, ThreadId thread, trace::RawText text);
  void hand_over(bool wait) noexcept;
  void wait_until_taken() noexcept;
  void take(std::size_t buffer) noexcept;
  void write_buffers();

  // What the caller's lock guards. The first three are the current buffer's, close at hand.
  trace::RawEvent* records_ = nullptr;
  std::size_t used_ = 0, capacity_ = 0;
  std::size_t filling_ = 0;  // 0 or 1
  Nanos held_up_ = 0, latest_ = 0;

  // The buffer that the thread has, if any: it is its own until it says kNone.
  static constexpr int kNone = -1, kStop = -2;
  std::atomic<int> given_{kNone};
  Buffer buffers_[2];

  // The thread's.
  std::unique_ptr<traces::FileWriter> file_;
  trace::Translator translator_;
  Status status_;
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

}  // namespace outsize::host
