// `deepum` on a training loop: what its foresight is worth against `lookahead` and `ondemand`, and what
// each of its means (chaining, pre-eviction, invalidation) is worth, by switching it off. Figures are
// printed; asserted is what must hold.
#include <cstdio>

#include <gtest/gtest.h>

#include "sim/sim_driver.h"
#include "sim/training_program.h"
#include "sim/without_invalidation.h"

namespace outsize::sim {
namespace {

constexpr std::size_t kFrom = 3, kTo = 7;  // steps judged: four that have seen enough before them

// Between the ends of two steps.
struct Moved {
  Bytes read = 0, demanded = 0, written = 0;
  Nanos time = 0, stall = 0;
};

Moved run(const Program& program, Bytes budget, const std::string& policy, std::size_t from = kFrom,
          std::size_t to = kTo) {
  SimOptions options;
  options.budget = budget;
  options.policy = policy;
  options.reading_max = options.writing_max = std::max<Bytes>(budget / 8, 4 * kMiB);
  SimDriver driver(program, options);
  const SimResult result = driver.run();
  for (const std::string& problem : result.problems) ADD_FAILURE() << policy << ": " << problem;
  EXPECT_LE(result.peak, budget);
  EXPECT_EQ(result.refused_budget, 0) << policy;
  const EngineStats &a = result.at_step[from], &b = result.at_step[to];
  return {b.read - a.read, b.demanded - a.demanded, b.written - a.written,
          result.time_at_step[to] - result.time_at_step[from],
          result.stall_at_step[to] - result.stall_at_step[from]};
}

Program loop(Nanos op_time) {
  TrainingOptions options;
  options.steps = 8;
  options.op_time = op_time;
  return training_program(options);
}

void print(const char* what, int percent, const Moved& moved) {
  const double in_time = moved.read > 0 ? 100.0 * static_cast<double>(moved.read - moved.demanded) /
                                              static_cast<double>(moved.read) : 100.0;
  std::printf("[ measured ] %3d %%  %-24s time %6.2f s, stall %5.2f s, up %5ld MiB (%5.1f %% ahead), down %5ld MiB\n",
              percent, what, static_cast<double>(moved.time) * 1e-9, static_cast<double>(moved.stall) * 1e-9,
              static_cast<long>(moved.read / kMiB), in_time, static_cast<long>(moved.written / kMiB));
}

constexpr Nanos kSlow = 20'000'000, kQuick = 4'000'000;  // the disk keeps up, or is the wall

// `lookahead` has the whole step in view, this one 32 ops.
TEST(DeepumPolicy, OnAStaticLoopItIsNearLookahead) {
  for (const Nanos op_time : {kSlow, kQuick}) {
    const Program program = loop(op_time);
    std::printf("ops of %ld ms\n", static_cast<long>(op_time / 1'000'000));
    for (const int percent : {80, 60, 40, 20}) {
      const Bytes budget = peak_bytes(program) * percent / 100;
      const Moved best = run(program, budget, "lookahead"), paged = run(program, budget, "ondemand");
      const Moved moved = run(program, budget, "deepum");
      print("lookahead", percent, best);
      print("ondemand", percent, paged);
      print("deepum", percent, moved);
      // Where the disk is the wall the longer view saves bytes: at most 1.22 of lookahead's time since that writes no more
      // than it needs (docs/notes/write-ahead.md).
      EXPECT_LE(moved.time * 100, best.time * (op_time == kSlow ? 115 : 122)) << "at " << percent << " %";
      EXPECT_LE(moved.time * 100, paged.time * 80) << "at " << percent << " %";
      if (op_time == kSlow) {
        EXPECT_LE(moved.demanded * 50, moved.read) << "at " << percent << " %";
      }
    }
  }
}

// Switched off one by one, and both that can be. A live program always says that its tensors died; here
// it is made to keep silent.
TEST(DeepumPolicy, EachOfItsMeansIsWorthSomething) {
  for (const Nanos op_time : {kSlow, kQuick}) {
    const Program program = loop(op_time), kept = without_invalidation(program);
    std::printf("ops of %ld ms\n", static_cast<long>(op_time / 1'000'000));
    for (const int percent : {80, 60, 40, 20}) {
      const Bytes budget = peak_bytes(program) * percent / 100;
      const Moved all = run(program, budget, "deepum");
      const Moved unchained = run(program, budget, "deepum:chaining=off");
      const Moved unevicted = run(program, budget, "deepum:pre-eviction=off");
      const Moved neither = run(program, budget, "deepum:chaining=off,pre-eviction=off");
      const Moved uninvalidated = run(kept, budget, "deepum");
      print("deepum", percent, all);
      print("without chaining", percent, unchained);
      print("without pre-eviction", percent, unevicted);
      print("without both", percent, neither);
      print("without invalidation", percent, uninvalidated);
      EXPECT_LT(all.stall, unchained.stall) << "at " << percent << " %";
      EXPECT_LT(all.stall, neither.stall) << "at " << percent << " %";
      EXPECT_LT(all.read * 5, uninvalidated.read * 4) << "at " << percent << " %";
      if (op_time == kSlow) {  // where the disk is the wall, to write early wins little
        EXPECT_LT(all.stall, unevicted.stall) << "at " << percent << " %";
      } else {
        EXPECT_LT(all.stall, uninvalidated.stall) << "at " << percent << " %";
      }
    }
  }
}

// One step takes its layers in another order; the next is as all others before.
TEST(DeepumPolicy, AChangedPathIsOvercome) {
  TrainingOptions options;
  options.steps = 8;
  options.op_time = kSlow;
  options.changed_step = 4;
  options.skipped_layers = 6;
  const Program program = training_program(options);
  const Bytes budget = peak_bytes(program) * 40 / 100;
  const Moved changed = run(program, budget, "deepum", 3, 4), later = run(program, budget, "deepum", 5, 7);
  EXPECT_GT(changed.demanded, 0);
  EXPECT_LE(later.demanded * 50, later.read);
}

// The transformed program: what the next birth of that size takes over is an operand it writes.
TEST(WithoutInvalidation, TheDeadAreKeptForTheNextOfTheirSize) {
  const Program program = loop(kQuick), kept = without_invalidation(program);
  std::size_t births = 0, deaths = 0, operands = 0, kept_births = 0, kept_deaths = 0, kept_operands = 0;
  for (const Action& action : program.threads[0]) {
    births += action.kind == Action::Kind::kBirth;
    deaths += action.kind == Action::Kind::kDeath;
    operands += action.operands.size();
  }
  for (const Action& action : kept.threads[0]) {
    kept_births += action.kind == Action::Kind::kBirth;
    kept_deaths += action.kind == Action::Kind::kDeath;
    kept_operands += action.operands.size();
  }
  EXPECT_GT(deaths, 0U);
  EXPECT_EQ(kept_deaths, 0U);
  EXPECT_EQ(kept_operands - operands, births - kept_births);
  EXPECT_GT(births, 4 * kept_births) << "nearly all are served";
  EXPECT_GE(peak_bytes(kept), peak_bytes(program));
}

}  // namespace
}  // namespace outsize::sim
