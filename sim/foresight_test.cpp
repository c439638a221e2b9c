// What foresight is worth on a training loop: demand reads, bytes and stalls of `lookahead` against
// `ondemand` and against a Belady who knows the whole program.
#include <gtest/gtest.h>

#include "sim/belady.h"
#include "sim/sim_driver.h"
#include "sim/training_program.h"

namespace outsize::sim {
namespace {

// Differences between the ends of two steps.
struct Moved {
  Bytes read = 0, demanded = 0, written = 0;
  Nanos time = 0, stall = 0;
};

Moved between(const SimResult& result, std::size_t from, std::size_t to) {
  const EngineStats &a = result.at_step[from], &b = result.at_step[to];
  return {b.read - a.read, b.demanded - a.demanded, b.written - a.written,
          result.time_at_step[to] - result.time_at_step[from],
          result.stall_at_step[to] - result.stall_at_step[from]};
}

SimResult run(const Program& program, Bytes budget, const char* policy) {
  SimOptions options;
  options.budget = budget;
  options.policy = policy;
  options.reading_max = options.writing_max = std::max<Bytes>(budget / 8, 4 * kMiB);
  SimDriver driver(program, options);
  SimResult result = driver.run();
  for (const std::string& problem : result.problems) ADD_FAILURE() << policy << ": " << problem;
  EXPECT_LE(result.peak, budget);
  return result;
}

constexpr std::size_t kFrom = 3, kTo = 7;  // steps judged: four that have seen enough before them

TrainingOptions loop(Nanos op_time) {
  TrainingOptions options;
  options.steps = 8;
  options.op_time = op_time;
  return options;
}

TEST(Foresight, NothingIsDemandedOnceTheLoopIsKnown) {
  const Program program = training_program(loop(20'000'000));
  for (const int percent : {80, 60, 40, 20}) {
    const Bytes budget = peak_bytes(program) * percent / 100;
    const Moved moved = between(run(program, budget, "lookahead"), kFrom, kTo);
    EXPECT_LE(moved.demanded * 50, moved.read) << "at " << percent << " %";
  }
}

TEST(Foresight, MovesLittleMoreThanBelady) {
  const Program program = training_program(loop(60'000'000));
  for (const int percent : {80, 60, 40, 20}) {
    const Bytes budget = peak_bytes(program) * percent / 100;
    const BeladyResult best = belady(program, budget);
    ASSERT_TRUE(best.fits);
    const Bytes read = best.read_at_step[kTo] - best.read_at_step[kFrom];
    const Bytes written = best.written_at_step[kTo] - best.written_at_step[kFrom];
    const Moved moved = between(run(program, budget, "lookahead"), kFrom, kTo);
    EXPECT_LE(moved.read * 100, read * 125) << "at " << percent << " %: " << moved.read << " against " << read;
    EXPECT_LE((moved.read + moved.written) * 100, (read + written) * 150) << "at " << percent << " %";
    EXPECT_GT(read, 0);
  }
}

TEST(Foresight, HidesWhatTheDiskHasTimeFor) {
  const Program program = training_program(loop(20'000'000));
  for (const int percent : {80, 60, 40, 20}) {
    const Bytes budget = peak_bytes(program) * percent / 100;
    const Moved foreseen = between(run(program, budget, "lookahead"), kFrom, kTo);
    const Moved paged = between(run(program, budget, "ondemand"), kFrom, kTo);
    EXPECT_LE(foreseen.stall * 5, paged.stall) << "at " << percent << " %";
    EXPECT_LE(foreseen.stall * 12, foreseen.time) << "at " << percent << " %";
    EXPECT_EQ(paged.demanded, paged.read);
  }
}

TEST(Foresight, WorthSomethingEvenWhereTheDiskIsTheWall) {
  const Program program = training_program(loop(4'000'000));
  for (const int percent : {80, 60, 40, 20}) {
    const Bytes budget = peak_bytes(program) * percent / 100;
    const Moved foreseen = between(run(program, budget, "lookahead"), kFrom, kTo);
    const Moved paged = between(run(program, budget, "ondemand"), kFrom, kTo);
    EXPECT_LE(foreseen.time * 100, paged.time * 80) << "at " << percent << " %";
  }
}

TEST(Foresight, WithAnAmpleBudgetNothingMoves) {  // invariant 9
  for (const bool grads_stay : {false, true}) {
    TrainingOptions options = loop(4'000'000);
    options.grads_stay = grads_stay;
    const Program program = training_program(options);
    for (const char* policy : {"lookahead", "ondemand", "deepum", "weights", "oracle"}) {
      const SimResult result = run(program, peak_bytes(program), policy);
      EXPECT_EQ(result.stats.evictions + result.stats.reads + result.stats.writes, 0) << policy;
    }
  }
}

// It waits for no experience: from the first step on, and where the path changes, nothing is demanded.
TEST(Foresight, AnOracleIsSurprisedByNothing) {
  TrainingOptions options = loop(60'000'000);
  options.changed_step = 5;
  options.skipped_layers = 6;
  const Program program = training_program(options);
  for (const int percent : {80, 60, 40, 20}) {
    const Bytes budget = peak_bytes(program) * percent / 100;
    const SimResult known = run(program, budget, "oracle"), learned = run(program, budget, "lookahead");
    const BeladyResult best = belady(program, budget);
    EXPECT_GT(known.stats.read, 0);
    EXPECT_LE(known.stats.demanded * 50, known.stats.read) << "at " << percent << " %";
    EXPECT_LE(known.stats.read * 100, best.read * 140) << "at " << percent << " %";
    EXPECT_LE(known.stall * 10, learned.stall) << "at " << percent << " %";
  }
}

// One step takes its layers in another order; the next is as all others before.
TEST(Foresight, AChangedPathCostsTimeAndIsOvercome) {
  TrainingOptions options = loop(20'000'000);
  options.steps = 10;
  options.changed_step = 5;
  options.skipped_layers = 6;
  const Program program = training_program(options);
  const Bytes budget = peak_bytes(program) * 40 / 100;
  const SimResult result = run(program, budget, "lookahead");
  const Moved changed = between(result, 4, 5), later = between(result, 7, 9);
  EXPECT_GT(changed.demanded, 0);
  EXPECT_LE(later.demanded * 50, later.read);
}

// What was foreseen does not come true: but for trials, nothing comes for nothing.
TEST(Foresight, WhereNoStepRepeatsLittleComesForNothing) {
  TrainingOptions options = loop(4'000'000);
  options.path_seed = 7;
  options.skipped_layers = 18;
  options.steps = 80;
  const Program program = training_program(options);
  const Bytes budget = peak_bytes(program) * 20 / 100;
  const SimResult foreseen = run(program, budget, "lookahead"), paged = run(program, budget, "ondemand");
  EXPECT_GT(foreseen.stats.prefetch_missed, 0) << "nothing was foreseen";
  EXPECT_LE(foreseen.stats.prefetch_missed * 20, foreseen.stats.read);
  EXPECT_LE(foreseen.stats.read, paged.stats.read);
  EXPECT_LE(foreseen.time, paged.time);
}

// A tree's cells: what was used a moment ago is used again, whatever the last step did at this place.
TEST(Foresight, AmongCellsThatComeByChanceItIsNoWorseThanTheLeastRecentlyUsed) {
  TrainingOptions options = loop(4'000'000);
  options.layers = 16;
  options.path_seed = 11;
  options.path_length = 60;
  options.steps = 20;
  const Program program = training_program(options);
  for (const int percent : {60, 40, 20}) {
    const Bytes budget = peak_bytes(program) * percent / 100;
    const SimResult foreseen = run(program, budget, "lookahead"), paged = run(program, budget, "ondemand");
    EXPECT_LE(foreseen.stats.read * 10, paged.stats.read * 12) << "at " << percent << " %";
    EXPECT_LE(foreseen.time, paged.time) << "at " << percent << " %";
  }
}

TEST(Foresight, EveryKthTransferFailing) {  // invariant 6: told, never wrong, never stuck
  TrainingOptions small;
  small.layers = 3;
  small.steps = 3;
  const Program program = training_program(small);
  const Bytes budget = peak_bytes(program) * 50 / 100;
  for (const char* policy : {"lookahead", "ondemand", "deepum", "weights"}) {
    std::int64_t told = 0;
    for (std::uint64_t k = 1; k <= 60; ++k) {
      SimOptions sim;
      sim.budget = budget;
      sim.policy = policy;
      sim.link.fail_kth = k;
      SimDriver driver(program, sim);
      const SimResult result = driver.run();
      told += result.refused_io;
      EXPECT_EQ(result.refused_budget, 0);
      EXPECT_FALSE(result.fatal);
      for (const std::string& problem : result.problems) ADD_FAILURE() << policy << ", k = " << k << ": " << problem;
    }
    EXPECT_GT(told, 0) << policy;
  }
}

}  // namespace
}  // namespace outsize::sim
