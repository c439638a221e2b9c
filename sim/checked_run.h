// For tests: a simulated run that has kept its budget, and the program whose steps go ways of their own.
#pragma once

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "sim/sim_driver.h"
#include "sim/training_program.h"

namespace outsize::sim {

inline SimOptions options_of(Bytes budget, const char* policy) {
  SimOptions options;
  options.budget = budget;
  options.policy = policy;
  options.reading_max = options.writing_max = std::max<Bytes>(budget / 8, 4 * kMiB);
  return options;
}

// Fails the test where an invariant broke, the budget did not hold or anything was refused.
inline SimResult run(const Program& program, Bytes budget, const char* policy, bool keep_log = false) {
  SimOptions options = options_of(budget, policy);
  options.keep_log = keep_log;
  SimDriver driver(program, options);
  SimResult result = driver.run();
  for (const std::string& problem : result.problems) ADD_FAILURE() << policy << ": " << problem;
  EXPECT_LE(result.peak, budget) << policy;
  EXPECT_EQ(result.refused_budget + result.refused_io, 0) << policy;
  return result;
}

// A tree's cells, told ahead of each step.
inline TrainingOptions cells(int steps) {
  TrainingOptions options;
  options.steps = steps;
  options.layers = 24;
  options.path_seed = 3;
  options.path_length = 40;
  options.tells = true;
  return options;
}

}  // namespace outsize::sim
