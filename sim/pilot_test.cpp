// What the policy `pilot` is worth where every step goes a way of its own, against `lookahead`, and that it is never
// wrong, whatever it foresees.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/checked_run.h"
#include "sim/random.h"
#include "sim/random_program.h"
#include "sim/sim_driver.h"
#include "sim/training_program.h"

namespace outsize::sim {
namespace {

constexpr int kSteps = 40;
constexpr std::size_t kFrom = 19, kTo = 39;  // steps judged: those after twenty

struct Moved {
  Bytes read = 0, demanded = 0;
  Nanos stall = 0;
};

Moved judged(const SimResult& result) {
  const EngineStats &a = result.at_step.at(kFrom), &b = result.at_step.at(kTo);
  return {b.read - a.read, b.demanded - a.demanded, result.stall_at_step[kTo] - result.stall_at_step[kFrom]};
}

// Layers in an order of each step's own, some left out.
TrainingOptions skipping() {
  TrainingOptions options = cells(kSteps);
  options.path_length = 0;
  options.skipped_layers = 12;
  options.op_time = 60'000'000;  // the link has time for all of it
  return options;
}

std::int64_t ops_of(const Program& program) {
  std::int64_t ops = 0;
  for (const Action& action : program.threads[0]) ops += action.kind == Action::Kind::kOpBegin ? 1 : 0;
  return ops;
}

// Of what `lookahead` demands less than seven tenths, and a shorter stall.
void beats_lookahead(const TrainingOptions& options) {
  const Program program = training_program(options);
  for (const int percent : {50, 30}) {
    const Bytes budget = peak_bytes(program) * percent / 100;
    const Moved steered = judged(run(program, budget, "pilot")), repeated = judged(run(program, budget, "lookahead"));
    EXPECT_LT(steered.demanded * 10, repeated.demanded * 7) << "at " << percent << " %";
    EXPECT_LT(steered.stall, repeated.stall) << "at " << percent << " %";
  }
}

TEST(Pilot, WhereTheSampleSaysTheCellsLittleIsDemanded) { beats_lookahead(cells(kSteps)); }

TEST(Pilot, WhereTheSampleSaysTheOrderLittleIsDemanded) { beats_lookahead(skipping()); }

TEST(Pilot, AStaticLoopIsForeseenToo) {
  TrainingOptions options;
  options.steps = 40;
  options.op_time = 20'000'000;
  const Program program = training_program(options);
  for (const int percent : {80, 60, 40, 20}) {
    const Moved moved = judged(run(program, peak_bytes(program) * percent / 100, "pilot"));
    EXPECT_GT(moved.read, 0) << "at " << percent << " %";
    EXPECT_LE(moved.demanded * 20, moved.read) << "at " << percent << " %";
  }
}

TEST(Pilot, WithAnAmpleBudgetNothingMoves) {  // invariant 9
  for (const TrainingOptions& options : {cells(kSteps), skipping()}) {
    const Program program = training_program(options);
    const SimResult result = run(program, peak_bytes(program), "pilot");
    EXPECT_EQ(result.stats.evictions + result.stats.reads + result.stats.writes, 0);
  }
}

// The values of every sample in another order than that of the path.
TEST(Pilot, ASampleThatLiesCostsNothingButTime) {
  constexpr std::uint64_t kSeed = 20261207;
  Program program = training_program(cells(kSteps));
  const Bytes budget = peak_bytes(program) * 30 / 100;
  const SimResult told = run(program, budget, "pilot");
  Random random(kSeed);
  for (Action& action : program.threads[0]) {
    if (action.kind != Action::Kind::kSample) continue;
    std::vector<std::int64_t>& sample = action.sample;
    for (std::size_t i = sample.size(); i-- > 6;) std::swap(sample[i], sample[5 + random.below(i - 4)]);
  }
  const SimResult lied = run(program, budget, "pilot");
  EXPECT_EQ(lied.stats.ops, ops_of(program)) << "seed " << kSeed;
  EXPECT_EQ(lied.stats.ops, told.stats.ops);
  EXPECT_GT(judged(lied).demanded, judged(told).demanded) << "nobody listened";
}

TEST(Pilot, TheSameInputsGiveTheSameDecisions) {
  TrainingOptions options = cells(kSteps);
  options.steps = 12;
  const Program program = training_program(options);
  const Bytes budget = peak_bytes(program) * 40 / 100;
  const SimResult one = run(program, budget, "pilot", true), other = run(program, budget, "pilot", true);
  EXPECT_NE(one.log.find("> sample"), std::string::npos);
  EXPECT_GT(one.stats.read, 0);
  EXPECT_TRUE(one.log == other.log);
}

TEST(Pilot, EveryKthTransferFailing) {  // invariant 6: told, never wrong, never stuck
  TrainingOptions small = cells(kSteps);
  small.layers = 4;
  small.path_length = 6;
  small.steps = 4;
  const Program program = training_program(small);
  SimOptions sim;
  sim.budget = peak_bytes(program) * 50 / 100;
  sim.policy = "pilot";
  std::int64_t told = 0;
  for (std::uint64_t k = 1; k <= 60; ++k) {
    sim.link.fail_kth = k;
    SimDriver driver(program, sim);
    const SimResult result = driver.run();
    told += result.refused_io;
    EXPECT_FALSE(result.fatal);
    for (const std::string& problem : result.problems) ADD_FAILURE() << "k = " << k << ": " << problem;
  }
  EXPECT_GT(told, 0);
}

// Samples of any kind, at any place.
void add_samples(Program& program, Random& random) {
  const std::int64_t values[] = {0, 1, -1, 5, INT64_MIN, INT64_MAX};
  for (auto& actions : program.threads) {
    std::vector<Action> with;
    for (Action& action : actions) {
      if (random.one_in(12)) {
        Action& sample = with.emplace_back();
        sample.kind = Action::Kind::kSample;
        for (auto features = random.between(0, 4); features > 0; --features) {
          const std::int64_t count = random.between(0, 6);
          sample.sample.insert(sample.sample.end(), {features, count});
          for (std::int64_t i = 0; i < count; ++i) sample.sample.push_back(values[random.below(std::size(values))]);
        }
      }
      with.push_back(std::move(action));
    }
    actions = std::move(with);
  }
}

TEST(Pilot, NoInvariantBreaksInRandomProgramsWhateverIsTold) {
  int bad = 0;
  for (std::uint64_t seed = 1; seed <= 150 && bad < 5; ++seed) {
    FuzzCase fuzz = fuzz_case(seed);
    fuzz.sim.policy = "pilot";
    Program program = random_program(fuzz.program);
    Random random(seed);
    add_samples(program, random);
    SimDriver driver(program, fuzz.sim);
    const SimResult result = driver.run();
    bad += result.problems.empty() ? 0 : 1;
    for (const std::string& problem : result.problems) ADD_FAILURE() << "seed " << seed << ": " << problem;
  }
}

}  // namespace
}  // namespace outsize::sim
