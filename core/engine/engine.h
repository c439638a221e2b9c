// The engine: a deterministic state machine over extents. step(input) -> commands. It starts no
// thread, reads no clock, does no I/O and knows no address; the same inputs give the same commands,
// byte for byte (invariant 10). It validates what planners decide and carries it out.
//
// Rights. An op's operands are pinned all or nothing before it runs and unpinned when it ends; a
// nested op suspends its caller's pins (they become last-choice victims). Waiting threads form a
// queue: allocations inside running ops first, then ops, each in order of arrival. Only the head
// makes room. When it cannot, the pins of other waiting threads are lent to it; when that is not
// enough and nobody runs, it is refused (invariant 11).
//
// Costs: kOpBegin and kOpEnd are linear in the op's operands and allocate nothing once warm; while
// less than half the budget has ever been used neither predictor nor planner is asked.
//
// Not thread-safe: the driver serialises.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/input.h"
#include "core/plan/planner.h"
#include "core/plan/predictor.h"
#include "core/residency/extent.h"
#include "core/trace/decision_log.h"

namespace outsize {

struct EngineOptions {
  Bytes budget = 0;
  Bytes reading_max = 64 * kMiB;  // bytes of prefetch in flight
  Bytes writing_max = 64 * kMiB;  // bytes of write-ahead in flight
};

// How often the planner is asked on the op path, in the live driver and in what is to foretell it.
inline constexpr Nanos kPlanEvery = 300'000;

// With as much in flight each way as does not crowd out the rest.
inline EngineOptions engine_options(Bytes budget) {
  const Bytes slots = std::clamp<Bytes>(budget / 8, 4 * kMiB, 64 * kMiB);
  return {budget, slots, slots};
}

struct EngineStats {
  Bytes resident = 0, resident_peak = 0;
  Bytes read = 0, written = 0, dropped = 0;
  Bytes prefetched = 0, demanded = 0;
  // Of what was prefetched, for whoever asked: used by an op or a raw access that waited; left, failed or died unused.
  Bytes prefetch_hit = 0, prefetch_missed = 0;
  Bytes below = 0;  // bytes with a valid copy on the next tier
  std::int64_t reads = 0, writes = 0, evictions = 0, faults = 0, ops = 0, steps = 0;
  Bytes need_peak = 0;  // largest sum of one op's operands and births: the smallest budget
  SiteId need_site = 0;
};

class Engine {
 public:
  Engine(const EngineOptions& options, std::unique_ptr<Predictor> predictor,
         std::unique_ptr<Planner> planner, ExtentTable& table);

  // Appends commands; the driver carries them out in order. kOpBegin, kAlloc and kPin may answer
  // kWait, and so may kTouch, which then is refused at once; every other input answers kGo.
  Outcome step(const Input& input, Commands& commands);

  // A new budget and policy for extents and threads that go on; statistics begin anew.
  void restart(const EngineOptions& options, std::unique_ptr<Predictor> predictor,
               std::unique_ptr<Planner> planner);

  void set_log(DecisionLog* log) { log_ = log; }

  const ExtentTable& table() const { return table_; }
  const PrefetchAccount& foreseen() const { return foreseen_; }
  const EngineStats& stats() const { return stats_; }
  Bytes budget() const { return options_.budget; }
  Bytes free() const { return options_.budget - stats_.resident; }
  // Whether a kPlan input could do something now.
  bool wants_plan() const {
    return watching_ && (reading_ < options_.reading_max || writing_ < options_.writing_max);
  }
  bool watching() const { return watching_; }
  bool in_op(ThreadId id) const { return id < threads_.size() && !threads_[id].frames.empty(); }
  Bytes reading() const { return reading_; }
  Bytes writing() const { return writing_; }
  // What the predictor's tables hold (not part of the budget).
  Bytes table_bytes() const { return predictor_->table_bytes(); }
  // Who foresees, in words; empty where that never changes.
  std::string foresight() const { return watching_ ? predictor_->foresight() : std::string(); }
  const Predictor& predictor() const { return *predictor_; }

 private:
  struct Entry {
    ExtentId extent = kNoExtent;   // kNoExtent: it died meanwhile
    std::uint64_t listed = 0;      // serial of the frame that listed it before this one
    Access access = Access::kRead;
    bool pinned = false;
    bool born = false;
    bool inherited = false;        // born in an inner op
    bool loose = false;            // never pinned: raw accesses bring it
  };
  struct Frame {
    std::size_t first = 0;  // in Thread::entries
    std::uint64_t serial = 0;
    SiteId site = 0;
    Bytes bytes = 0;   // of its living entries
    Bytes shared = 0;  // of these, shared by small storages
    std::uint32_t small = 0, small_born = 0;  // small storages: all it met, born in it
    std::uint32_t inherited = 0, dead = 0;  // entries of that kind
  };
  struct Kept {  // inherited once, now only soft
    ExtentId extent = kNoExtent;
    std::uint64_t born = 0;  // tells it from a later extent of that id
  };
  struct Hinted {
    ExtentId extent = kNoExtent;
    std::uint64_t born = 0;
    std::int64_t step = 0;  // in which it was said
  };
  struct Thread {
    std::vector<Entry> entries;
    std::vector<Frame> frames;
    std::vector<Kept> kept;      // until the outermost frame ends
    bool waiting = false;
    bool entering = false;       // waits in kOpBegin: its frame goes away when refused
    Bytes alloc = 0;             // waits in kAlloc for this many bytes
    bool alloc_shared = false;
    ExtentId alloc_extent = kNoExtent;
  };

  Outcome op_begin(const Input& input);
  Outcome op_end(const Input& input);
  Outcome alloc(const Input& input);
  Outcome pin(const Input& input);
  Outcome touch(const Input& input);
  void adopt(const Input& input);
  void death(ExtentId id);
  void read_done(const Input& input);
  void read_failed(ExtentId id);
  void write_done(const Input& input);
  void write_dead(ExtentId id);
  void fault(const Input& input);
  void expose(ExtentId id);
  void plan(const Input& input);
  void set_budget(Bytes bytes);

  // what the program foretold (engine_hints.cpp)
  void hint(const Input& input);
  void serve_hints();
  bool make_hinted_room(Bytes need);
  bool needed_soon(ExtentId id) const {
    return table_[id].hint == Hint::kSoon || planner_->needed_soon(id);
  }
  void expire_hints();

  Thread& thread(ThreadId id);
  Outcome dispatch(const Input& input);
  static bool lists(const Thread& t, std::size_t end, ExtentId id);
  void add_entry(Thread& t, ExtentId id, Access access, bool born);
  void suspend(Thread& t);
  void restore(Thread& t);
  void pop_frame(Thread& t);
  void inherit(Thread& t, std::size_t first, std::size_t end);
  void tidy(Thread& t);
  void pin_entry(Entry& entry);
  void unpin_entry(Entry& entry);
  void born(Thread& t, ExtentId extent, Bytes bytes, bool shared);
  static Bytes need(const Frame& frame, Bytes bytes, Bytes shared, std::uint32_t small);
  static Bytes alloc_need(const Thread& t, Bytes bytes, bool shared);
  void note_need(Bytes bytes, SiteId site);
  void start_watching();
  void refresh(ExtentId id);

  // the next tier is full (engine_below.cpp)
  void no_slot(ExtentId id);
  void room_below() {
    full_for_ = 0;
    freed_below_ = true;
  }
  bool fits_below(const Extent& e) const { return full_for_ == 0 || e.bytes < full_for_; }
  Bytes give_up_copies(Bytes wanted);

  // waiting (engine_waiting.cpp)
  void enqueue(ThreadId id, Thread& t);
  void service();
  bool try_admit(ThreadId id, Thread& t);
  bool serve_faults();
  enum class Room : std::uint8_t { kMade, kComing, kNone };
  bool make_room(Bytes need);
  Room look_for_room(Bytes need, bool last_choice);
  bool cool_oldest(std::size_t keep);
  Bytes write_victim(ExtentId id);
  bool lend_pins(ThreadId but);
  bool loosen(Thread& t);
  bool others_run(ThreadId but) const;
  void refuse(ThreadId id, Thread& t, Refusal refusal, Bytes needed);
  void admit_ready();

  // residency
  void evict(ExtentId id);
  void close_prefetch(Extent& e, bool used);
  void fetch(ExtentId id, Urgency urgency, Prefetched why = Prefetched::kNo);
  void write(ExtentId id, Urgency urgency);
  void mark_changed(ExtentId id);
  void forget(ExtentId id);
  void charge(Bytes bytes);
  void credit(Bytes bytes) { stats_.resident -= bytes; }
  Command& emit(Command::Kind kind, ExtentId id);

  EngineOptions options_;
  std::unique_ptr<Predictor> predictor_;
  std::unique_ptr<Planner> planner_;
  ExtentTable& table_;
  EngineStats stats_;
  PrefetchAccount foreseen_;
  Commands* out_ = nullptr;
  DecisionLog* log_ = nullptr;

  std::vector<Thread> threads_;
  std::vector<ThreadId> queue_;        // waiting threads, best first
  std::vector<ExtentId> fault_queue_;  // absent extents a raw access waits for
  std::vector<ExtentId> hot_;          // extents a raw access waited for since the last op, oldest first
  std::vector<ExtentId> victims_;      // scratch
  std::vector<ExtentId> op_extents_;   // scratch
  std::vector<Access> op_accesses_;    // scratch
  std::vector<Decision> decisions_;    // scratch
  Bytes reading_ = 0, writing_ = 0;
  std::vector<Hinted> hints_;          // to be used soon, in the order in which it was said
  std::uint64_t clock_ = 0;   // inputs so far
  std::uint64_t serial_ = 0;  // frames so far
  std::uint64_t read_rate_ = 0, write_rate_ = 0;
  Nanos now_ = 0;
  int write_failures_ = 0;    // in a row, while a raw access waits for room
  bool watching_ = false;
  bool shrinking_ = false;    // the budget fell below what is resident
  bool hold_transfers_ = false;  // after a failed transfer, until an op or allocation comes
  bool freed_below_ = false;  // since a write last found no room
  Bytes full_for_ = 0;  // of so many bytes or more no write is begun until something changes; 0: of any
  ExtentId copies_from_ = 0;     // where the search for copies to give up goes on
};

}  // namespace outsize
