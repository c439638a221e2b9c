// What the policy `auto` is worth: near the better one of `lookahead` and `pilot`, whichever that is.
#include <gtest/gtest.h>

#include "sim/checked_run.h"
#include "sim/random_program.h"
#include "sim/sim_driver.h"
#include "sim/training_program.h"

namespace outsize::sim {
namespace {

constexpr int kSteps = 60;

// Time of the later half of the steps.
Nanos later_half(const SimResult& result) {
  return result.time_at_step.back() - result.time_at_step.at(result.time_at_step.size() / 2 - 1);
}

TrainingOptions loop() {
  TrainingOptions options;
  options.steps = kSteps;
  options.op_time = 20'000'000;
  return options;
}

TEST(Automatic, WhereTheSampleSaysThePathThePilotSteers) {
  TrainingOptions skipping = cells(kSteps);
  skipping.path_length = 0;
  skipping.skipped_layers = 12;
  skipping.op_time = 60'000'000;
  for (const TrainingOptions& options : {cells(kSteps), skipping}) {
    const Program program = training_program(options);
    for (const int percent : {50, 30}) {
      const Bytes budget = peak_bytes(program) * percent / 100;
      const SimResult automatic = run(program, budget, "auto");
      const Nanos pilot = later_half(run(program, budget, "pilot"));
      EXPECT_LE(later_half(automatic) * 100, pilot * 103) << "at " << percent << " %: " << automatic.foresight;
      EXPECT_TRUE(automatic.foresight.starts_with("pilot since step ")) << automatic.foresight;
    }
  }
}

TEST(Automatic, AStaticLoopIsLeftToTheUsualWay) {
  const Program program = training_program(loop());
  for (const int percent : {60, 40, 20}) {
    const Bytes budget = peak_bytes(program) * percent / 100;
    const SimResult automatic = run(program, budget, "auto"), usual = run(program, budget, "lookahead");
    EXPECT_EQ(automatic.time, usual.time) << "at " << percent << " %";
    EXPECT_EQ(automatic.stats.read, usual.stats.read) << "at " << percent << " %";
    EXPECT_NE(automatic.foresight.find("; the pilot rests since step "), std::string::npos) << automatic.foresight;
    EXPECT_EQ(usual.foresight, "");
  }
}

TEST(Automatic, WithAnAmpleBudgetNothingMoves) {  // invariant 9
  const Program program = training_program(cells(kSteps));
  const SimResult result = run(program, peak_bytes(program), "auto");
  EXPECT_EQ(result.stats.evictions + result.stats.reads + result.stats.writes, 0);
  EXPECT_EQ(result.foresight.find("pilot since"), std::string::npos) << result.foresight;
}

TEST(Automatic, TheSameInputsGiveTheSameDecisions) {
  TrainingOptions options = cells(kSteps);
  options.steps = 24;  // it changes over within them
  const Program program = training_program(options);
  const Bytes budget = peak_bytes(program) * 40 / 100;
  const SimResult one = run(program, budget, "auto", true), other = run(program, budget, "auto", true);
  EXPECT_TRUE(one.foresight.starts_with("pilot since step ")) << one.foresight;
  EXPECT_EQ(one.foresight, other.foresight);
  EXPECT_TRUE(one.log == other.log);
}

TEST(Automatic, NoInvariantBreaksInRandomPrograms) {
  int bad = 0;
  for (std::uint64_t seed = 1; seed <= 150 && bad < 5; ++seed) {
    FuzzCase fuzz = fuzz_case(seed);
    fuzz.sim.policy = seed % 2 == 0 ? "auto" : "auto:margin=1,rest=8";
    const Program program = random_program(fuzz.program);
    SimDriver driver(program, fuzz.sim);
    const SimResult result = driver.run();
    bad += result.problems.empty() ? 0 : 1;
    for (const std::string& problem : result.problems) ADD_FAILURE() << "seed " << seed << ": " << problem;
  }
}

}  // namespace
}  // namespace outsize::sim
