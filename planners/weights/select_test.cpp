// Selections worked out by hand. The plain chain's ops hold 1, 2, ... L activations, so with 10, 4 and
// 6 bytes of weights they take 21, 22, 23, 23, 22, 21 bytes.
#include "planners/weights/select.h"

#include <gtest/gtest.h>

#include "planners/weights/weights_test_rig.h"

namespace outsize::weights {
namespace {

// One letter a layer: away from f(orward to backward), b(ackward to forward), 2: both.
std::string chosen(const Chain& chain, Bytes memory, Solver solver, const Options& options = {}) {
  auto away = select(chain, memory, solver, options);
  if (!away) return away.error().code == ErrorCode::kOutOfBudget ? "none" : "error";
  std::string text;
  for (const Away& a : *away) text += a.in[0] && a.in[1] ? '2' : a.in[0] ? 'f' : a.in[1] ? 'b' : '-';
  return text;
}

TEST(WeightsSelect, TakesNothingWhereEverythingFits) {
  for (const Solver solver : kSolvers) EXPECT_EQ(chosen(plain_chain({10, 4, 6}), 23, solver), "---");
}

// Overflow 1 at F3 and B3: weights 1 and 2 cover it alike. The lower layer.
TEST(WeightsSelect, BreaksTiesByLayer) {
  for (const Solver solver : kSolvers) EXPECT_EQ(chosen(plain_chain({10, 4, 6}), 22, solver), "f--");
}

// Overflow 1 2 3 3 2 1: weight 1 covers 2 + 3 + 3 + 2, weight 2 3 + 3, weight 3 1 + 2 + 2 + 1. Then 1
// is left at F1 and B1, which weights 2 and 3 cover from backward to forward.
TEST(WeightsSelect, IteratesUntilNothingOverflows) {
  EXPECT_EQ(chosen(plain_chain({10, 4, 6}), 20, Solver::kSingle), "none");
  EXPECT_EQ(chosen(plain_chain({10, 4, 6}), 20, Solver::kGreedy), "fb-");
  EXPECT_EQ(chosen(plain_chain({10, 4, 6}), 20, Solver::kGreedyStar), "fb-");
}

// Room for one weight at a time: weight 2 has to be away on both sides.
TEST(WeightsSelect, OnlyGreedyStarLetsAWeightLeaveTwice) {
  EXPECT_EQ(chosen(plain_chain({6, 6, 6}), 9, Solver::kSingle), "none");
  EXPECT_EQ(chosen(plain_chain({6, 6, 6}), 9, Solver::kGreedy), "none");
  EXPECT_EQ(chosen(plain_chain({6, 6, 6}), 9, Solver::kGreedyStar), "f2b");
}

// Overflow 5 at F2 and B2 alone. Weight 3 covers all of it, weight 1 eight of ten.
TEST(WeightsSelect, TheCoefficientFavoursForwardToBackward) {
  Chain chain = plain_chain({4, 1, 5});
  chain.layers[1].forward_scratch = chain.layers[1].backward_scratch = 6;
  const Bytes memory = 13;
  EXPECT_EQ(chosen(chain, memory, Solver::kGreedy, {.coefficient_num = 1, .coefficient_den = 1}), "--b");
  EXPECT_EQ(chosen(chain, memory, Solver::kGreedy), "f-b");  // 8 * 3 / 2 > 10
  EXPECT_EQ(chosen(chain, memory, Solver::kGreedy, {.coefficient_num = 0}), "error");
}

TEST(WeightsSelect, ByTimeWeighsOpsWithTheirTime) {
  Chain chain = plain_chain({9, 1, 6});
  chain.layers[2].activation = 0;
  chain.layers[0] = {9, 1, 1, 0, 9, 9};
  chain.layers[1] = {1, 20, 30, 0, 9, 9};
  // Overflow 6 at F1, F2, B2 and B1. Weight 1 covers 6 + 6 (times 3/2: 18), weight 3 covers 24.
  const Bytes memory = 16 + 9 - 6;
  EXPECT_EQ(chosen(chain, memory, Solver::kGreedy), "--b");
  // By time: (6 * 20 + 6 * 30) * 3/2 = 450 against 6 * (1 + 20 + 30 + 1) = 312.
  EXPECT_EQ(chosen(chain, memory, Solver::kGreedy, {.by_time = true}), "f-b");
}

}  // namespace
}  // namespace outsize::weights
