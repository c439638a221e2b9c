// Loops whose rounds choose among branches of one kind: what is told says which, and how many there were says when they have all been.
#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/chooser_test_rig.h"

namespace outsize::pilot {
namespace {

constexpr Token kStack = 2, kMore = 3, kExpert = 100;
constexpr std::uint32_t kOfExperts = 7, kOfStacks = 9;  // kinds of ops
constexpr int kExperts = 12, kSteps = 160;

struct Said {
  Tally experts, ends;
};

// Each row of a batch goes to an expert, which is told; then the rows are put together, whoever was the last. So an expert was
// mostly followed by another, and by each of them hardly ever. More is told than this loop uses: what stands behind its rows names
// experts too.
Said mixture(int rows) {
  World world;
  Said said;
  for (int step = 0; step < kSteps; ++step) {
    const bool judged = step >= kSteps / 2;
    std::vector<int> told(static_cast<std::size_t>(rows) + 3);
    for (int& expert : told) expert = world.any(kExperts);
    world.tell(told);
    for (int row = 0; row < rows; ++row) {
      const int expert = told[static_cast<std::size_t>(row)];
      const bool right = world.go(kExpert + static_cast<Token>(expert), false, kOfExperts);
      if (judged) said.experts.add(right);
    }
    const bool right = world.go(kStack, false, kOfStacks);
    if (judged) said.ends.add(right);
    world.end_step();
  }
  return said;
}

TEST(PilotRound, WhenABatchHasBeenGoneThroughIsKnownWhicheverBranchWasTheLast) {
  for (const int rows : {4, 6}) {
    const Said said = mixture(rows);
    EXPECT_GT(said.experts.share(), 0.95) << rows << " rows, seed " << kSeed;
    EXPECT_GT(said.ends.share(), 0.95) << rows << " rows, seed " << kSeed;
  }
}

// The sample is right of 98 rounds in 99, so that it alone would be asked: but of the end who counts is surer.
TEST(PilotRound, WhoIsSureIsOverruledWhereACountIsSurer) {
  const Said said = mixture(98);
  EXPECT_GT(said.experts.share(), 0.95) << "seed " << kSeed;
  EXPECT_GT(said.ends.share(), 0.9) << "seed " << kSeed;
}

// A batch that is told row by row: with each sample counting begins anew, but not that of samples.
TEST(PilotRound, AfterTheLastSampleOfAStepItGoesOnElsewhere) {
  constexpr int kRows = 4;
  World world;
  Tally tally;
  for (int step = 0; step < kSteps; ++step) {
    for (int row = 1; row <= kRows; ++row) {
      const int expert = world.any(kExperts);
      world.tell({expert});
      world.go(kExpert + static_cast<Token>(expert), false, kOfExperts);
      const bool right = world.go(row < kRows ? kMore : kStack, false, row < kRows ? kOfExperts + 1 : kOfStacks);
      if (step >= kSteps / 2) tally.add(right);
    }
    world.end_step();
  }
  EXPECT_GT(tally.share(), 0.95) << "seed " << kSeed;
}

}  // namespace
}  // namespace outsize::pilot
