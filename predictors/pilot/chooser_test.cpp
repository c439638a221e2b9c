#include "predictors/pilot/chooser.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/chooser_test_rig.h"

namespace outsize::pilot {
namespace {

constexpr Token kHub = 2, kLoss = 3, kExpert = 100, kBackward = 10'000, kUpdate = 20'000;

Token token(Token first, int expert) { return first + static_cast<Token>(expert); }

// At each of 12 hubs an expert, drawn at random and told: those of the last half of all steps.
Tally hubs(const ChooserOptions& options) {
  constexpr int kSteps = 60, kExperts = 6;
  World world(options);
  Tally tally;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<int> path(12);
    for (int& expert : path) expert = world.any(kExperts);
    world.tell(path);
    for (const int expert : path) {
      world.go(kHub);
      const bool right = world.go(token(kExpert, expert));
      if (step >= kSteps / 2) tally.add(right);
    }
    world.end_step();
  }
  return tally;
}

TEST(PilotChooser, NothingIsKnownAndThenWhatAlwaysCame) {
  World world;
  EXPECT_FALSE(world.go(kHub));
  world.end_step();
  EXPECT_TRUE(world.go(kHub));
  EXPECT_EQ(world.chooser.score().choices, 0U) << "there was nothing to choose";
}

TEST(PilotChooser, ASequenceThatNamesTheWayIsLearnt) {
  EXPECT_GT(hubs({}).share(), 0.95) << "seed " << kSeed;
}

TEST(PilotChooser, WithoutTheSampleChanceStaysChance) {
  EXPECT_LT(hubs({.sample = false}).share(), 0.35) << "seed " << kSeed;
}

TEST(PilotChooser, ItKeepsTheScore) {
  World world;
  int right = 0, choices = 0;
  for (int step = 0; step < 50; ++step) {
    const int expert = world.any(3);
    world.tell({expert});
    world.go(kHub);
    const std::uint64_t before = world.chooser.score().choices;
    const bool said = world.go(token(kExpert, expert));
    if (world.chooser.score().choices > before) {
      ++choices;
      right += said ? 1 : 0;
    }
    world.end_step();
  }
  const Chooser::Score& score = world.chooser.score();
  EXPECT_GE(score.choices, static_cast<std::uint64_t>(choices));
  EXPECT_GT(choices, 40);
  EXPECT_GE(score.right + 2, static_cast<std::uint64_t>(right));
  EXPECT_GT(world.chooser.table_bytes(), 0);
}

// The same expert for a hundred steps, then another one for good: while one adviser is sure little is learnt, and all of it is counted.
TEST(PilotChooser, AChangeOfMindIsLearntAtOnceAlsoAfterMuchThatWasSure) {
  World world;
  int right = 0;
  const auto step = [&](int expert) {
    world.tell({0});
    world.go(kHub);
    const bool said = world.go(token(kExpert, expert));
    world.end_step();
    return said;
  };
  for (int i = 0; i < 6; ++i) step(i % 2);  // so that it is a choice
  const std::uint64_t choices = world.chooser.score().choices, was_right = world.chooser.score().right;
  for (int i = 0; i < 100; ++i) right += step(0) ? 1 : 0;
  EXPECT_EQ(world.chooser.score().choices, choices + 100);
  EXPECT_NEAR(static_cast<double>(world.chooser.score().right - was_right), right, 2);
  EXPECT_GT(right, 90);
  int wrong = 0;
  for (int i = 0; i < 200; ++i) wrong += step(1) ? 0 : 1;
  EXPECT_LE(wrong, 4) << "what was counted before fades";  // 2
  EXPECT_TRUE(step(1));
}

// Expert after expert: of so many pairs most come once.
TEST(PilotChooser, AWayThatNeverCameHereBeforeIsFound) {
  constexpr int kSteps = 60, kExperts = 40;
  World world;
  Tally fresh, all;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<int> path = world.some(kExperts, 10);
    world.tell(path);
    for (const int expert : path) {
      const bool before = world.came_before(token(kExpert, expert));
      const bool right = world.go(token(kExpert, expert));
      if (step < kSteps / 2) continue;
      all.add(right);
      if (!before) fresh.add(right);
    }
    world.end_step();
  }
  EXPECT_GT(fresh.choices, 100) << "seed " << kSeed;
  EXPECT_GT(fresh.share(), 0.95) << fresh.right << " of " << fresh.choices << ", seed " << kSeed;
  EXPECT_GT(all.share(), 0.95) << all.right << " of " << all.choices << ", seed " << kSeed;
}

// Of several that are nearly always right the one is asked that was so most often: after the first of 400 runs of an op in a step
// another comes than after the rest. Who says what came mostly is right of 399.
TEST(PilotChooser, OfTheSureTheSurestIsAsked) {
  constexpr int kSteps = 40, kRuns = 400;
  World world;
  Tally firsts;
  for (int step = 0; step < kSteps; ++step) {
    for (int run = 0; run < kRuns; ++run) {
      world.go(kHub);
      const bool right = world.go(run == 0 ? kExpert : kLoss);
      if (step >= kSteps / 2 && run == 0) firsts.add(right);
    }
    world.end_step();
  }
  EXPECT_EQ(firsts.right, firsts.choices);
}

// Experts forward in any order, backward, and an optimizer in one order that leaves out those not used.
// Nothing is told.
struct Trained {
  Tally backward, updates;
};
// Between backward and it may be an op that always comes.
Trained trained(const ChooserOptions& options, bool op_between = false) {
  constexpr int kSteps = 80, kExperts = 12, kUsed = 6;
  World world(options);
  Trained tally;
  for (int step = 0; step < kSteps; ++step) {
    const bool judged = step >= kSteps / 2;
    std::vector<int> path = world.some(kExperts, kUsed);
    for (const int expert : path) {
      world.go(token(kExpert, expert));
      world.use(token(1, expert));
    }
    world.go(kLoss);
    for (auto expert = path.rbegin(); expert != path.rend(); ++expert) {
      const bool right = world.go(token(kBackward, *expert), true);
      if (judged) tally.backward.add(right);
      world.use(token(1, *expert), true);
    }
    if (op_between) world.go(kHub);
    std::sort(path.begin(), path.end());
    for (const int expert : path) {
      const bool right = world.go(token(kUpdate, expert));
      if (judged) tally.updates.add(right);
      world.use(token(1, expert));
    }
    world.end_step();
  }
  return tally;
}

TEST(PilotChooser, BackwardReturnsInReverse) {
  const Tally by_rule = trained({}).backward;
  EXPECT_GT(by_rule.share(), 0.95) << by_rule.right << " of " << by_rule.choices << ", seed " << kSeed;
  EXPECT_LT(trained({.rules = false}).backward.share(), 0.7) << "or there is nothing that a rule is needed for";
}

TEST(PilotChooser, OptimizersUpdateWhatTheStepHasUsedInOneOrder) {
  const Tally by_rule = trained({}, true).updates;
  EXPECT_GT(by_rule.share(), 0.95) << by_rule.right << " of " << by_rule.choices << ", seed " << kSeed;
  EXPECT_LT(trained({.rules = false}, true).updates.share(), 0.7) << "or there is nothing that a rule is needed for";
}

// While backward goes on the optimizer's first update might come as well: that it does not yet is no reason to
// give it up.
TEST(PilotChooser, UpdatesRightAfterBackwardAreFoundToo) {
  const Tally by_rule = trained({}).updates;
  EXPECT_GT(by_rule.share(), 0.8) << by_rule.right << " of " << by_rule.choices << ", seed " << kSeed;
}

// A step of `trained` in a network of other names.
Tally step_of_another(World& world, Token names) {
  Tally tally;
  std::vector<int> path = world.some(12, 6);
  for (const int expert : path) {
    world.go(names + token(kExpert, expert));
    world.use(names + token(1, expert));
  }
  world.go(names + kLoss);
  for (auto expert = path.rbegin(); expert != path.rend(); ++expert) {
    tally.add(world.go(names + token(kBackward, *expert), true));
    world.use(names + token(1, *expert), true);
  }
  world.end_step();
  return tally;
}

Tally first_steps_of_another(const Chooser& chooser) {
  World world;
  world.chooser = chooser;
  Tally first;
  for (int step = 0; step < 8; ++step) first.add(step_of_another(world, 1'000'000));
  return first;
}

// Whom to trust where is known of whatever network comes.
TEST(PilotChooser, WhatHasNoNamesIsOfUseToAnotherNetwork) {
  World taught;
  for (int step = 0; step < 60; ++step) step_of_another(taught, 0);
  taught.chooser.keep_what_has_no_names();
  EXPECT_EQ(taught.chooser.contexts(), 0U);
  EXPECT_GT(taught.chooser.kinds(), 0U);
  const Tally with = first_steps_of_another(taught.chooser), without = first_steps_of_another(Chooser());
  EXPECT_GE(with.right, without.right) << "of " << with.choices << ", seed " << kSeed;
}

TEST(PilotChooser, FrozenItLearnsNothing) {
  World world({.learn = false});
  for (int step = 0; step < 20; ++step) step_of_another(world, 0);
  EXPECT_EQ(world.chooser.contexts(), 0U);
  EXPECT_EQ(world.chooser.kinds(), 0U);
  EXPECT_GT(world.chooser.score().choices, 0U) << "and yet it is judged";
}

TEST(PilotChooser, TablesAreBoundedBySize) {
  World small({.size = ChooserSize::kSmall}), large({.size = ChooserSize::kLarge});
  for (World* const world : {&small, &large}) {
    for (int step = 0; step < 200; ++step) {
      world->tell({static_cast<int>(step), world->any(1000)});
      for (int i = 0; i < 8; ++i) {
        world->go(kHub);
        world->go(token(kExpert, world->any(40)));
      }
      world->end_step();
    }
  }
  EXPECT_LE(small.chooser.contexts(), std::size_t{1} << 12);
  EXPECT_GT(large.chooser.contexts(), small.chooser.contexts());
}

// Whatever a sample holds.
TEST(PilotChooser, ValuesThatMeanNothingAreSurvived) {
  World world;
  const std::int64_t values[] = {INT64_MIN, INT64_MAX, -1, 0, INT64_MIN + 1};
  for (int step = 0; step < 40; ++step) {
    world.tell_encoded({kPath, 1, values[step % 5], kNoise, 2, values[step % 3], values[step % 4], 90, 0});
    for (int i = 0; i < 4; ++i) {
      world.go(kHub);
      world.go(token(kExpert, world.any(3)));
    }
    world.end_step();
  }
  EXPECT_GT(world.chooser.score().choices, 0U);
}

}  // namespace
}  // namespace outsize::pilot
