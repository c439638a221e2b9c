// Loops whose rounds choose among branches of one kind: what is told says which, and how many there were says when they have all been.
#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/chooser_test_rig.h"

namespace outsize::pilot {
namespace {

constexpr Token kStack = 2, kExpert = 100;
constexpr std::uint32_t kOfExperts = 7, kOfStacks = 9;  // kinds of ops
constexpr int kExperts = 12, kSteps = 160;

// Each row of a batch goes to an expert, which is told; then the rows are put together, whoever was the last. So an expert was
// mostly followed by another, and by each of them hardly ever.
Tally mixture(int rows, const ChooserOptions& options) {
  World world(options);
  Tally tally;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<int> path(static_cast<std::size_t>(rows));
    for (int& expert : path) expert = world.any(kExperts);
    world.tell(path);
    for (const int expert : path) {
      const bool right = world.go(kExpert + static_cast<Token>(expert), false, kOfExperts);
      if (step >= kSteps / 2) tally.add(right);
    }
    const bool right = world.go(kStack, false, kOfStacks);
    if (step >= kSteps / 2) tally.add(right);
    world.end_step();
  }
  return tally;
}

TEST(PilotTurn, WhenABatchHasBeenGoneThroughIsKnownWhicheverBranchWasTheLast) {
  for (const int rows : {2, 4, 6}) {
    EXPECT_GT(mixture(rows, {}).share(), 0.98) << rows << " rows, seed " << kSeed;
  }
}

}  // namespace
}  // namespace outsize::pilot
