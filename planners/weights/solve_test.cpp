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
    if (n % 3 == 0) shape.slowdown_max = 40;  // a send may take longer than from B to the next B
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

// The example of replay_test.cpp, which was drawn up by hand before: the send has to end before F3.
TEST(WeightsSolve, FindsTheExamplesSchedule) {
  const Chain chain = plain_chain({10, 4, 6});
  for (const Solver solver : kSolvers) {
    auto schedule = solve(chain, 22, solver);
    ASSERT_TRUE(schedule) << schedule.error().message();
    EXPECT_EQ(schedule->op_start, (std::vector<Nanos>{0, 2, 10, 12, 15, 25}));
    ASSERT_EQ(schedule->transfers.size(), 3U);
    EXPECT_EQ(schedule->transfers[0].move, Move::kDown);
    EXPECT_EQ(schedule->transfers[1].start, 10);
    EXPECT_EQ(schedule->transfers[2].start, 15);
    EXPECT_EQ(schedule->time, 28);
    EXPECT_EQ(schedule->peak, 22);
  }
}

// Needed earlier comes first: with one layer's room at a time, F2, F3 and then B2 each wait for theirs.
TEST(WeightsSolve, PrefetchesInTheOrderOfUse) {
  const Chain chain = plain_chain({6, 6, 6});
  auto schedule = solve(chain, 9, Solver::kGreedyStar);
  ASSERT_TRUE(schedule) << schedule.error().message();
  std::vector<std::size_t> up;
  for (const Transfer& t : schedule->transfers) {
    if (t.move == Move::kUp) up.push_back(t.layer);
  }
  EXPECT_EQ(up, (std::vector<std::size_t>{1, 2, 1, 0}));
}

TEST(WeightsSolve, NothingMovesWhereEverythingFits) {
  TestRandom random(test_seed(5));
  for (int n = 0; n < 50; ++n) {
    const Chain chain = random_chain(random);
    for (const Solver solver : kSolvers) {
      auto schedule = solve(chain, memory_range(chain).all, solver);
      ASSERT_TRUE(schedule);
      EXPECT_TRUE(schedule->transfers.empty());
      EXPECT_EQ(schedule->time, Timeline(chain).compute_time());
      EXPECT_EQ(schedule->time, *lower_bound(chain, memory_range(chain).all));
    }
  }
}

// Two layers of 6 bytes in 8 never stand beside each other. F1 2, weight 2 comes in 6, F2 2, B2 3,
// weight 2 goes in 6, weight 1 comes in 6, B1 3.
TEST(WeightsBound, CountsTheWaitsBetweenNeighbours) {
  EXPECT_EQ(*lower_bound(plain_chain({6, 6}), 8), 2 + 6 + 2 + 3 + 6 + 6 + 3);
  EXPECT_EQ(*lower_bound(plain_chain({6, 6}), 14), 2 + 2 + 3 + 3);
  EXPECT_EQ(lower_bound(plain_chain({6, 6}), 7).error().code, ErrorCode::kOutOfBudget);
  // In 13 they stand beside each other, but not while F2 or B2 runs.
  EXPECT_EQ(least_waits(plain_chain({6, 6}), 13), (std::vector<Nanos>{0, 0, 0, 6}));
  EXPECT_EQ(least_waits(plain_chain({6, 6}), 12), (std::vector<Nanos>{0, 6, 0, 12}));
}

// Four layers of 4 bytes in 12: neighbours fit. 5 bytes are absent at F1 and B1, 8 at F4 and B4. With
// 2 ns a byte up, what F1 lacks takes 10, then F4 2; what B4 lacks takes 16, then B1 3.
TEST(WeightsBound, CountsWhatIsAbsentAtTheBorderAndAtTheTurn) {
  Chain chain = plain_chain({4, 4, 4, 4});
  EXPECT_EQ(*lower_bound(chain, 12), 4 * (2 + 3));
  chain.up.bytes_per_us = 500;
  EXPECT_EQ(*lower_bound(chain, 12), 10 + 2 + 16 + 3);
  chain.down.bytes_per_us = 100;  // 8 bytes are sent
  EXPECT_EQ(*lower_bound(chain, 12), 80);
}

TEST(WeightsChain, RefusesWhatMakesNoSense) {
  const Chain good = plain_chain({6, 6});
  EXPECT_TRUE(validate(good));
  Chain bad = good;
  bad.layers.clear();
  EXPECT_FALSE(validate(bad));
  bad = good;
  bad.up.bytes_per_us = 0;
  EXPECT_FALSE(validate(bad));
  bad = good;
  bad.layers[1].backward = 0;
  EXPECT_EQ(validate(bad).error().where, "layer 2");
  bad = good;
  bad.layers[0].activation = -1;
  EXPECT_FALSE(validate(bad));
  bad = good;
  bad.layers[0].weight = 2'000'000'000'000;
  EXPECT_FALSE(validate(bad));
  EXPECT_FALSE(solve(bad, 100, Solver::kGreedy));
  EXPECT_FALSE(lower_bound(bad, 100));
  EXPECT_FALSE(replay(bad, 100, {}));
}

}  // namespace
}  // namespace outsize::weights
