#include "predictors/pilot/shared_habits.h"

#include <vector>

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

using Extents = std::vector<ExtentId>;

Extents at(const SharedHabits& habits, NodeId node) {
  Extents found;
  habits.at(node, [&](ExtentId id) { found.push_back(id); });
  return found;
}

void use(SharedHabits& habits, NodeId node, const Extents& extents, bool late = true) {
  std::vector<SharedHabits::Use> uses;
  for (const ExtentId id : extents) uses.push_back({id, late});
  habits.use(node, uses);
}

TEST(SharedHabits, TellOfWhatAnOpWorkedOnThreeTimesInARow) {
  SharedHabits habits;
  EXPECT_TRUE(at(habits, 5).empty());
  for (int i = 0; i < 2; ++i) use(habits, 5, {7, 8}, false);
  EXPECT_TRUE(at(habits, 5).empty());
  use(habits, 5, {8, 9}, false);
  EXPECT_EQ(at(habits, 5), (Extents{8}));
  use(habits, 5, {}, false);
  EXPECT_TRUE(at(habits, 5).empty()) << "it works on none any more";
}

TEST(SharedHabits, AnotherOfThatIdIsAnother) {
  SharedHabits habits;
  for (int i = 0; i < 5; ++i) use(habits, 5, {7}, false);
  EXPECT_EQ(at(habits, 5), (Extents{7}));
  habits.die(7);
  EXPECT_TRUE(at(habits, 5).empty()) << "it is not there";
  for (int i = 0; i < 2; ++i) use(habits, 5, {7}, false);
  EXPECT_TRUE(at(habits, 5).empty());
}

// As an optimizer follows backward: gradients lie in other extents in each step.
TEST(SharedHabits, AnOpFollowsAnotherToWhateverThatWorkedOn) {
  SharedHabits habits;
  for (ExtentId step = 0; step < 3; ++step) {
    use(habits, 1, {100 + step, 200 + step});
    use(habits, 2, {300 + step});
    if (step == 2) break;
    use(habits, 11, {200 + step});
    use(habits, 12, {300 + step});
    for (const ExtentId base : {100U, 200U, 300U}) habits.die(base + step);
  }
  EXPECT_EQ(at(habits, 11), (Extents{202})) << "the second of two";
  EXPECT_EQ(at(habits, 12), (Extents{302}));
  EXPECT_TRUE(at(habits, 1).empty());
  for (const ExtentId base : {100U, 200U, 300U}) habits.die(base + 2);
  EXPECT_TRUE(at(habits, 11).empty()) << "backward has not been there yet";
}

TEST(SharedHabits, AnOpIsFollowedAlsoWhereOthersWorkedThereSince) {
  SharedHabits habits;
  for (ExtentId step = 0; step < 3; ++step) {
    use(habits, 1, {100 + step});
    if (step > 0) use(habits, 20 + step, {100 + step});
    if (step == 2) break;
    use(habits, 11, {100 + step});
    habits.die(100 + step);
  }
  EXPECT_EQ(at(habits, 11), (Extents{102}));
}

TEST(SharedHabits, WhatWasJustUsedIsNotFollowed) {
  SharedHabits habits;
  for (ExtentId step = 0; step < 4; ++step) {
    use(habits, 1, {100 + step}, false);
    use(habits, 2, {100 + step}, false);
  }
  EXPECT_TRUE(at(habits, 2).empty()) << "that is there anyhow";
}

TEST(SharedHabits, WhoIsFollowedForNothingIsForgotten) {
  SharedHabits habits;
  const auto step = [&](ExtentId id, bool follows) {
    use(habits, 1, {id});
    use(habits, 2, follows ? Extents{id} : Extents{});
  };
  for (ExtentId i = 0; i < 4; ++i) step(100 + i, true);
  use(habits, 1, {110});
  EXPECT_EQ(at(habits, 2), (Extents{110}));
  for (ExtentId i = 0; i < 4; ++i) step(120 + i, false);
  EXPECT_TRUE(at(habits, 2).empty());
}

TEST(SharedHabits, OfManyTheFirstAreKnownAndNothingOnceItIsForgotten) {
  SharedHabits habits;
  const Extents many{1, 2, 3, 4, 5, 6, 7, 8};
  for (int i = 0; i < 4; ++i) use(habits, 9, many);
  EXPECT_EQ(at(habits, 9), (Extents{1, 2, 3, 4}));
  EXPECT_GT(habits.bytes(), 0);
  habits.clear();
  EXPECT_TRUE(at(habits, 9).empty());
  for (int i = 0; i < 2; ++i) {
    use(habits, 3, {1});
    EXPECT_TRUE(at(habits, 3).empty()) << "nor that it follows another";
  }
}

}  // namespace
}  // namespace outsize::pilot
