#include "planners/deepum/deepum.h"

#include <gtest/gtest.h>

#include "planners/planner_test_rig.h"

namespace outsize::deepum {
namespace {

using Ids = std::vector<ExtentId>;

// Says what the test wants it to say.
class Prophet final : public ProphetBase {
 public:
  Bytes demand_within(Nanos) const override { return demand; }

  Bytes demand = 0;

 private:
  Nanos time_until(Position) const override { return 0; }
  Bytes demand_before(Position) const override { return demand; }
};

class DeepumPlan : public testing::Test {
 protected:
  DeepumPlan() { table_.ensure(64); }
  void resident(ExtentId id, bool clean = true) {
    table_[id].bytes = 100;
    table_[id].where = Where::kResident;
    table_[id].below = clean ? Below::kValid : Below::kNone;
    planner_->on_resident(id);
  }
  void absent(ExtentId id) {
    table_[id].bytes = 100;
    table_[id].where = Where::kAbsent;
    table_[id].below = Below::kValid;
    planner_->on_gone(id);
  }
  Ids victims(std::size_t limit = 64, bool last_choice = false) {
    Ids out;
    planner_->victims(last_choice, limit, out);
    return out;
  }
  void make(bool pre_eviction) {
    planner_ = std::make_unique<DeepumPlanner>(table_, prophet_, PlannerOptions{32, pre_eviction});
  }
  // As text: "evict 3", "clean 4", "prefetch 5".
  std::vector<std::string> plan(Bytes free, Bytes budget = 10'000) {
    PlanState state;
    state.budget = budget;
    state.free = free;
    state.reading_max = state.writing_max = 250;
    std::vector<Decision> decisions;
    planner_->plan(state, decisions);
    std::vector<std::string> out;
    for (const Decision& d : decisions) {
      const char* kind = d.kind == Decision::Kind::kEvict ? "evict "
                         : d.kind == Decision::Kind::kClean ? "clean " : "prefetch ";
      out.push_back(kind + std::to_string(d.extent));
    }
    return out;
  }
  using Plan = std::vector<std::string>;

  Prophet prophet_;
  ExtentTable table_;
  std::unique_ptr<DeepumPlanner> planner_ =
      std::make_unique<DeepumPlanner>(table_, prophet_, PlannerOptions{});
};

TEST_F(DeepumPlan, TheLongestAgoMigratedLeavesFirstHoweverLateItWasUsed) {
  for (const ExtentId id : {3U, 1U, 2U}) resident(id);
  EXPECT_EQ(victims(), (Ids{3, 1, 2}));
  planner_->on_resident(3);  // used
  EXPECT_EQ(victims(), (Ids{3, 1, 2}));
  EXPECT_EQ(victims(2), (Ids{3, 1}));
  absent(3);
  EXPECT_EQ(victims(), (Ids{1, 2}));
  resident(3);  // migrated once more
  EXPECT_EQ(victims(), (Ids{1, 2, 3}));
}

TEST_F(DeepumPlan, WhatTheNextOpsNeedLeavesLastAndTheFarthestOfItFirst) {
  for (ExtentId id = 1; id <= 5; ++id) resident(id);
  prophet_.uses = {{1, 1003}, {2, 1031}, {3, 1032}, {5, 1001}};
  EXPECT_EQ(victims(), (Ids{3, 4, 2, 1, 5})) << "3 is used by the op after the last of them";
  EXPECT_TRUE(planner_->needed_soon(2));
  EXPECT_FALSE(planner_->needed_soon(3));
  EXPECT_EQ(victims(2), (Ids{3, 4}));
  EXPECT_EQ(victims(3), (Ids{3, 4, 2})) << "asked again, with an order of its own by now";
  prophet_.uses.erase(1);  // it was used, or was not to be
  planner_->on_resident(1);
  EXPECT_EQ(victims(), (Ids{1, 3, 4, 2, 5})) << "back in its own place";
}

TEST_F(DeepumPlan, AWrongTurnPutsAllBackInTheirPlaces) {
  for (ExtentId id = 1; id <= 3; ++id) resident(id);
  prophet_.uses = {{1, 1001}, {2, 1002}};
  EXPECT_EQ(victims(), (Ids{3, 2, 1}));
  prophet_.uses = {{3, 1001}};
  planner_->on_rekey();
  EXPECT_EQ(victims(), (Ids{1, 2, 3}));
}

TEST_F(DeepumPlan, WhatMayNotLeaveIsNoVictim) {
  for (ExtentId id = 1; id <= 3; ++id) resident(id);
  table_[1].pins = 1;
  table_[2].soft = 1;
  prophet_.uses = {{2, 1001}};
  EXPECT_EQ(victims(), Ids{3});
  EXPECT_EQ(victims(64, true), (Ids{3, 2}));
}

TEST_F(DeepumPlan, TheProgramsOwnWordComesFirst) {
  for (ExtentId id = 1; id <= 3; ++id) resident(id);
  prophet_.uses = {{3, 1001}};
  table_[1].hint = Hint::kSoon;
  table_[3].hint = Hint::kLater;
  planner_->on_resident(1);
  planner_->on_resident(3);
  EXPECT_EQ(victims(), (Ids{3, 2, 1}));
  table_[1].hint = Hint::kNone;
  planner_->on_resident(1);
  EXPECT_EQ(victims(), (Ids{3, 1, 2}));
  prophet_.uses.clear();
  table_[3].hint = Hint::kNone;
  planner_->on_resident(3);
  EXPECT_EQ(victims(), (Ids{1, 2, 3})) << "it was used: what was said is over";
}

TEST_F(DeepumPlan, PreEvictionMakesRoomForWhatComesAndIsBorn) {
  for (ExtentId id = 1; id <= 6; ++id) resident(id, id != 2);
  absent(9);
  prophet_.uses = {{1, 1002}, {9, 1004}};
  prophet_.demand = 200;  // before 9 is used
  EXPECT_EQ(plan(50), (Plan{"clean 2", "evict 3", "evict 4", "evict 5", "prefetch 9"}))
      << "1 is needed by then; 2 leaves once it is written, and nothing comes before there is room";
  make(false);
  for (ExtentId id = 1; id <= 6; ++id) planner_->on_resident(id);
  EXPECT_EQ(plan(50), (Plan{"clean 2"})) << "room for 9 alone, and in the order of victims";
}

TEST_F(DeepumPlan, WithoutPreEvictionNobodyLeavesForBirths) {
  for (ExtentId id = 1; id <= 4; ++id) resident(id);
  prophet_.uses = {{1, 1002}};
  prophet_.demand = 200;
  EXPECT_EQ(plan(0), (Plan{"evict 2", "evict 3"}));
  make(false);
  for (ExtentId id = 1; id <= 4; ++id) planner_->on_resident(id);
  EXPECT_EQ(plan(0), Plan{});
}

TEST_F(DeepumPlan, TheSoonestComesFirstAsFarAsSlotsAllow) {
  for (const ExtentId id : {5U, 6U, 7U, 8U}) absent(id);
  prophet_.uses = {{5, 1020}, {6, 1001}, {7, 1010}, {8, 1040}};
  EXPECT_EQ(plan(1000), (Plan{"prefetch 6", "prefetch 7"})) << "250 bytes may be in flight";
  table_[6].where = Where::kFetching;
  table_[7].hint = Hint::kLater;
  EXPECT_EQ(plan(1000), (Plan{"prefetch 5"})) << "8 is beyond the next 32 ops";
}

// The next ops need six times 100 bytes and the budget is 400: what the first four need is kept, the
// others are victims like any.
TEST_F(DeepumPlan, TheReachIsCutToWhatFits) {
  for (ExtentId id = 1; id <= 4; ++id) resident(id);
  absent(5);
  absent(6);
  prophet_.uses = {{5, 1001}, {6, 1002}, {1, 1003}, {2, 1004}, {3, 1005}, {4, 1006}};
  EXPECT_EQ(plan(0, 400), (Plan{"evict 3", "evict 4", "prefetch 5", "prefetch 6"}));
  EXPECT_EQ(plan(0, 10'000), Plan{}) << "all are needed and none may leave";
}

}  // namespace
}  // namespace outsize::deepum
