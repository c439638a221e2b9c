// For tests of planners alone: a predictor that says what the test wants it to say, and decisions as text.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/plan/planner.h"

namespace outsize {

class ProphetBase : public Predictor {
 public:
  const char* name() const override { return "prophet"; }
  void on_op(const OpEvent&) override {}
  void on_birth(ExtentId, Bytes) override {}
  void on_death(ExtentId, Bytes) override {}
  void on_step(Nanos) override {}
  Position position() const override { return now; }
  Position next_use(ExtentId id) const override {
    const auto at = uses.find(id);
    return at == uses.end() ? kNever : at->second;
  }
  // Soonest first, ties by id; as many as fit.
  std::size_t upcoming(std::span<Upcoming> out) const override {
    std::vector<Upcoming> coming;
    for (const auto& [id, position] : uses) {
      if (position == kNever) continue;
      coming.push_back({id, gap_of(id), position, time_until(position), demand_before(position)});
    }
    std::stable_sort(coming.begin(), coming.end(),
                     [](const Upcoming& a, const Upcoming& b) { return a.position < b.position; });
    const std::size_t count = std::min(coming.size(), out.size());
    std::copy_n(coming.begin(), count, out.begin());
    return count;
  }
  bool take_rekeyed() override { return false; }

  std::map<ExtentId, Position> uses;
  Position now = 1000;

 private:
  virtual Nanos time_until(Position position) const = 0;
  virtual Bytes demand_before(Position position) const = 0;
};

// "write:3 evict:2 fetch:1"
inline std::string plan_text(Planner& planner, const PlanState& state) {
  std::vector<Decision> decisions;
  planner.plan(state, decisions);
  std::string text;
  for (const Decision& decision : decisions) {
    constexpr const char* kNames[] = {"fetch", "write", "evict"};
    text += (text.empty() ? "" : " ") + std::string(kNames[static_cast<int>(decision.kind)]) + ":" +
            std::to_string(decision.extent);
  }
  return text;
}

// A planner that asks a prophet.
template <class Planner, class Prophet>
class PlannerTest : public testing::Test {
 protected:
  std::string plan() { return plan_text(planner_, state_); }
  std::vector<ExtentId> victims(bool last_choice = false) {
    std::vector<ExtentId> out;
    planner_.victims(last_choice, 100, out);
    return out;
  }

  ExtentTable table_;
  Prophet prophet_;
  Planner planner_{table_, prophet_};
  PlanState state_;
};

}  // namespace outsize
