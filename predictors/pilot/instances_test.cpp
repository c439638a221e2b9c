#include "predictors/pilot/instances.h"

#include <vector>

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

constexpr ThingId kThing = 3, kOther = 70;
constexpr NodeId kNode = 5;

Instance born(std::uint64_t since, std::uint32_t object) { return {since, object, false, true}; }
Instance planned(std::uint64_t since, std::uint32_t object) { return {since, object, true, true}; }

// The latest one's object; kNobody where there is none.
std::uint32_t latest(const Instances& instances, ThingId thing) {
  const Instance* const top = instances.top(thing);
  return top == nullptr ? kNobody : top->object;
}

TEST(PilotInstances, TheLatestIsTheOneThatIsMeant) {
  Instances instances;
  EXPECT_EQ(instances.top(kThing), nullptr);
  instances.pop(kThing);  // nothing is there
  instances.push(kThing, born(1, 10));
  instances.push(kThing, born(2, 11));
  instances.push(kOther, born(3, 12));
  ASSERT_NE(instances.top(kThing), nullptr);
  EXPECT_EQ(instances.top(kThing)->object, 11U);
  EXPECT_EQ(instances.top(kThing)->since, 2U);
  instances.pop(kThing);
  EXPECT_EQ(latest(instances, kThing), 10U);
  instances.pop(kThing);
  EXPECT_EQ(latest(instances, kThing), kNobody);
  EXPECT_EQ(latest(instances, kOther), 12U);
}

TEST(PilotInstances, WhatDiesIsRemovedWhereverItStands) {
  Instances instances;
  for (std::uint32_t i = 0; i < 4; ++i) instances.push(kThing, born(i, 10 + i));
  instances.remove(kThing, 11);
  instances.remove(kThing, 99);
  instances.remove(kOther, 10);
  EXPECT_EQ(latest(instances, kThing), 13U);
  instances.remove(kThing, 13);
  EXPECT_EQ(latest(instances, kThing), 12U);
  instances.pop(kThing);
  EXPECT_EQ(latest(instances, kThing), 10U);
}

// An extent and what a plan calls its own births may have one number.
TEST(PilotInstances, WhatIsPlannedIsNotTakenForAnExtent) {
  Instances instances;
  instances.begin_draft();
  instances.push(kThing, planned(1, 10));
  instances.remove(kThing, 10);
  EXPECT_EQ(latest(instances, kThing), 10U);
}

TEST(PilotInstances, ADraftSeesWhatIsThereAndChangesNothing) {
  Instances instances;
  instances.push(kThing, born(1, 10));
  instances.push(kThing, born(2, 11));
  instances.begin_draft();
  EXPECT_EQ(latest(instances, kThing), 11U);
  instances.pop(kThing);
  EXPECT_EQ(latest(instances, kThing), 10U);
  instances.push(kThing, planned(5, 0));
  instances.push(kOther, planned(6, 1));
  EXPECT_EQ(latest(instances, kThing), 0U);
  EXPECT_EQ(latest(instances, kOther), 1U);
  instances.remove(kThing, 10);
  instances.end_draft();
  EXPECT_EQ(latest(instances, kThing), 11U);
  EXPECT_EQ(latest(instances, kOther), kNobody);
  instances.pop(kThing);
  EXPECT_EQ(latest(instances, kThing), 10U);
}

TEST(PilotInstances, ADraftKnowsNothingOfTheOneBefore) {
  Instances instances;
  instances.push(kThing, born(1, 10));
  for (int i = 0; i < 3; ++i) {
    instances.begin_draft();
    EXPECT_EQ(latest(instances, kThing), 10U);
    EXPECT_FALSE(instances.touched(kThing));
    EXPECT_EQ(instances.times(kNode), 0U);
    instances.pop(kThing);
    instances.touch(kThing);
    instances.run(kNode);
    instances.clear();
    instances.end_draft();
  }
}

TEST(PilotInstances, AStepThatEndsInADraftEndsForTheDraftAlone) {
  Instances instances;
  instances.push(kThing, born(1, 10));
  instances.touch(kThing);
  instances.run(kNode);
  instances.begin_draft();
  instances.push(kOther, planned(2, 0));
  instances.clear();
  EXPECT_EQ(latest(instances, kThing), kNobody);
  EXPECT_EQ(latest(instances, kOther), kNobody);
  EXPECT_FALSE(instances.touched(kThing));
  EXPECT_FALSE(instances.ran(kNode));
  instances.push(kThing, planned(3, 1));
  EXPECT_EQ(latest(instances, kThing), 1U);
  instances.pop(kThing);
  EXPECT_EQ(latest(instances, kThing), kNobody) << "of before the step's end nothing is left below it";
  instances.end_draft();
  EXPECT_EQ(latest(instances, kThing), 10U);
  EXPECT_TRUE(instances.touched(kThing));
  EXPECT_EQ(instances.times(kNode), 1U);
}

TEST(PilotInstances, WhatIsUsedAndWhatRanInADraftIsCountedOnFromWhereTheStepStands) {
  Instances instances;
  EXPECT_FALSE(instances.touched(kThing));
  instances.touch(kThing);
  for (int i = 0; i < 2; ++i) instances.run(kNode);
  EXPECT_TRUE(instances.touched(kThing));
  EXPECT_EQ(instances.times(kNode), 2U);
  EXPECT_EQ(instances.times(kNode + 1), 0U);
  instances.begin_draft();
  EXPECT_TRUE(instances.touched(kThing));
  EXPECT_FALSE(instances.touched(kOther));
  instances.touch(kOther);
  instances.run(kNode);
  EXPECT_TRUE(instances.touched(kOther));
  EXPECT_EQ(instances.times(kNode), 3U);
  instances.clear();
  EXPECT_EQ(instances.times(kNode), 0U);
  instances.run(kNode);
  EXPECT_EQ(instances.times(kNode), 1U);
  instances.end_draft();
  EXPECT_FALSE(instances.touched(kOther));
  EXPECT_EQ(instances.times(kNode), 2U);
}

TEST(PilotInstances, AnotherStepBeginsWithNothing) {
  Instances instances;
  instances.push(kThing, born(1, 10));
  instances.touch(kThing);
  instances.run(kNode);
  instances.clear();
  EXPECT_EQ(latest(instances, kThing), kNobody);
  EXPECT_FALSE(instances.touched(kThing));
  EXPECT_FALSE(instances.ran(kNode));
  instances.begin_draft();
  EXPECT_EQ(latest(instances, kThing), kNobody);
  instances.end_draft();
  instances.push(kThing, born(5, 20));
  instances.pop(kThing);
  EXPECT_EQ(latest(instances, kThing), kNobody);
}

TEST(PilotInstances, OfSeveralThingsTheOneMadeLastIsMeant) {
  Network network;
  const NodeId user = network.node(1, false);
  const ThingId made[] = {network.birth(network.node(2, false), 0, 1), network.birth(network.node(3, false), 0, 1)};
  Instances instances;
  EXPECT_EQ(meant(network, instances, made[0]).instance, nullptr);
  for (const ThingId& thing : made) network.uses(user, {&thing, 1});
  const ThingId either = network[user].uses[0];
  EXPECT_EQ(meant(network, instances, either).instance, nullptr);
  instances.push(made[1], born(1, 10));
  EXPECT_EQ(meant(network, instances, either).thing, made[1]);
  instances.push(made[0], born(2, 11));
  EXPECT_EQ(meant(network, instances, either).thing, made[0]);
  EXPECT_EQ(meant(network, instances, either).instance->object, 11U);
  EXPECT_EQ(meant(network, instances, made[1]).instance->object, 10U);
}

}  // namespace
}  // namespace outsize::pilot
