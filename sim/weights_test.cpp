// `weights` on a training loop: bytes and time against `lookahead` and against the limit, which is what the
// ops take, or the disk for the bytes that Belady's rule moves. Figures are printed; asserted is what must hold.
#include <algorithm>
#include <cstdio>

#include <gtest/gtest.h>

#include "sim/belady.h"
#include "sim/sim_driver.h"
#include "sim/training_program.h"

namespace outsize::sim {
namespace {

constexpr std::size_t kFrom = 4, kTo = 7;  // steps judged: three that are planned

struct Moved {  // a step
  Bytes read = 0, demanded = 0, written = 0;
  Nanos time = 0;
};

Moved run(const Program& program, Bytes budget, const std::string& policy, std::size_t from = kFrom,
          std::size_t to = kTo) {
  SimOptions options;
  options.budget = budget;
  options.policy = policy;
  const EngineOptions live = engine_options(budget);
  options.reading_max = live.reading_max;
  options.writing_max = live.writing_max;
  options.plan_every = kPlanEvery;
  SimDriver driver(program, options);
  const SimResult result = driver.run();
  for (const std::string& problem : result.problems) ADD_FAILURE() << policy << ": " << problem;
  EXPECT_LE(result.peak, budget);
  EXPECT_EQ(result.refused_budget, 0) << policy;
  const auto steps = static_cast<Bytes>(to - from);
  const EngineStats &a = result.at_step[from], &b = result.at_step[to];
  return {(b.read - a.read) / steps, (b.demanded - a.demanded) / steps, (b.written - a.written) / steps,
          (result.time_at_step[to] - result.time_at_step[from]) / steps};
}

// Layers as in examples/mlp_stream.py, without optimizer state unless asked otherwise.
TrainingOptions loop(Nanos op_time, int states = 0) {
  TrainingOptions options;
  options.layers = 48;
  options.steps = 8;
  options.weight = 16 * kMiB;
  options.activation = 4 * kMiB;
  options.op_time = op_time;
  options.states = states;
  return options;
}

Nanos limit(const Program& program, Bytes budget, Nanos compute) {
  const BeladyResult best = belady(program, budget);
  EXPECT_TRUE(best.fits);
  constexpr auto kSteps = static_cast<Bytes>(kTo - kFrom);
  const Bytes read = (best.read_at_step[kTo] - best.read_at_step[kFrom]) / kSteps;
  const Bytes written = (best.written_at_step[kTo] - best.written_at_step[kFrom]) / kSteps;
  const LinkOptions link;
  const auto nanos = [](Bytes bytes, Bytes rate) { return bytes * 1000 / (rate / 1'000'000); };
  const Nanos mixed = nanos(read + written, (link.read_rate + link.write_rate) / 100 * link.mixed_percent);
  return std::max({compute, nanos(read, link.read_rate), nanos(written, link.write_rate), mixed});
}

void print(const char* what, int percent, const Moved& moved) {
  std::printf("[ measured ] %3d %%  %-24s %6.3f s a step, up %5ld MiB, down %5ld MiB\n", percent, what,
              static_cast<double>(moved.time) * 1e-9, static_cast<long>(moved.read / kMiB),
              static_cast<long>(moved.written / kMiB));
}

constexpr Nanos kSlow = 40'000'000, kQuick = 8'000'000;  // the disk keeps up, or is the wall

TEST(WeightsPolicy, IsNearTheLimitAndMovesLessThanLookahead) {
  for (const Nanos op_time : {kSlow, kQuick}) {
    const Program program = training_program(loop(op_time));
    for (const int percent : {40, 20}) {
      const Bytes budget = peak_bytes(program) * percent / 100;
      const Nanos least = limit(program, budget, run(program, 2 * peak_bytes(program), "ondemand").time);
      const Moved best = run(program, budget, "lookahead"), moved = run(program, budget, "weights");
      print("lookahead", percent, best);
      print("weights", percent, moved);
      std::printf("[ measured ] %3d %%  %-24s %6.3f s a step\n", percent, "limit", static_cast<double>(least) * 1e-9);
      EXPECT_LE(moved.time, best.time) << "at " << percent << " %";
      EXPECT_LE((moved.read + moved.written) * 100, (best.read + best.written) * 99) << "at " << percent << " %";
      EXPECT_LE(moved.time * 100, least * 110) << "at " << percent << " %";
      if (op_time == kSlow) {
        EXPECT_LE(moved.demanded * 50, moved.read) << "at " << percent << " %";
      }
    }
  }
}

// Printed: what greedy* is worth, and that gradients and activations may leave as well.
TEST(WeightsPolicy, ItsSolvers) {
  for (const int states : {0, 2}) {
    const Program program = training_program(loop(kQuick, states));
    std::printf("%d states a weight\n", states);
    for (const int percent : {60, 40, 20}) {
      const Bytes budget = peak_bytes(program) * percent / 100;
      const Moved best = run(program, budget, "weights");
      print("weights", percent, best);
      print("lookahead", percent, run(program, budget, "lookahead"));
      for (const char* policy : {"weights:solver=greedy", "weights:solver=single", "weights:moves=weights"}) {
        const Moved moved = run(program, budget, policy);
        print(policy, percent, moved);
        EXPECT_LE(best.time * 100, moved.time * 102) << policy << " at " << percent << " %";
      }
    }
  }
}

// One step takes its layers in another order: the plan is given up, and made again once a step came twice.
TEST(WeightsPolicy, AChangedPathIsOvercome) {
  TrainingOptions options = loop(kSlow);
  options.steps = 10;
  options.changed_step = 4;
  options.skipped_layers = 6;
  const Program program = training_program(options);
  const Bytes budget = peak_bytes(program) * 40 / 100;
  const Moved changed = run(program, budget, "weights", 3, 4), later = run(program, budget, "weights", 7, 9);
  const Moved before = run(program, budget, "weights", 2, 3);
  EXPECT_GT(changed.demanded, 0);
  EXPECT_LE(later.demanded * 50, later.read);
  EXPECT_LE(later.written, before.written * 102 / 100) << "the plan's bytes again, not lookahead's";
}

}  // namespace
}  // namespace outsize::sim
