/// \file
/// The whole of the C++ API.

/// \mainpage outsize from C++
///
/// For libtorch programs: train under a byte budget. It all is in outsize/outsize.h.
///
/// \code
/// #include <outsize/outsize.h>
///
/// outsize::Session session({.budget = outsize::GiB(2)});
/// for (...) {
///   ...                // a training iteration, as before
///   session.step();
/// }
/// \endcode
///
/// In CMake:
///
/// \code
/// find_package(outsize REQUIRED)
/// target_link_libraries(train PRIVATE outsize::outsize)
/// \endcode
///
/// outsize::Session keeps the budget and outsize::SessionStats says what happened; outsize::Pin and
/// outsize::hint are a program's own word on its tensors; outsize::Error is what goes wrong.
///
/// The header needs C++20 and no torch header.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace at {
class Tensor;
}

/// Everything that outsize offers to C++ programs.
namespace outsize {
inline namespace api {  // keeps these names apart from the library's own

/// Bytes, from mebibytes.
constexpr std::int64_t MiB(double value) { return static_cast<std::int64_t>(value * (1 << 20)); }
/// Bytes, from gibibytes.
constexpr std::int64_t GiB(double value) { return static_cast<std::int64_t>(value * (1 << 30)); }

/// What fails outside an op. The message says what happened, where, and what to try.
///
/// What fails inside an op is a c10::Error, as PyTorch's own errors are: c10::OutOfMemoryError where
/// the budget is too small. No byte is lost, and the tensors are as they were before that op.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// More memory is needed than the budget, or the machine, allows.
class BudgetError : public Error {
 public:
  using Error::Error;
};

/// The spill file could not be made, grown, read or written.
class SpillError : public Error {
 public:
  using Error::Error;
};

/// How a session runs. Only the budget must be given.
struct SessionOptions {
  /// Bytes of tensors in RAM, transfers under way and outsize's page pool included.
  std::int64_t budget = 0;
  /// In place of `budget`: bytes for all that the process holds in RAM, scratch of kernels included.
  /// Tensors have what the rest leaves. 0: none.
  std::int64_t process_budget = 0;
  /// Who decides what leaves and what comes: "lookahead" (foresees what repeats), "ondemand"
  /// (least recently used), "deepum" (DeepUM's correlation tables), "weights" (weight offloading:
  /// a plan over the whole step, once it repeats), "pilot" (foresees a path that varies; from C++ it
  /// is told no samples), "auto" (whichever of lookahead and pilot foresees better) or "oracle"
  /// (knows the run from `foresee`).
  std::string policy = "lookahead";
  /// Where bytes go that do not fit; empty: $TMPDIR, else /var/tmp. Never a tmpfs.
  std::string spill_dir = {};
  /// The most bytes on disk; 0: what is free there.
  std::int64_t spill_limit = 0;
  /// Bytes a second that the disk is written on average, kept by waiting; 0: no limit.
  std::uint64_t disk_write_limit = 0;
  /// How page faults are answered: "userfaultfd", "signal", or "auto", the best that this process may
  /// use. One mechanism for the life of the process.
  std::string faults = "auto";
  /// Threads that read and write the spill file.
  int io_threads = 4;
  /// Checksum every spilled byte and check it when it returns.
  bool verify = false;
  /// A file to write every decision to; empty: none.
  std::string decision_log = {};
  /// A file to record the run to, as a trace for `outsize trace`; empty: none. It costs a few percent of
  /// the time. What cannot be written to the end stops nothing: standard error says so.
  std::string record = {};
  /// What policy "pilot" begins with: a file that `outsize pilot train` wrote; empty: nothing.
  std::string pilot = {};
  /// What policy "oracle" foresees from: the trace of an earlier, identical run, recorded with room for all.
  std::string foresee = {};
};

/// What happened so far in a session. Bytes unless the name says otherwise.
struct SessionStats {
  std::int64_t budget = 0;              ///< As given, or as it follows from `process_budget` now.
  std::int64_t resident = 0;            ///< Of tensors in RAM: held, reserved, in flight, page pool.
  std::int64_t resident_peak = 0;       ///< The most there were.
  std::int64_t tensor_bytes = 0;        ///< Of living tensors, wherever they are.
  std::int64_t tensor_bytes_peak = 0;   ///< The most there were.
  std::int64_t pinned = 0;              ///< Kept in RAM by a Pin.
  std::int64_t spilled = 0;             ///< With a valid copy on disk.
  std::int64_t spill_file = 0;          ///< Size of the spill file.
  std::int64_t read_bytes = 0;          ///< Read back from disk.
  std::int64_t write_bytes = 0;         ///< Written to disk.
  std::int64_t prefetched_bytes = 0;    ///< Read ahead of need ...
  std::int64_t prefetch_hit_bytes = 0;  ///< ... and used.
  std::int64_t demand_bytes = 0;        ///< Read when something waited for them.
  std::int64_t stall_nanoseconds = 0;   ///< Time that ops and allocations waited.
  std::int64_t steps = 0;               ///< How often step() was called.
  std::int64_t ops = 0;                 ///< How many ops came by.
  std::int64_t evictions = 0;           ///< How often something left RAM.
  std::int64_t min_budget = 0;          ///< The smallest budget this program would have run in.
  std::string min_budget_op;            ///< The op that needs it.
  std::int64_t refused_ops = 0;         ///< That were told of an error in place of running.
  std::int64_t min_spill_file = 0;      ///< What those refused for want of disk needed; 0: none was.
  std::string mechanism;                ///< How page faults are answered.
  std::string policy;                   ///< As given.
  std::string spill_dir;                ///< Where the spill file is.
};

/// Keeps the tensors of this process within a budget while it lives.
///
/// One session at a time in a process. It manages what ops of the thread that makes it, and of
/// autograd's threads, use: tensors made before it are adopted in place when an op first uses them.
/// Other threads of yours that run tensor ops hold a ThreadGuard.
///
/// Tensors may outlive the session: when it ends they all come back into RAM.
class Session {
 public:
  /// Checks everything that can fail before training starts.
  /// \throws Error where the options, the spill directory or this machine do not allow a session.
  explicit Session(const SessionOptions& options);
  /// As close(); what close() would throw goes to standard error, and the tensors stay managed (and
  /// valid) until the process ends.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// The end of one training iteration: what the policy learns from.
  void step();

  /// What happened so far; all zero after close().
  SessionStats stats() const;

  /// Brings every tensor back into RAM and lets go. Later calls do nothing.
  /// \throws BudgetError where RAM cannot hold them; then nothing has changed.
  void close();

 private:
  bool open_ = false;
  bool thread_was_covered_ = false;
};

/// Covers the calling thread while it lives. Harmless without a session.
class ThreadGuard {
 public:
  /// From here on, ops of this thread are seen.
  ThreadGuard();
  /// Back to how it was.
  ~ThreadGuard();
  ThreadGuard(const ThreadGuard&) = delete;
  ThreadGuard& operator=(const ThreadGuard&) = delete;

 private:
  bool before_;
};

/// Keeps a tensor in RAM while it lives, or until the tensor dies: for what is needed all the time,
/// and for bytes that other code reaches through raw pointers.
///
/// What is pinned is room that all other tensors lack: at most three quarters of the budget can be.
/// Without a session it does nothing. It may outlive the session.
class Pin {
 public:
  /// Brings the tensor's bytes back where they had left.
  /// \throws BudgetError where they do not fit; SpillError where they cannot be read back.
  explicit Pin(const at::Tensor& tensor);
  /// As release().
  ~Pin();
  /// The other one pins nothing any more.
  Pin(Pin&& other) noexcept;
  /// Releases what this one pins first.
  Pin& operator=(Pin&& other) noexcept;

  /// Lets the tensor leave again. Later calls do nothing.
  void release() noexcept;

 private:
  struct Held;
  std::unique_ptr<Held> held_;
};

/// When a tensor is used next.
enum class Use {
  kSoon,  ///< Brought back now, as far as there is room, and among the last to leave.
  kLater  ///< Among the first to leave when room is needed; not fetched ahead.
};

/// Says what the policy cannot know because it depends on the input: which tensor is used next. Say
/// it in the order of use. "Later" holds until the tensor is used, "soon" for two steps at most. It moves bytes at
/// other times and never changes a result; a wrong hint costs time.
///
/// Without a session it does nothing.
void hint(const at::Tensor& tensor, Use next = Use::kSoon);

}  // namespace api
}  // namespace outsize
