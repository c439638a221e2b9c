// A full next tier: how much of it is enough, and what is told where it is not.
#include <gtest/gtest.h>

#include "sim/sim_driver.h"
#include "sim/training_program.h"

namespace outsize::sim {
namespace {

constexpr Bytes kWay = 8 * kMiB;  // in flight each way, at most

SimResult train(const char* policy, Bytes budget, Bytes limit) {
  TrainingOptions options;
  const Program program = training_program(options);
  SimOptions sim;
  sim.budget = budget;
  sim.policy = policy;
  sim.reading_max = sim.writing_max = kWay;
  sim.spill_limit = limit;
  SimDriver driver(program, sim);
  SimResult result = driver.run();
  for (const std::string& problem : result.problems) ADD_FAILURE() << policy << ": " << problem;
  return result;
}

TEST(SpillLimit, WhatExceedsTheBudgetIsEnoughBesideWhatIsInFlight) {
  for (const char* policy : {"ondemand", "lookahead"}) {
    const SimResult ample = train(policy, Bytes{1} << 50, 0);
    const Bytes all = ample.peak, budget = all / 2;
    const SimResult free = train(policy, budget, all + 2 * kWay);
    const SimResult tight = train(policy, budget, all - budget + 2 * kWay);
    EXPECT_EQ(tight.refused_io, 0) << policy;
    EXPECT_EQ(tight.stats.ops, free.stats.ops) << policy;
    EXPECT_LE(tight.spilled_peak, all - budget + 2 * kWay) << policy;
    if (policy == std::string("lookahead")) {  // the other keeps few copies
      EXPECT_LT(tight.spilled_peak, free.spilled_peak) << "the limit did not bind";
    }
    std::printf("%s: %ld MiB of tensors, budget %ld; wrote %ld MiB, under the limit %ld\n", policy,
                all / kMiB, budget / kMiB, free.stats.written / kMiB, tight.stats.written / kMiB);
  }
}

TEST(SpillLimit, TooLittleIsTold) {
  for (const char* policy : {"ondemand", "lookahead"}) {
    const Bytes all = train(policy, Bytes{1} << 50, 0).peak;
    EXPECT_GT(train(policy, all / 2, all / 4).refused_io, 0) << policy;
  }
}

}  // namespace
}  // namespace outsize::sim
