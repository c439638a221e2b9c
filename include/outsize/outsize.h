// outsize for libtorch programs: train under a byte budget.
//
//   #include <outsize/outsize.h>
//   outsize::Session session({.budget = outsize::GiB(2)});
//   ... train as before ...
//   session.step();  // after each training iteration
//
// One session at a time in a process. It covers the thread that makes it and autograd's threads;
// other threads of yours that run tensor ops hold a `ThreadGuard`. Ops that cannot fit throw
// c10::OutOfMemoryError, like PyTorch's own; what fails outside an op throws `outsize::Error`.
//
// This header needs C++20 and no torch header.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace outsize {
inline namespace api {  // keeps these names apart from the library's own

constexpr std::int64_t MiB(double value) { return static_cast<std::int64_t>(value * (1 << 20)); }
constexpr std::int64_t GiB(double value) { return static_cast<std::int64_t>(value * (1 << 30)); }

// The message says what happened, where, and what to try.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// More memory is needed than the budget, or the machine, allows.
class BudgetError : public Error {
 public:
  using Error::Error;
};
// The spill file could not be made, grown, read or written.
class SpillError : public Error {
 public:
  using Error::Error;
};

struct SessionOptions {
  std::int64_t budget = 0;           // bytes of tensors in RAM; required
  std::string policy = "lookahead";
  std::string spill_dir = {};        // empty: $TMPDIR, else /var/tmp; never a tmpfs
  std::int64_t spill_limit = 0;      // bytes on disk; 0: what is free there
  std::uint64_t disk_write_limit = 0;  // bytes a second written on average; 0: no limit
  std::string faults = "auto";       // or "userfaultfd", "signal"
  int io_threads = 4;
  bool verify = false;               // checksum every spilled byte and check it when it returns
  std::string decision_log = {};     // a file to write every decision to; empty: none
};

// What happened so far. Bytes unless the name says otherwise.
struct SessionStats {
  std::int64_t budget = 0;
  std::int64_t resident = 0, resident_peak = 0;
  std::int64_t tensor_bytes = 0, tensor_bytes_peak = 0;
  std::int64_t spilled = 0;
  std::int64_t read_bytes = 0, write_bytes = 0;
  std::int64_t stall_nanoseconds = 0;
  std::int64_t steps = 0, ops = 0, evictions = 0;
  std::int64_t min_budget = 0;  // the smallest budget this program would have run in
  std::string min_budget_op;    // the op that needs it
  std::string mechanism;        // how page faults are answered
  std::string policy;
};

class Session {
 public:
  // Checks everything that can fail before training starts. Throws Error.
  explicit Session(const SessionOptions& options);
  // As close(); what close() would throw goes to standard error, and the tensors stay managed (and
  // valid) until the process ends.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The end of one training iteration: what the predictor learns from.
  void step();
  SessionStats stats() const;

  // Brings every tensor back into RAM and lets go. Throws BudgetError, changing nothing, where RAM
  // cannot hold them. Later calls do nothing.
  void close();

 private:
  bool open_ = false;
  bool thread_was_covered_ = false;
};

// Covers the calling thread while alive. Harmless without a session.
class ThreadGuard {
 public:
  ThreadGuard();
  ~ThreadGuard();
  ThreadGuard(const ThreadGuard&) = delete;
  ThreadGuard& operator=(const ThreadGuard&) = delete;

 private:
  bool before_;
};

}  // namespace api
}  // namespace outsize
