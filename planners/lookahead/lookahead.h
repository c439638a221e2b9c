// `lookahead`: Belady over what the predictor foresees. The extent whose next use is farthest
// leaves first; what is used soon comes ahead of need, as long as the victim's use is farther than
// its own; what will leave is written ahead, so that leaving is free.
//
// Ahead of need, but not earlier than that: what comes too early takes room from what is used before
// it and so is paid for twice; what is written too early may be changed again. Both are begun when
// the time left is a small multiple of what the transfers up to there take.
#pragma once

#include <array>

#include "core/plan/planner.h"
#include "core/residency/victim_heap.h"

namespace outsize::lookahead {

class LookaheadPlanner final : public Planner {
 public:
  LookaheadPlanner(const ExtentTable& table, const Predictor& predictor)
      : table_(table), predictor_(predictor) {}
  const char* name() const override { return "lookahead"; }
  void on_resident(ExtentId id) override { heap_.put(id, next_use(id)); }
  void on_gone(ExtentId id) override { heap_.remove(id); }
  void on_rekey() override;
  void victims(bool last_choice, std::size_t limit, std::vector<ExtentId>& out) override;
  bool needed_soon(ExtentId id) const override;
  void plan(const PlanState& state, std::vector<Decision>& out) override;

 private:
  struct Draft;  // what this plan has taken so far
  Position next_use(ExtentId id) const {
    return hinted_use(table_[id], predictor_.position(), predictor_.next_use(id));
  }
  void gather(Draft& draft);
  void make_headroom(Draft& draft);
  void prefetch(Draft& draft);
  void write_ahead(Draft& draft);
  Bytes headroom_before(const Draft& draft, Position position) const;
  bool free_up(Draft& draft, Bytes need, Position beyond);

  static constexpr Position kSoonOps = 12;
  static constexpr Nanos kHeadroom = 30'000'000;      // births of this time ahead find room
  static constexpr Nanos kWriteAhead = 2'000'000'000; // what must leave within it is written now
  static constexpr std::uint64_t kRate = 500'000'000;  // bytes a second, until measured
  static constexpr Nanos kReadMargin = 30'000'000, kWriteMargin = 100'000'000;
  static constexpr Nanos kReadFactor = 4, kWriteFactor = 8;  // of the transfers' own time
  static constexpr std::size_t kVictims = 512;        // looked at in one plan

  const ExtentTable& table_;
  const Predictor& predictor_;
  VictimHeap heap_;
  std::vector<ExtentId> order_;  // scratch: victims of one plan, best first
  std::array<Upcoming, 1024> upcoming_{};
};

}  // namespace outsize::lookahead
