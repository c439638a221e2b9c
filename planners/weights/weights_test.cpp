// The planner alone, with a predictor that says what the test wants it to say: what it plans.
#include "planners/weights/weights_plan_test_rig.h"

namespace outsize::weights {
namespace {

TEST_F(WeightsPlan, IsLookaheadUntilAStepCameAgain) {
  prophet_.known = false;
  here(1, 3);
  here(2, 9);
  births(2, 4, 100);
  planner_.on_rekey();
  plan();
  EXPECT_FALSE(planner_.planned());
  EXPECT_EQ(victims(), (std::vector<ExtentId>{2, 1})) << "the farthest use";
  prophet_.known = true;
  planner_.on_rekey();
  plan();
  EXPECT_TRUE(planner_.planned());
}

// 60 MiB, and 20 more at ops 2 to 4: with what is kept for transfers, two have to leave that have gaps there.
TEST_F(WeightsPlan, WhatThePlanHasBelowLeavesFirst) {
  here(1, 9, false);
  changed(2, 8);
  here(3, 7);
  here(4, 2);
  here(5, 8, false);
  here(6, 9, false);
  births(2, 5, 20);
  state_.budget = 79 * kMiB;
  state_.reading_max = 19 * kMiB;
  planner_.on_rekey();
  EXPECT_EQ(victims(), (std::vector<ExtentId>{1, 6, 2, 5, 3, 4}));
  plan();
  EXPECT_EQ(victims(), (std::vector<ExtentId>{2, 3, 1, 6, 5, 4}));
  EXPECT_FALSE(planner_.needed_soon(3));
  EXPECT_TRUE(planner_.needed_soon(1));
  ++prophet_.now;
  EXPECT_EQ(plan(), "write:2");
}

// What no op of the step uses need not be here, and takes no room from what is used: 40 MiB of the four that are, and
// 30 more at ops 2 to 4, fit without any of them leaving.
TEST_F(WeightsPlan, WhatIsIdleLeavesFirstAndIsNotKept) {
  for (const ExtentId id : {1, 2, 3, 4}) changed(id, 9);
  for (const ExtentId id : {5, 6, 7}) idle(id);
  table_[6].hint = Hint::kSoon;
  births(2, 5, 30);
  planner_.on_rekey();
  plan();
  EXPECT_TRUE(planner_.planned());
  EXPECT_EQ(victims(), (std::vector<ExtentId>{5, 7, 1, 2, 3, 4, 6})) << "the user's word on 6 comes first";
  ++prophet_.now;
  EXPECT_EQ(plan(), "") << "nothing that is used has to leave";
  ++prophet_.now;
  state_.free = 5 * kMiB;
  below(8, 3);
  EXPECT_EQ(plan(), "write:5 write:7") << "they make way for what comes back";
}

TEST_F(WeightsPlan, WhatIsIdleLeavesFirstUntilItIsUsed) {
  for (const ExtentId id : {1, 2}) changed(id, 9);
  for (const ExtentId id : {5, 6}) idle(id);
  planner_.on_rekey();
  plan();
  EXPECT_EQ(victims(), (std::vector<ExtentId>{5, 6, 1, 2}));
  ++prophet_.now;
  planner_.on_rekey();
  EXPECT_EQ(victims(), (std::vector<ExtentId>{5, 6, 1, 2})) << "the plan is still followed";
  planner_.on_resident(5);
  EXPECT_EQ(victims(), (std::vector<ExtentId>{6, 1, 2, 5})) << "by its use, as any other";
  state_.budget = 70 * kMiB;
  plan();
  EXPECT_EQ(victims(), (std::vector<ExtentId>{6, 1, 2, 5})) << "planned anew";
}

// 40 MiB that are used, 30 more at ops 2 to 4, and 20 that are idle and cannot leave, of 80.
TEST_F(WeightsPlan, WhatIsIdleAndCannotLeaveIsKept) {
  for (const ExtentId id : {1, 2, 3, 4}) changed(id, 9);
  births(2, 5, 30);
  for (const ExtentId id : {5, 6}) idle(id);
  table_[5].pins = 1;
  table_[6].hint = Hint::kSoon;
  planner_.on_rekey();
  plan();
  ++prophet_.now;
  EXPECT_EQ(plan(), "write:1 write:2") << "two slots; they have to make way";
}

TEST_F(WeightsPlan, WritesWhatWasProducedFirstAndWaitsForItsOp) {
  changed(7, 9);
  changed(3, 9);
  changed(5, 9);
  births(1, 9, 300);
  table_[3].last_use = 90;
  table_[5].last_use = 80;
  planner_.on_rekey();
  EXPECT_EQ(plan(), "") << "the op that produced them may still run";
  ++prophet_.now;
  EXPECT_EQ(plan(), "write:7 write:5");
  table_[7].below = table_[5].below = Below::kValid;
  table_[3].pins = 1;
  EXPECT_EQ(plan(), "") << "an op uses it";
  table_[3].pins = 0;
  EXPECT_EQ(plan(), "write:3");
}

// Both are away in ops 0 to 7; op 4 is full. As soon as that has passed the one that is needed first comes,
// and the other one once both fit.
TEST_F(WeightsPlan, ComesBackAsSoonAsItFits) {
  below(1, 8);
  below(2, 9);
  for (ExtentId id = 3; id < 8; ++id) here(id, 9, false);
  births(4, 5, 30);
  births(5, 7, 10);
  planner_.on_rekey();
  state_.free = 30 * kMiB;
  EXPECT_EQ(plan(), "");
  EXPECT_TRUE(planner_.planned());
  prophet_.now += 5;
  EXPECT_EQ(plan(), "fetch:1");
  table_[1].where = Where::kResident;
  planner_.on_resident(1);
  prophet_.now += 2;
  EXPECT_EQ(plan(), "fetch:2");
  EXPECT_EQ(victims().back(), 1U) << "it is no longer one of those that leave first";
}

TEST_F(WeightsPlan, WhatIsKeptAndIsNotHereComes) {
  below(1, 4, false);
  here(2, 9);
  births(2, 5, 100);
  planner_.on_rekey();
  EXPECT_EQ(plan(), "evict:2 fetch:1");
}

TEST_F(WeightsPlan, IsDroppedWhereTheStepGoesOtherwise) {
  here(1, 3);
  here(2, 9, false);
  births(1, 2, 100);
  planner_.on_rekey();
  plan();
  ASSERT_TRUE(planner_.planned());
  EXPECT_EQ(victims(), (std::vector<ExtentId>{1, 2}));
  prophet_.on_path = false;
  plan();
  EXPECT_FALSE(planner_.planned());
  EXPECT_EQ(victims(), (std::vector<ExtentId>{2, 1}));
  prophet_.on_path = true;
  plan();
  EXPECT_FALSE(planner_.planned()) << "not before the next step";
  prophet_.now += kOps;
  planner_.on_rekey();
  plan();
  EXPECT_TRUE(planner_.planned());
}

TEST_F(WeightsPlan, AnotherBudgetIsPlannedAnew) {
  here(1, 9);
  here(2, 9, false);
  births(2, 5, 60);
  planner_.on_rekey();
  plan();
  EXPECT_EQ(victims(), (std::vector<ExtentId>{1, 2})) << "80 MiB hold all, so they leave in order of use";
  prophet_.uses[2] += 5;
  planner_.on_resident(2);
  EXPECT_EQ(victims(), (std::vector<ExtentId>{2, 1}));
  state_.budget = 70 * kMiB;
  plan();
  EXPECT_EQ(victims(), (std::vector<ExtentId>{1, 2}));
}

// Neither is the cycle read again nor does anything wait for the next plan.
TEST_F(WeightsPlan, AStepToTheLetterAsTheLastIsPlannedAtItsBegin) {
  here(1, 3);
  here(2, 9, false);
  changed(4, 4);
  births(1, 2, 100);
  planner_.on_rekey();
  EXPECT_EQ(victims(), (std::vector<ExtentId>{2, 4, 1})) << "there is no plan before the first budget is known";
  plan();
  ASSERT_EQ(victims(), (std::vector<ExtentId>{4, 1, 2}));
  for (const bool repeats : {true, false}) {
    const int reads = prophet_.reads;
    prophet_.repeats = repeats;
    prophet_.now += kOps;
    std::swap(prophet_.uses[1], prophet_.uses[4]);
    for (auto& [id, position] : prophet_.uses) position += kOps;
    planner_.on_rekey();
    EXPECT_EQ(prophet_.reads, reads + !repeats);
    EXPECT_TRUE(planner_.planned());
    EXPECT_EQ(victims(), repeats ? (std::vector<ExtentId>{1, 4, 2}) : (std::vector<ExtentId>{4, 1, 2})) << "by uses of this step";
    ++prophet_.now;
    EXPECT_EQ(plan(), "write:4");
    --prophet_.now;
  }
  prophet_.repeats = true;
  prophet_.on_path = false;
  planner_.on_rekey();
  prophet_.on_path = true;
  const int reads_on_path = prophet_.reads;
  planner_.on_rekey();
  EXPECT_EQ(prophet_.reads, reads_on_path + 1) << "the step before went otherwise";
  prophet_.known = false;  // by who reads again: an extent came to be
  table_[3].bytes = 10 * kMiB;
  table_[3].where = Where::kResident;
  const int reads = prophet_.reads;
  planner_.on_rekey();
  EXPECT_FALSE(planner_.planned());
  planner_.on_rekey();
  EXPECT_EQ(prophet_.reads, reads + 2) << "what repeats is what could not be read";
}

}  // namespace
}  // namespace outsize::weights
