// The pilot taught by recorded runs, and runs that begin with what was learnt.
#include "sim/pilot_training.h"

#include <string>

#include <gtest/gtest.h>

#include "sim/replay.h"
#include "sim/sim_driver.h"
#include "sim/training_program.h"

namespace outsize::sim {
namespace {

// Layers in an order of each step's own, which its sample says.
Program paths(std::uint64_t seed, int steps) {
  TrainingOptions options;
  options.steps = steps;
  options.path_seed = seed;
  options.skipped_layers = 12;
  options.tells = true;
  options.op_time = 60'000'000;  // the link has time for all of it
  return training_program(options);
}

std::string taught(const Program& program) {
  PilotTraining training;
  training.learn(program, 0);
  return training.model();
}

SimResult run(const Program& program, const std::string& model) {
  SimOptions options;
  options.budget = peak_bytes(program) / 2;
  options.policy = "pilot";
  options.model = model;
  options.model_name = model.empty() ? "" : "taught";
  options.reading_max = options.writing_max = options.budget / 8;
  options.keep_log = true;
  SimResult result = SimDriver(program, options).run();
  for (const std::string& problem : result.problems) ADD_FAILURE() << problem;
  return result;
}

TEST(PilotTraining, HeldOutStepsAreForeseenBetterForWhatWasLearnt) {
  PilotTraining training;
  const Taught taught = training.learn(paths(3, 50), 20);
  EXPECT_EQ(taught.steps, 40U);
  EXPECT_EQ(taught.held_steps, 10U);
  EXPECT_EQ(taught.samples, 40U);
  ASSERT_GT(taught.choices, 50U);
  ASSERT_GT(taught.choices_before, 0U);
  EXPECT_GT(taught.right_after * taught.choices_before, taught.right_before * taught.choices);
  EXPECT_EQ(training.model(), [] {
    PilotTraining again;
    again.learn(paths(3, 50), 20);
    return again.model();
  }());
}

TEST(PilotTraining, ARunThatBeginsWithItDemandsLessInItsFirstSteps) {
  const Program program = paths(4, 8);
  const SimResult with = run(program, taught(paths(3, 50))), without = run(program, "");
  EXPECT_FALSE(with.recognized.given_up);
  EXPECT_LT(with.at_step[5].demanded - with.at_step[0].demanded, without.at_step[5].demanded - without.at_step[0].demanded);
  EXPECT_LT(with.stall_at_step[5], without.stall_at_step[5]);
}

TEST(PilotTraining, ItsLogIsReplayedWithTheSameModelAlone) {
  const std::string model = taught(paths(3, 20));
  const SimResult result = run(paths(4, 6), model);
  auto same = replay(result.log, nullptr, {model, "taught"});
  ASSERT_TRUE(same.ok()) << same.error().message();
  EXPECT_TRUE(same->same) << same->recorded << " / " << same->replayed;
  EXPECT_TRUE(same->violations.empty());
  EXPECT_FALSE(replay(result.log).ok());
  EXPECT_FALSE(replay(result.log, nullptr, {model, "another"}).ok());
  EXPECT_FALSE(replay(run(paths(4, 2), "").log, nullptr, {model, "taught"}).ok());
}

TEST(PilotTraining, ADamagedModelIsRefused) {
  PilotTraining training;
  EXPECT_FALSE(training.begin_with("x").ok());
  EXPECT_TRUE(training.begin_with(taught(paths(3, 5))).ok());
}

}  // namespace
}  // namespace outsize::sim
