#include "sim/training_program.h"

#include <vector>

#include <gtest/gtest.h>

#include "core/trace/sample.h"

namespace outsize::sim {
namespace {

constexpr SiteId kForward = 100;

// What was told ahead of each step, and which layers it then took forward.
struct Steps {
  std::vector<std::vector<std::int64_t>> told, taken;
};

Steps steps_of(const TrainingOptions& options) {
  Steps steps;
  const Program program = training_program(options);
  std::vector<std::int64_t> taken;
  for (const Action& action : program.threads[0]) {
    if (action.kind == Action::Kind::kSample) {
      EXPECT_TRUE(taken.empty()) << "told too late";
      EXPECT_EQ(steps.told.size(), steps.taken.size()) << "told once a step";
      EXPECT_TRUE(trace::is_sample(action.sample));
      steps.told.push_back(action.sample);
    }
    const bool forward = action.kind == Action::Kind::kOpBegin && !action.in_backward && action.site >= kForward;
    if (forward && action.site < kForward + static_cast<SiteId>(options.layers)) {
      taken.push_back(static_cast<std::int64_t>(action.site - kForward));
    }
    if (action.kind != Action::Kind::kStep) continue;
    steps.taken.push_back(taken);
    taken.clear();
  }
  return steps;
}

TEST(TrainingProgram, ASampleSaysThePathAheadOfEachStep) {
  TrainingOptions options;
  options.layers = 6;
  options.steps = 4;
  options.tells = true;
  for (const int path_length : {0, 10}) {
    options.path_seed = 5;
    options.skipped_layers = 2;
    options.path_length = path_length;
    const Steps steps = steps_of(options);
    ASSERT_EQ(steps.taken.size(), 4U);
    ASSERT_EQ(steps.told.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(steps.taken[i].size(), path_length == 0 ? 4U : 10U);
      const auto size = static_cast<std::int64_t>(steps.taken[i].size());
      std::vector<std::int64_t> says{7, 1, static_cast<std::int64_t>(i), 8, size};
      says.insert(says.end(), steps.taken[i].begin(), steps.taken[i].end());
      EXPECT_EQ(steps.told[i], says) << "step " << i;
    }
    EXPECT_NE(steps.taken[0], steps.taken[1]);
  }
}

TEST(TrainingProgram, WhereItIsNotAskedToNothingIsTold) {
  TrainingOptions options;
  options.path_seed = 5;
  EXPECT_TRUE(steps_of(options).told.empty());
}

}  // namespace
}  // namespace outsize::sim
