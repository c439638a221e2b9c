// What a timeline tells of a simulated run adds up to what the run says of itself.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/random_program.h"
#include "sim/sim_driver.h"
#include "sim/training_program.h"

namespace outsize::sim {
namespace {

Nanos stalled(const Timeline& line) {
  Nanos sum = 0;
  for (const Timeline::Stall& stall : line.stalls()) sum += stall.end - stall.begin;
  return sum;
}

Bytes moved(const Timeline& line, bool write) {
  Bytes sum = 0;
  for (const Timeline::Move& move : line.moves()) {
    EXPECT_LE(move.asked, move.begin);
    EXPECT_LE(move.begin, move.end);
    if (move.write == write && move.outcome == Timeline::End::kDone) sum += move.bytes;
  }
  return sum;
}

void adds_up(const Timeline& line, const SimResult& result) {
  EXPECT_EQ(stalled(line), result.stall);
  EXPECT_EQ(moved(line, false), result.stats.read);
  EXPECT_EQ(moved(line, true), result.stats.written);
  Bytes most = 0;
  for (const Timeline::Level& level : line.levels()) most = std::max(most, level.resident);
  EXPECT_LE(most, result.stats.resident_peak);
}

class SimDriverTimeline : public testing::TestWithParam<const char*> {};

TEST_P(SimDriverTimeline, WorkAndStallsOfOneThreadAreItsTime) {
  TrainingOptions training;
  training.steps = 4;
  const Program program = training_program(training);
  SimOptions options;
  options.budget = peak_bytes(program) / 2;
  options.policy = GetParam();
  const SimResult plain = SimDriver(program, options).run();
  Timeline line;
  options.timeline = &line;
  const SimResult result = SimDriver(program, options).run();
  EXPECT_EQ(result.time, plain.time) << "it is only looked at";
  EXPECT_EQ(result.stats.read, plain.stats.read);
  EXPECT_GT(result.stall, 0);
  adds_up(line, result);
  EXPECT_EQ(line.totals().work + result.stall, result.time);
  Nanos end = 0;  // of what came before: the two take turns
  std::vector<std::pair<Nanos, Nanos>> spans;
  for (const Timeline::Work& work : line.works()) spans.emplace_back(work.begin, work.end);
  for (const Timeline::Stall& stall : line.stalls()) spans.emplace_back(stall.begin, stall.end);
  std::sort(spans.begin(), spans.end());
  for (const auto& [begins, ends] : spans) {
    EXPECT_GE(begins, end);
    end = ends;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, SimDriverTimeline, testing::Values("lookahead", "ondemand", "deepum", "weights"));

// On demand nothing is asked for ahead, and each read ends a wait.
TEST(SimDriverTimeline, OnDemandNothingIsForeseen) {
  TrainingOptions training;
  training.steps = 3;
  const Program program = training_program(training);
  SimOptions options;
  options.budget = peak_bytes(program) / 2;
  options.policy = "ondemand";
  Timeline line;
  options.timeline = &line;
  const SimResult result = SimDriver(program, options).run();
  std::int64_t reads = 0;
  for (const Timeline::Stall& stall : line.stalls()) {
    if (stall.cause != Timeline::Cause::kRead) continue;
    ++reads;
    EXPECT_FALSE(stall.by.ahead);
    EXPECT_EQ(stall.by.end, stall.end);
    EXPECT_GE(stall.by.asked, stall.since);
    EXPECT_GT(stall.site, 0U);
  }
  EXPECT_EQ(reads, result.stats.reads);
}

TEST(SimDriverTimeline, ManyThreadsFaultsAndFailuresAddUp) {
  std::int64_t stalls = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    FuzzCase fuzz = fuzz_case(seed);
    const Program program = random_program(fuzz.program);
    Timeline line;
    fuzz.sim.timeline = &line;
    fuzz.sim.judge = false;
    const SimResult result = SimDriver(program, fuzz.sim).run();
    if (result.fatal) continue;
    SCOPED_TRACE(seed);
    adds_up(line, result);
    stalls += static_cast<std::int64_t>(line.stalls().size());
  }
  EXPECT_GT(stalls, 1000);
}

}  // namespace
}  // namespace outsize::sim
