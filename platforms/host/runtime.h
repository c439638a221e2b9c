// The live driver on RAM + disk: what the adapter talks to.
//
// It owns the arena (stable addresses), the page mover, the spill file and its I/O threads, and
// feeds the engine real inputs one at a time under one short lock. All policy is in the engine's
// planner; all torch is in the adapter.
//
// Threading: every function may be called from any thread, with or without Python's GIL. Functions
// that may block say so; what a thread should let go of meanwhile (the GIL) is up to WaitHooks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/types.h"

namespace outsize::host {

enum class FaultMechanism : std::uint8_t { kAuto, kUserfaultfd, kSignal };

struct UntrackedBytes {
  std::string op;     // empty: while no op ran
  Bytes bytes = 0;
};

// What happened when (core/trace/timeline.h), as JSON, and how a person calls the op sites in it.
struct TimelineTold {
  std::string json;  // empty: none was kept
  std::vector<std::pair<SiteId, std::string>> names;
};

struct RuntimeOptions {
  Bytes budget = 0;             // bytes of tensors in RAM, page pool and in-flight reads included
  Bytes process_budget = 0;     // > 0: for all that the process holds in RAM; `budget` follows from it
  std::string policy = "lookahead";
  std::string pilot;            // path of a model that policy pilot begins with (traces/pilot_file.h); empty: none
  std::string foresee;          // path of the trace that policy oracle foresees from; empty: none
  std::string spill_dir;        // empty: $TMPDIR, else /var/tmp
  Bytes spill_limit = 0;        // 0: what the file system has free
  std::uint64_t disk_write_limit = 0;  // bytes a second on average; 0: none
  FaultMechanism faults = FaultMechanism::kAuto;
  int io_threads = 4;
  bool verify = false;          // checksum every spilled extent and check it when it returns
  std::string decision_log;     // path; empty: none
  std::string record;           // path of a trace of the run (docs/TRACE.md); empty: none
  std::string record_meta;      // what the trace says of the program and the machine: a JSON object
};

// What became of a trace. No path: none was recorded.
struct Recorded {
  std::string path;
  Bytes bytes = 0;
  std::uint64_t ops = 0, steps = 0;
  std::string error;  // why it is not whole; empty: it is
};


// A byte range an op reads or writes. Ranges that no extent of ours covers are ignored.
struct Operand {
  const void* address = nullptr;
  std::size_t bytes = 0;
  Access access = Access::kRead;
};

struct Stats {
  Bytes budget = 0, resident = 0, resident_peak = 0;  // resident: extents + reserved + in flight + pool
  Bytes tensor_bytes = 0, tensor_bytes_peak = 0;      // live bytes asked for, wherever they are
  Bytes pinned = 0;                                   // by pin(), not by ops
  Bytes spilled = 0, spill_file = 0;                  // valid bytes below; size of the spill file
  Bytes read_bytes = 0, write_bytes = 0, dropped_bytes = 0;
  Bytes prefetched_bytes = 0, prefetch_hit_bytes = 0, demand_bytes = 0;
  Nanos stall = 0;              // time ops and allocations waited
  std::int64_t steps = 0, ops = 0, raw_faults = 0, reads = 0, writes = 0, evictions = 0;
  Bytes min_budget = 0;         // the smallest budget this program would run in, as seen so far
  std::size_t named_sites = 0;
  std::string min_budget_op;    // the op that needs it (name registered with name_site)
  std::int64_t refused_ops = 0;  // that were told of an error in place of running
  Bytes min_spill_file = 0;     // the spill file that those refused for want of room in it needed; 0: none was
  Bytes small_held = 0, small_live = 0;
  Bytes arena_bytes = 0;        // address space in use by live extents
  std::string mechanism;        // "userfaultfd+move", "userfaultfd+copy", "signal"
  bool small_pages = false;     // chosen or on trial just now
  Bytes bounced_bytes = 0;      // read and written through bounce buffers (io_bounce.h)
  std::string policy, spill_dir;
  std::string foresight;        // who foresees now, where the policy chooses (Predictor::foresight)
  std::string warning;          // about the spill directory; empty: none
  Bytes disk_size = 0;          // of the file system the spill file is on
  std::uint64_t disk_write_limit = 0;  // as asked for
  Nanos held_back = 0;          // time in which needed writes waited for that limit
  Bytes verified_bytes = 0;     // hashed, when written or when they came back
  Nanos verify = 0;             // what that took, on I/O threads
  std::int64_t pilot_ops = 0, pilot_known_ops = 0;  // of the first steps; those that the pilot's model knew
  bool pilot_given_up = false;  // too few were: it has begun anew
  std::int64_t foresee_ops = 0, foresee_known_ops = 0;  // of policy oracle; those that came as recorded
  bool foresee_given_up = false;  // the rest did not: nothing is foreseen any more
  Bytes process_budget = 0, process_peak = 0;  // of resident bytes, as looked at every 5 ms
  std::vector<UntrackedBytes> untracked;       // largest rises that were no tensors, by op site
};

// What one pin() holds: an extent, and its birth, which tells it from a later extent of that id.
struct Pinned {
  ExtentId extent = kNoExtent;
  std::uint64_t born = 0;
  const void* address = nullptr;  // the first of several extents has what was asked for
  std::size_t bytes = 0;
};
using Pins = std::vector<Pinned>;

// Called around every wait of an op or an allocation: `leave` lets go of what others may need in
// order to go on, `back` takes it again and is given what `leave` returned.
struct WaitHooks {
  void* (*leave)() = nullptr;
  void (*back)(void* left) = nullptr;
};

class Runtime {
 public:
  // For the life of the process; both functions or none. Before the first create().
  static void set_wait_hooks(WaitHooks hooks) noexcept;

  // Checks everything that can fail before training starts: budget, spill directory (tmpfs, full,
  // read-only), fault mechanism. One Runtime a process at a time.
  static Result<std::unique_ptr<Runtime>> create(const RuntimeOptions& options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // The running one, or null. Set by create, cleared by destruction.
  static Runtime* current() noexcept;

  // Memory, 64-byte aligned, contents unspecified. May block until there is room; never needs the
  // GIL. `bytes` == 0 gives null.
  Result<void*> allocate(std::size_t bytes);
  // Any address from allocate; resident or not. Never blocks on I/O. Safe after shutdown().
  static void deallocate(void* address) noexcept;
  // Whether `address` lies in the arena (also true after shutdown()).
  static bool owns(const void* address) noexcept;

  // Bytes that are in RAM already will be adopted: others make way. May block. Until this thread
  // calls `end_adoption`, and it must begin no op before, nobody else takes the room.
  void room_to_adopt(std::size_t bytes);
  void end_adoption() noexcept;
  // Takes over, in place, memory that was born before us: addresses do not change. `free` is called
  // with `address` when deallocate_adopted is. Private file mappings keep their file as lower copy.
  // Returns false where the range cannot be adopted (shared mapping, too small): leave it alone.
  // Never blocks; the bytes are counted at once and made room for at the next op.
  bool adopt(void* address, std::size_t bytes, void (*free)(void* context), void* context);
  static void deallocate_adopted(void* address) noexcept;

  // Marks the start of an op on this thread: makes every operand resident and pins it, all or
  // nothing. Nests: the caller's pins are suspended until the inner op ends. May block. On error
  // nothing is pinned and the op must not run, nor op_end be called. `flags`: trace::OpFlag.
  Status op_begin(SiteId site, std::span<const Operand> operands, std::uint8_t flags, GraphPlace graph = 0);
  // Ends the innermost op of this thread; what was born inside it becomes evictable.
  void op_end() noexcept;

  // The next op will need so many bytes that pass no allocator of ours (scratch of a sort): with a
  // process_budget, room is made for them before. May block. On error the op must not run.
  Status expect_untracked(std::size_t bytes, const std::string& op);
  bool has_process_budget() const noexcept;

  // For messages and reports only: remembers a printable name of a site (first one wins). Where shapes
  // never recur there is no end of sites: of so many, those that no message needs are forgotten.
  static constexpr std::size_t kNamesMax = 1U << 15;
  void name_site(SiteId site, const char* name);
  // How often that has happened: whoever remembers what he has named must name it again.
  static std::uint32_t names_forgotten() noexcept { return names_forgotten_.load(std::memory_order_relaxed); }

  // Marks the boundary between training steps. May block for bookkeeping, never on I/O.
  void step();

  // Raw pointers to these bytes are about to be handed out (numpy(), data_ptr()): from now on writes
  // may come that no dispatcher sees, so they arrive guarded from the first moment.
  void expose(const void* address, std::size_t bytes);
  // Brings the bytes back and keeps them until unpin or their death. May block.
  Result<Pins> pin(const void* address, std::size_t bytes);
  // Also after shutdown(), and after the bytes have died.
  static void unpin(const Pins& pins) noexcept;
  // The program's own word: these bytes are used soon (brought back while there is time), or not
  // soon (the first to leave). Holds until they are used. Never blocks.
  void hint(const void* address, std::size_t bytes, bool soon);

  // What the sample that the next ops work on looks like: for the predictor, and for the trace where one is
  // recorded.
  void sample(std::vector<std::pair<std::string, std::vector<double>>> features);
  // Ends the trace, if one is being recorded (the end of the session does so too), and says what became
  // of the latest one. A trace that cannot be written stops nobody: it is told here. Also after shutdown().
  static Recorded end_recording();

  // From here on, what happens when is kept of the last so many steps. It costs a look at the clock an op.
  void keep_timeline(std::int64_t steps);
  // Ends it, as the end of the session does too, and says what it held. Also after shutdown().
  static TimelineTold timeline();

  // Brings every spilled byte back and stops managing: later allocations must go elsewhere, old
  // addresses stay valid and deallocate still works. Fails, changing nothing, if RAM cannot hold it.
  Status shutdown();

  // Whoever was refused is called `name`, as its Error was until now `who`; for stats().
  void rename_refused(const std::string& who, const std::string& name);
  Stats stats() const;

  struct Impl;  // runtime_impl.h

 private:
  Runtime();
  static inline std::atomic<std::uint32_t> names_forgotten_{0};
};

}  // namespace outsize::host
