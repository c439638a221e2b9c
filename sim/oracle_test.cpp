// The policy `oracle` in simulation: it is told the program, and finds its way back where ops were refused.
#include "sim/oracle.h"

#include "core/trace/decision_log.h"
#include "sim/checked_run.h"
#include "sim/replay.h"

namespace outsize::sim {
namespace {

TEST(SimulatedOracle, EveryOpComesAsItWasTold) {
  const Program program = training_program(cells(6));
  const SimResult result = run(program, peak_bytes(program) * 40 / 100, "oracle");
  EXPECT_GT(result.recognized.ops, 0U);
  EXPECT_EQ(result.recognized.known, result.recognized.ops);
  EXPECT_FALSE(result.recognized.given_up);
}

TEST(SimulatedOracle, ItsLogIsReplayedWithTheSameRunAlone) {
  const Program program = training_program(cells(3)), other = training_program(cells(2));
  const SimResult result = run(program, peak_bytes(program) * 40 / 100, "oracle", true);
  auto again = replay(result.log, nullptr, {}, {recording_of(program), ""});
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_TRUE(again->same) << again->recorded << " | " << again->replayed;
  EXPECT_GT(again->moves, 0U);
  const auto wrong = replay(result.log, nullptr, {}, {recording_of(other), "another"});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().what, "the run that wrote the log foresaw from no recorded run");
}

TEST(SimulatedOracle, ALogNamesTheRunThatItForesawFrom) {
  std::string line;
  DecisionLog log([&](std::string_view text) { line += text; });
  log.header("oracle", 9, 8, 7, "", "abc");
  LogHeader header;
  ASSERT_TRUE(parse_header(line, header));
  EXPECT_EQ(header.policy + header.model + "," + header.run, "oracle,abc");
  const auto none = replay(line, nullptr);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().what, "the run that wrote the log foresaw from the trace abc");
  const auto another = replay(line, nullptr, {}, {nullptr, "def"});
  ASSERT_FALSE(another.ok());
  EXPECT_EQ(another.error().what, "the run that wrote the log foresaw from the trace abc, and the one given is def");
  line.clear();
  log.header("pilot", 9, 8, 7, "m", "r");
  ASSERT_TRUE(parse_header(line, header));
  EXPECT_EQ(header.model + header.run, "mr");
}

}  // namespace
}  // namespace outsize::sim
