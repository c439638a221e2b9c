#include "planners/weights/solve.h"

#include <gtest/gtest.h>

#include "planners/weights/weights_test_rig.h"

namespace outsize::weights {
namespace {

constexpr int kChains = 600;

TEST(Weights, EveryClaimIsWhatTheJudgeFindsAndNoScheduleBeatsTheBound) {
  const std::uint64_t seed = test_seed(1);
  SCOPED_TRACE("OUTSIZE_TEST_SEED=" + std::to_string(seed));
  TestRandom random(seed);
  int solved[3] = {0, 0, 0}, moving = 0;
  for (int n = 0; n < kChains; ++n) {
    ChainShape shape;
    shape.layers_min = 1;
    shape.layers_max = n % 10 == 0 ? 40 : 10;
    const Chain chain = random_chain(random, shape);
    const Bytes memory = random_memory(random, chain);
    SCOPED_TRACE(describe(chain, memory));
    auto bound = lower_bound(chain, memory);
    ASSERT_TRUE(bound) << bound.error().message();
    for (const Solver solver : kSolvers) {
      auto schedule = solve(chain, memory, solver);
      if (!schedule) {
        ASSERT_EQ(schedule.error().code, ErrorCode::kOutOfBudget) << name_of(solver);
        ASSERT_NE(solver, Solver::kGreedyStar) << "greedy* serves every memory that can be served";
        continue;
      }
      ++solved[static_cast<int>(solver)];
      auto judged = replay(chain, memory, *schedule);
      ASSERT_TRUE(judged) << name_of(solver) << ": " << judged.error().message();
      ASSERT_EQ(judged->time, schedule->time) << name_of(solver);
      ASSERT_EQ(judged->peak, schedule->peak) << name_of(solver);
      ASSERT_GE(judged->time, *bound) << name_of(solver);
      moving += judged->up > 0;
    }
  }
  EXPECT_EQ(solved[2], kChains);
  EXPECT_GT(solved[0], kChains / 10);
  EXPECT_GT(solved[1], solved[0]);
  EXPECT_GT(moving, kChains);
}

}  // namespace
}  // namespace outsize::weights
