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

Moved run(const Program& program, Bytes budget, const std::string& policy) {
  SimOptions options;
  options.budget = budget;
  options.policy = policy;
  options.reading_max = options.writing_max = std::max<Bytes>(budget / 8, 4 * kMiB);
  SimDriver driver(program, options);
  const SimResult result = driver.run();
  for (const std::string& problem : result.problems) ADD_FAILURE() << policy << ": " << problem;
  EXPECT_LE(result.peak, budget);
  EXPECT_EQ(result.refused_budget, 0) << policy;
  const EngineStats &a = result.at_step[kFrom], &b = result.at_step[kTo];
  return {b.read - a.read, b.demanded - a.demanded, b.written - a.written,
          result.time_at_step[kTo] - result.time_at_step[kFrom],
          result.stall_at_step[kTo] - result.stall_at_step[kFrom]};
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

TEST(DeepumPolicy, EachOfItsMeansAgainstLookaheadAndOndemand) {
  for (const Nanos op_time : {20'000'000, 4'000'000}) {
    const Program program = loop(op_time), kept = without_invalidation(program);
    std::printf("ops of %ld ms\n", static_cast<long>(op_time / 1'000'000));
    for (const int percent : {80, 60, 40, 20}) {
      const Bytes budget = peak_bytes(program) * percent / 100;
      for (const char* policy : {"lookahead", "ondemand", "deepum", "deepum:chaining=off",
                                 "deepum:pre-eviction=off", "deepum:chaining=off,pre-eviction=off"}) {
        print(policy, percent, run(program, budget, policy));
      }
      print("deepum, no invalidation", percent, run(kept, budget, "deepum"));
    }
  }
}

}  // namespace
}  // namespace outsize::sim
