// Choices of which somebody is sure, though not all that he says is known at the op where he says it.
#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/chooser_test_rig.h"

namespace outsize::pilot {
namespace {

constexpr Token kEnd = 5, kBranch = 100, kEnds = 1000;  // ends of branches are named after them
constexpr int kBranches = 12, kLong = 6;

// As many branches as are told, one after the other, and an end; where it is named after the last of them.
void step(World& world, const std::vector<int>& path) {
  world.tell(path);
  for (const int branch : path) world.go(kBranch + static_cast<Token>(branch));
  world.go(kEnds + static_cast<Token>(path.back()), false, 0, kEnd);
  world.end_step();
}

// One branch was never the last: how its end will be called nobody knows. What the sample is sure of is the end of another, and not
// any branch that mostly came after this one, with which a plan would go on for ever.
TEST(PilotSure, WhatNeverCameHereIsFoundWhereItCameAfterAnotherBranch) {
  constexpr int kNeverLast = 7;
  World world;
  for (int i = 0; i < 120; ++i) {
    std::vector<int> path(static_cast<std::size_t>(2 + world.any(kLong)));
    for (int& branch : path) branch = world.any(kBranches);
    if (path.back() == kNeverLast) path.back() = 0;
    step(world, path);
  }
  const std::vector<int> path{3, kNeverLast, 5, kNeverLast};
  world.tell(path);
  for (const int branch : path) world.go(kBranch + static_cast<Token>(branch));
  EXPECT_EQ(world.said().relative, kEnd) << "seed " << kSeed;
}

}  // namespace
}  // namespace outsize::pilot
