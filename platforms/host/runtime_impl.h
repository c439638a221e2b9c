// The body of the Runtime: tables, and the one place where engine commands become page moves and
// transfers. Split over runtime.cpp (the adapter's calls), runtime_commands.cpp (commands and
// completions), runtime_threads.cpp (waiting), runtime_adopt.cpp (memory born before us),
// runtime_wishes.cpp (what the program says itself), runtime_record.cpp (the trace) and runtime_fork.cpp.
#pragma once

#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/engine/engine.h"
#include "core/trace/decision_log.h"
#include "core/trace/timeline.h"
#include "planners/registry/policies.h"
#include "platforms/host/clock.h"
#include "platforms/host/io_pool.h"
#include "platforms/host/machine_error.h"
#include "platforms/host/memory_watch.h"
#include "platforms/host/page_choice.h"
#include "platforms/host/page_mover.h"
#include "platforms/host/page_pool.h"
#include "platforms/host/runtime.h"
#include "platforms/host/runtime_lock.h"
#include "platforms/host/small_storages.h"
#include "platforms/host/spill_file.h"
#include "platforms/host/trace_recorder.h"
#include "platforms/host/untracked.h"

namespace outsize::host {

// What the driver knows of an extent beyond the engine's record.
struct HostExtent {
  enum class Kind : std::uint8_t { kNone, kLarge, kSmall, kAdopted };
  Kind kind = Kind::kNone;
  PageRange range;               // where its bytes belong
  PageRange staging;             // where a read under way puts them
  Slot slot;                     // its copy in the spill file
  Bytes asked = 0;               // bytes the program asked for (large)
  int source_fd = -1;            // adopted file mapping: its copy is there ...
  std::int64_t source_offset = 0;
  std::uint64_t checksum = 0;    // of the bytes in `slot`, with options.verify

  bool copy_is_source() const { return !slot.valid() && source_fd >= 0; }
};

// One per thread that came by. Only its own thread waits on `signal`.
struct ThreadSlot {
  ThreadId id = 0;
  std::uint32_t depth = 0;            // ops begun and not ended
  std::vector<SiteId> sites;          // of those
  std::uint64_t ops = 0;              // begun so far
  std::uint32_t recorded = 0;         // ops that the trace has begun and not ended
  bool expects = false;               // an op that takes `expected` bytes of scratch runs, begun at
  std::uint32_t expects_at = 0;       // this depth
  Bytes expected = 0;
  std::atomic<std::uint32_t> signal{0};
  bool refused = false;
  Refusal refusal = Refusal::kBudget;
  Bytes needed = 0;
  Error error;
  // What it waits for in kAlloc. It is given its pages with the grant, before anyone else can give
  // the newborn extent orders.
  ExtentId birth = kNoExtent;
  Bytes birth_bytes = 0;
  HostExtent::Kind birth_kind = HostExtent::Kind::kNone;  // kNone: only the room is wanted
  Status birth_status;

  Nanos mark = 0;             // up to when the timeline knows its work

  bool adopting = false;      // between room_to_adopt and end_adoption: an op is open for it
  ExtentId room = kNoExtent;  // what holds the room meanwhile
};

// This thread's, once it has one. Read in every op.
extern constinit thread_local ThreadSlot* tls_slot __attribute__((tls_model("initial-exec")));

// A budget below this holds not even one small tensor.
inline constexpr Bytes kBudgetMin = 2 * kSharedBytes;

struct AdoptedRange {
  char* begin = nullptr;   // of the storage
  std::size_t bytes = 0;
  char* first = nullptr;   // first managed byte, page aligned
  Bytes managed = 0;
  std::vector<ExtentId> pieces;  // kAdoptedPiece bytes each, the last may be shorter
  std::uint32_t pieces_left = 0;
  void (*free)(void*) = nullptr;
  void* context = nullptr;
  int fd = -1;
};

struct Runtime::Impl {
  static constexpr std::uint32_t kArenaChunksMax = 1U << 19;  // 1 TiB of addresses
  // Of a file that holds a whole model, an op needs the pieces in which its operands lie: small ones.
  static constexpr Bytes kAdoptedPiece = kChunkBytes;

  Impl(const RuntimeOptions& runtime_options, char* arena, std::uint32_t chunks);

  struct Held {
    std::uint64_t born = 0;
    std::uint32_t pins = 0;
  };

  // --- set-up (runtime.cpp)
  static Result<std::unique_ptr<Impl>> make(const RuntimeOptions& options);
  Status start(const RuntimeOptions& options);
  Policy make_chosen_policy();
  Status read_recording(Beginning& beginning);
  void tell_policy(Stats& stats) const;
  void fit_into_budget(std::unique_lock<RuntimeLock>& guard);
  Status stop();
  Status bring_back();                       // the greater part of stop()
  void start_watch();
  void cover_modules() const;                // not under the lock
  std::vector<OperandRef> living() const;

  // --- under the lock
  Outcome feed(const Input& input);          // engine, then its commands
  void run_commands();                       // runtime_commands.cpp
  void run(const Command& command);
  void start_write(const Command& command);
  void start_fetch(const Command& command);
  const ThreadSlot* reader_of(Urgency urgency) const { return urgency == Urgency::kDemand ? reader : nullptr; }
  void install(const Command& command);
  void evict(ExtentId id);
  void release(ExtentId id);
  void bury(ExtentId id);                    // tells the engine that it died
  void bury_emptied();
  void forget(ExtentId id);
  void forget_copy(ExtentId id);
  void io_failed(ExtentId id, bool write, Error error);
  void no_slot(ExtentId id, const Error& error);
  const Error& last_failure() const { return no_room ? *no_room : io_error; }
  void plan_if_useful(Nanos now);
  ExtentId extent_at(const void* address) const;
  ExtentId new_id();
  Result<void*> allocate_large(ThreadSlot& slot, std::size_t bytes);
  Result<void*> allocate_small(ThreadSlot& slot, std::size_t bytes);
  Result<ExtentId> new_extent(ThreadSlot& slot, Bytes bytes, HostExtent::Kind kind);
  Status begin_own_op(ThreadSlot& slot, const char* doing);
  void end_own_op(ThreadSlot& slot);
  Result<ExtentId> new_extent_in_own_op(ThreadSlot& slot, Bytes bytes, HostExtent::Kind kind, const char* doing);
  Result<PageRange> take_pages(Bytes bytes);
  void give_pages(ThreadSlot& slot);
  void give_pages_and_record(ThreadSlot& slot);
  Result<ExtentId> new_extent_in_op(ThreadSlot& slot, Bytes bytes, HostExtent::Kind kind, const char* doing);
  void resolve(std::span<const Operand> operands);
  Error refusal_error(const ThreadSlot& slot, const char* doing);
  std::string op_name(SiteId site, const char* otherwise) const;
  void forget_names();
  Error budget_error(Bytes needed, const char* doing, SiteId site);
  Error told_in_op(Error error, const char* doing, SiteId site);
  Status wait(ThreadSlot& slot, trace::WaitCause cause, const char* doing, Nanos since);
  Status begin_op(ThreadSlot& slot, SiteId site, std::span<const Operand> operands, bool in_backward,
                  GraphPlace graph);
  void end_op(ThreadSlot& slot);
  Status room_below(Bytes bytes);
  void counts(ExtentId id, bool alive);
  Bytes min_budget() const;
  Bytes file_size() const { return spill ? spill->size() : 0; }

  // --- on other threads
  void io_done(const IoResult& result);
  Status verified(ExtentId id, bool write);  // checks what was read, remembers what was written
  void on_fault(const Fault& fault);
  bool is_stray(const char* address);

  // --- adoption (runtime_adopt.cpp), under the lock
  void room_to_adopt(ThreadSlot& thread, Bytes bytes);
  void room_in_own_op(ThreadSlot& thread, Bytes bytes, const char* doing);
  void leave_room(ThreadSlot& thread);
  bool adopt_range(AdoptedRange range, bool file);
  bool replace_mapping(char* address, Bytes bytes, int fd, std::int64_t offset, bool& absent);
  const AdoptedRange* adopted_at(const void* address) const;
  void release_adopted(ExtentId id);
  void add_adopted_operands(const Operand& operand);

  // --- what is no tensor (runtime_untracked.cpp)
  void look_at_memory();                     // on the watch's thread
  Status derive_budget();
  void look();                               // under the lock, as the others
  void follow_process_budget();
  Bytes least_budget() const;
  Status expect_untracked(ThreadSlot& slot, Bytes bytes, const std::string& op);
  void scratch_is_back(ThreadSlot& slot);
  void change_budget(Bytes bytes);
  void trim_to_budget();                     // pages that nobody needs and that exceed it

  // --- what the program says itself (runtime_wishes.cpp), under the lock
  bool alive(ExtentId id, std::uint64_t born) const {
    return table[id].born == born && table[id].where != Where::kFree && !table[id].dying;
  }
  Bytes pinned() const;
  bool try_pin(const Operand& operand, Pins& pins);

  // --- the trace (runtime_record.cpp), under the lock and, but for the first, only where there is one
  Status start_recording();
  void record_op_end(ThreadSlot& slot);
  void record_living();
  void record_fault(ExtentId id, const Fault& fault);
  void record_resumed(ExtentId id);
  std::unique_ptr<TraceRecorder> stop_recording();
  // This thread, where it has a number: a tensor may die in one that never ran an op.
  static ThreadId thread_id() { return tls_slot != nullptr ? tls_slot->id : trace::kUnknownThread; }
  // not under the lock
  Recorded end_recording(Nanos now);

  // --- the timeline (runtime_timeline.cpp), under the lock and only while one is kept
  Nanos on_timeline(Nanos now) const { return now - timeline_from; }
  void tell_work(ThreadSlot& slot, Nanos now);   // of its innermost op, since the mark
  void tell_wait(ThreadSlot& slot, trace::WaitCause cause, Nanos since);
  void tell_asked(ExtentId id, bool write, Urgency urgency);
  void tell_ended(ExtentId id, bool write, bool failed, Nanos took);
  void end_timeline();

  // --- fork (runtime_fork.cpp)
  void before_fork();
  void after_fork_parent();
  void after_fork_child();

  ThreadSlot& slot() { return tls_slot != nullptr ? *tls_slot : make_slot(); }
  ThreadSlot& make_slot();

  RuntimeOptions options;
  mutable RuntimeLock lock;
  char* arena = nullptr;
  std::uint32_t arena_chunks = 0;
  std::vector<ExtentId> chunk_owner;  // by chunk; kNoExtent: nobody's
  std::unique_ptr<PageMover> mover;
  AddressSpace space;
  std::unique_ptr<PageChoice> page_choice;
  std::unique_ptr<PagePool> pool;
  ExtentTable table;
  std::vector<HostExtent> extents;    // by id
  std::vector<ExtentId> free_ids;
  std::unique_ptr<SmallStorages> small;
  std::unique_ptr<SpillFile> spill;
  std::shared_ptr<IoPool> io;         // shared with threads that wait and read meanwhile
  const ThreadSlot* reader = nullptr;  // its op is being decided on; if it has to wait it reads itself what it waits for
  std::unique_ptr<Engine> engine;
  Commands commands;
  std::size_t next_command = 0;
  bool running_commands = false;
  std::vector<OperandRef> refs;       // scratch
  std::vector<std::unique_ptr<ThreadSlot>> threads;  // by id
  std::vector<ThreadSlot*> free_slots;               // of threads that have ended
  std::map<const char*, AdoptedRange> adopted;  // by begin
  const char* adopted_begin = nullptr;          // bounds of all of them
  const char* adopted_end = nullptr;
  std::unordered_map<SiteId, std::string> names;
  std::map<ExtentId, Held> held;                // by pin()
  std::string pilot_model, foreseen_run;  // their names; empty: none
  std::unique_ptr<DecisionLog> log;
  std::FILE* log_file = nullptr;
  std::unique_ptr<TraceRecorder> recorder;         // null: nothing is recorded
  std::unordered_map<ExtentId, Nanos> faulted;     // raw accesses that wait, while there is one
  Recorded recorded;                               // the latest

  std::unique_ptr<Timeline> timeline;              // null: nobody asked for one
  Nanos timeline_from = 0;
  TimelineTold timeline_told;                      // the latest

  bool serving = false;     // between start and stop
  bool io_error_pending = false;
  Error io_error;
  std::optional<Error> no_room;  // a write found no slot, and no transfer failed or began since
  std::int64_t refused_ops = 0;
  Bytes min_spill_file = 0;
  std::string refused_birth;  // who was refused the most outside ops, where only the error knows a name
  const char* stray = nullptr;  // last raw access to no tensor, and how often in a row
  int strays = 0;
  Nanos stall = 0, last_plan = 0;
  Bytes alive_bytes = 0;     // bytes of extents that RAM and the spill file hold between them
  Bytes largest_extent = 0;  // of these, ever
  int of_file = 0;           // extents whose copy is a file of the user's
  Bytes largest_of_file = 0;
  Bytes large_live = 0, tensor_peak = 0, verified_bytes = 0;
  Nanos verify = 0;
  ResidentSize resident_size;
  std::unique_ptr<MemoryWatch> watch;
  UntrackedLedger untracked;
  std::vector<UntrackedLedger::Running> running_ops;  // scratch
  Bytes process_peak = 0;
  std::atomic<bool> in_child{false};
};

// The Impl of this process, kept for its life once made: addresses outlive every Runtime.
Runtime::Impl* the_impl() noexcept;

}  // namespace outsize::host
