// A long run that somebody wants to end.
#include <gtest/gtest.h>

#include "sim/belady.h"
#include "sim/sim_driver.h"
#include "sim/training_program.h"

namespace outsize::sim {
namespace {

TEST(Cancelled, ARunEndsWhenItIsAsked) {
  TrainingOptions training;
  training.steps = 40;
  const Program program = training_program(training);
  SimOptions options;
  options.budget = Bytes{1} << 40;
  int asked = 0;
  options.cancelled = [&asked] { return ++asked, false; };
  const SimResult whole = SimDriver(program, options).run();
  ASSERT_FALSE(whole.cancelled);
  ASSERT_GE(asked, 4) << "the program is too short to tell";
  options.cancelled = [left = asked / 2]() mutable { return left-- == 0; };
  const SimResult half = SimDriver(program, options).run();
  EXPECT_TRUE(half.cancelled);
  EXPECT_LT(half.stats.ops, whole.stats.ops);
  EXPECT_GT(half.stats.ops, 0);
}

TEST(Cancelled, SoDoesTheOmniscientReference) {
  const Program program = training_program({});
  const BeladyResult none = belady(program, kMiB, [] { return true; });
  EXPECT_TRUE(none.read_at_step.empty());
  EXPECT_FALSE(belady(program, Bytes{1} << 40, [] { return false; }).read_at_step.empty());
}

}  // namespace
}  // namespace outsize::sim
