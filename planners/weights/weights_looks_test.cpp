// The planner alone: when it looks at what comes, and whom it asks about what came.
#include "planners/weights/weights_plan_test_rig.h"

namespace outsize::weights {
namespace {

// Everything is here until the last use seen, in eight ops: a fourth of that has to pass, or some of it has to leave.
TEST_F(WeightsPlan, LooksAgainWhereTimePassedOrSomethingLeft) {
  here(1, 3);
  here(2, 8, false);
  here(3, 8);
  state_.free = 10 * kMiB;
  planner_.on_rekey();
  const auto leaves = [this](ExtentId id, Where where) {
    table_[id].where = where;
    planner_.on_gone(id);
  };
  EXPECT_EQ(looks(), 1);
  EXPECT_EQ(looks(), 0);
  ++prophet_.now;
  EXPECT_EQ(looks(), 0);
  ++prophet_.now;
  EXPECT_EQ(looks(), 1);
  EXPECT_EQ(looks(), 0);
  leaves(1, Where::kAbsent);
  EXPECT_EQ(plan(), "fetch:1");
  table_[1].where = Where::kResident;
  planner_.on_resident(1);
  EXPECT_EQ(looks(), 0);
  leaves(2, Where::kResident);  // it dies
  table_[2].where = Where::kFree;
  prophet_.uses.erase(2);
  EXPECT_EQ(looks(), 0) << "nobody has to do anything about it";
  prophet_.uses[3] = prophet_.now + 20;  // it was used; beyond what was seen
  planner_.on_resident(3);
  leaves(3, Where::kAbsent);
  EXPECT_EQ(looks(), 1) << "by the plan it stays";
  table_[3].where = Where::kFetching;
  prophet_.uses[1] = prophet_.now + 100;
  prophet_.now += 6;
  EXPECT_EQ(looks(), 1);
  prophet_.now += 2;
  EXPECT_EQ(looks(), 0);
  planner_.on_rekey();
  EXPECT_EQ(looks(), 1) << "a new step";
  EXPECT_EQ(looks(), 0);
  state_.budget -= kMiB;
  EXPECT_EQ(looks(), 1) << "another budget";
}

// Of idle ones, which leave first, those count that are used before the last use seen. In the end all fit.
TEST_F(WeightsPlan, WhatIsToLeaveMayDoSo) {
  here(1, 8, false);
  idle(2);
  idle(3);
  prophet_.uses[3] = prophet_.now + 9;
  planner_.on_rekey();
  plan();
  EXPECT_EQ(looks(), 0);
  prophet_.uses.erase(3);
  for (const ExtentId id : {3, 2}) {
    table_[id].where = Where::kAbsent;
    planner_.on_gone(id);
    EXPECT_EQ(looks(), id == 2 ? 1 : 0) << id;
  }
}

// What was looked at is not what comes, or does not come.
TEST_F(WeightsPlan, LooksAgainWhereThePlaceIsAnotherOrSomethingDidNotCome) {
  here(1, 8, false);
  below(2, 8, false);
  state_.free = 10 * kMiB;
  planner_.on_rekey();
  EXPECT_EQ(plan(), "fetch:2");
  EXPECT_EQ(looks(), 1) << "it is not on its way: it was refused";
  table_[2].where = Where::kFetching;
  EXPECT_EQ(looks(), 0);
  table_[2].where = Where::kAbsent;  // it came and left
  prophet_.uses.erase(2);
  EXPECT_EQ(looks(), 1);
  EXPECT_EQ(looks(), 0);
  ++prophet_.now;
  EXPECT_EQ(looks(), 0);
  --prophet_.now;
  EXPECT_EQ(looks(), 1) << "turned back";
  EXPECT_EQ(looks(), 0);
  state_.foreseen.missed += kMiB;
  EXPECT_EQ(looks(), 1) << "a read failed, or what came has left";
  EXPECT_EQ(looks(), 0);
  prophet_.now += 1;
  planner_.on_rekey();
  EXPECT_EQ(looks(), 1) << "all is said anew";
  EXPECT_EQ(looks(), 0);
}

// Three are away while op 2 runs, and nothing is left over. Then one is used, and again within what was looked at.
TEST_F(WeightsPlan, LooksAgainWhereWhatMayLeaveIsUsedAgainSoon) {
  for (const ExtentId id : {1, 3, 4}) below(id, 8);
  here(2, 7, false);
  births(2, 3, 50);
  planner_.on_rekey();
  plan();
  prophet_.now += 9;
  const std::uint32_t gap = prophet_.gaps.at(1);
  for (const ExtentId id : {1, 3, 4}) {
    table_[id].where = Where::kResident;
    prophet_.gaps.erase(id);
    prophet_.uses[id] = prophet_.now + 20;
    planner_.on_resident(id);
  }
  EXPECT_EQ(looks(), 1);
  EXPECT_EQ(looks(), 0);
  for (const Position use : {25, 15}) {
    prophet_.gaps[1] = gap;
    prophet_.uses[1] = prophet_.now + use;
    planner_.on_resident(1);
    EXPECT_EQ(looks(), use < 20 ? 1 : 0) << use;
  }
}

TEST_F(WeightsPlan, LooksWithEachPlanWhereSomethingWaits) {
  below(1, 8);
  state_.reading = 15 * kMiB;  // the slots are taken
  state_.free = 70 * kMiB;
  planner_.on_rekey();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(plan(), "");
  EXPECT_EQ(prophet_.looks, 3);
  state_.reading = 0;
  EXPECT_EQ(plan(), "fetch:1");
  table_[1].where = Where::kFetching;
  EXPECT_EQ(looks(), 0);
  below(4, 8);
  table_[4].wanted = true;
  prophet_.now += 2;
  EXPECT_EQ(looks(), 1);
  EXPECT_EQ(looks(), 1) << "who waits for it may be refused";
}

// Three are to be away while op 2 runs, are not settled before, and are here.
TEST_F(WeightsPlan, LooksWithEachPlanWhereSomethingIsNotSettled) {
  for (const ExtentId id : {1, 3, 4}) here(id, 8);
  here(2, 7, false);
  births(2, 3, 50);
  state_.free = 40 * kMiB;
  planner_.on_rekey();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(looks(), 1);
  prophet_.now += 5;
  prophet_.uses[2] = prophet_.now + 20;
  EXPECT_EQ(looks(), 1);
  EXPECT_EQ(looks(), 0) << "op 2 has passed";
}

// Extent 1, which is away while op 2 runs, is asked for; extent 2 is used before it.
class WeightsStay : public WeightsPlan {
 protected:
  WeightsStay() {
    below(1, 8);
    here(2, 7, false);
    births(2, 3, 90);
    planner_.on_rekey();
    EXPECT_EQ(plan(), "");
    prophet_.now += 5;
    state_.free = 30 * kMiB;
    EXPECT_EQ(plan(), "fetch:1");
    table_[1].where = Where::kResident;
  }
  int asked(ExtentId id) {
    const int before = prophet_.gaps_asked;
    planner_.on_resident(id);
    return prophet_.gaps_asked - before;
  }
};

// It is still in the gap in which it was then, with the next use that was seen.
TEST_F(WeightsStay, NobodyIsAskedAboutWhatCameToStay) {
  prophet_.uses.erase(1);
  EXPECT_EQ(asked(1), 0);
  EXPECT_EQ(victims(), (std::vector<ExtentId>{1, 2}));
  EXPECT_TRUE(planner_.needed_soon(1));
  EXPECT_GT(asked(2), 0);
  EXPECT_GT(asked(1), 0) << "it has been here before";
}

TEST_F(WeightsStay, WhatIsUsedOrHintedIsAskedAbout) {
  table_[1].pins = 1;
  EXPECT_GT(asked(1), 0);
  table_[1].where = Where::kAbsent;
  planner_.on_gone(1);
  table_[1].where = Where::kResident;
  table_[1].pins = 0;
  table_[1].hint = Hint::kSoon;
  EXPECT_GT(asked(1), 0);
  EXPECT_EQ(victims(), (std::vector<ExtentId>{2, 1}));
}

TEST_F(WeightsStay, WhatComesTooLateIsAskedAbout) {
  prophet_.now += 4;
  EXPECT_GT(asked(1), 0);
}

TEST_F(WeightsStay, WhatStayedInTheLastStepIsAskedAbout) {
  prophet_.now += 5;  // a new step
  prophet_.now -= kOps;
  planner_.on_rekey();
  EXPECT_GT(asked(1), 0) << "the same position, but said of another step";
}

TEST_F(WeightsStay, WhoIsBornInItsPlaceIsAskedAbout) {
  planner_.on_resident(1);
  planner_.on_gone(1);  // it dies
  table_[1].below = Below::kNone;
  EXPECT_GT(asked(1), 0);
}

TEST_F(WeightsStay, WhoIsBornInPlaceOfWhatDiedBelowIsAskedAbout) {
  table_[1].where = Where::kAbsent;
  planner_.on_gone(1);  // it dies
  table_[1].where = Where::kResident;
  EXPECT_GT(asked(1), 0);
}

}  // namespace
}  // namespace outsize::weights
