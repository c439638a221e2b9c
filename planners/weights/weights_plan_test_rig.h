// What tests of the planner alone share: a predictor that says what the test wants it to say, a step of ten ops.
#pragma once

#include <map>

#include "planners/planner_test_rig.h"
#include "planners/weights/weights.h"

namespace outsize::weights {

inline constexpr std::uint32_t kOps = 10;

// An op takes a second.
class Prophet final : public ProphetBase {
 public:
  Bytes demand_within(Nanos) const override { return 0; }
  bool read_cycle(const ExtentTable&, Cycle& out) const override {
    ++reads;
    out = cycle;
    return known;
  }
  bool cycle_repeats() const override { return repeats; }
  std::uint32_t cycle_place() const override { return on_path ? static_cast<std::uint32_t>(now % kOps) : kNoPlace; }
  std::uint32_t gap_of(ExtentId id) const override {
    ++gaps_asked;
    return on_path && gaps.contains(id) ? gaps.at(id) : kNoGap;
  }
  std::size_t upcoming(std::span<Upcoming> out) const override {
    looks += !out.empty();
    return ProphetBase::upcoming(out);
  }

  std::map<ExtentId, std::uint32_t> gaps;
  Cycle cycle;
  bool known = true, on_path = true, repeats = false;
  mutable int reads = 0;  // of the cycle
  mutable int looks = 0, gaps_asked = 0;

 private:
  Nanos time_until(Position position) const override { return static_cast<Nanos>(position - now) * 1'000'000'000; }
  Bytes demand_before(Position) const override { return 0; }
};

// Extents of 10 MiB, a budget of 80 MiB. The step is over it only where a test says so.
class WeightsPlan : public PlannerTest<WeightsPlanner, Prophet> {
 protected:
  WeightsPlan() {
    table_.ensure(32);
    state_.budget = 80 * kMiB;
    state_.reading_max = state_.writing_max = 20 * kMiB;
    state_.read_rate = state_.write_rate = 1'000'000'000;
    prophet_.cycle.more.assign(kOps, 0);
  }
  // Its gap ends with the use in `use` ops; its gap begins at once and covers what the cycle has over. Without one it
  // stays.
  void add(ExtentId id, Where where, Below below, Position use, bool has_gap = true) {
    put(id, where, below, use);
    const auto number = static_cast<std::uint32_t>(prophet_.cycle.gaps.size());
    prophet_.cycle.gaps.push_back({has_gap ? table_[id].bytes : 0, 0, static_cast<std::uint32_t>(use),
                                   prophet_.cycle.versions++, kNoGap, number, true, true, true});
    prophet_.gaps[id] = number;
    if (where == Where::kResident) planner_.on_resident(id);
  }
  // It has no part in the cycle.
  void idle(ExtentId id) {
    put(id, Where::kResident, Below::kNone, 5);
    planner_.on_resident(id);
  }
  void put(ExtentId id, Where where, Below below, Position use) {
    Extent& e = table_[id];
    e.bytes = 10 * kMiB;
    e.where = where;
    e.below = below;
    e.last_use = id;
    prophet_.uses[id] = prophet_.now + use;
  }
  void here(ExtentId id, Position use, bool has_gap = true) { add(id, Where::kResident, Below::kValid, use, has_gap); }
  void changed(ExtentId id, Position use) { add(id, Where::kResident, Below::kNone, use); }
  void below(ExtentId id, Position use, bool has_gap = true) { add(id, Where::kAbsent, Below::kValid, use, has_gap); }
  // In ops [from, to) so many MiB more are alive than at the step's begin.
  void births(std::size_t from, std::size_t to, Bytes mib) {
    for (std::size_t op = from; op < to; ++op) prophet_.cycle.more[op] = mib * kMiB;
  }
  int looks() {  // of a plan
    const int before = prophet_.looks;
    plan();
    return prophet_.looks - before;
  }
};

}  // namespace outsize::weights
