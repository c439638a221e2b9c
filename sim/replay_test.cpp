#include "sim/replay.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "sim/random_program.h"
#include "sim/sim_driver.h"

namespace outsize::sim {
namespace {

std::string recorded(std::uint64_t seed) {
  FuzzCase fuzz = fuzz_case(seed);
  if (fuzz.sim.policy == "mad" || fuzz.sim.policy == "oracle") fuzz.sim.policy = "lookahead";  // no policy that a log may name
  fuzz.sim.keep_log = true;
  const Program program = random_program(fuzz.program);
  SimDriver driver(program, fuzz.sim);
  return driver.run().log;
}

TEST(Replay, GivesTheSameLogByteForByte) {
  std::size_t lines = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    auto result = replay(recorded(seed));
    ASSERT_TRUE(result.ok()) << "seed " << seed << ": " << result.error().message();
    ASSERT_TRUE(result->same) << "seed " << seed << ", line " << result->first_difference << ": recorded '"
                              << result->recorded << "', replayed '" << result->replayed << "'";
    EXPECT_TRUE(result->violations.empty()) << "seed " << seed << ": " << result->violations.front();
    lines += result->lines;
  }
  EXPECT_GT(lines, 50'000U);
}

TEST(Replay, SamplesAreReplayedToo) {
  FuzzCase fuzz = fuzz_case(3);
  fuzz.sim.policy = "lookahead";
  fuzz.sim.keep_log = true;
  Program program = random_program(fuzz.program);
  std::int64_t said = 0;
  for (std::vector<Action>& actions : program.threads) {
    for (std::size_t at = 0; at < actions.size(); at += 40) {
      const auto put = actions.emplace(actions.begin() + static_cast<std::ptrdiff_t>(at));
      put->kind = Action::Kind::kSample;
      put->sample = {-77, 2, ++said, -said};
    }
  }
  SimDriver driver(program, fuzz.sim);
  const SimResult run = driver.run();
  EXPECT_TRUE(run.problems.empty()) << run.problems.front();
  EXPECT_NE(run.log.find("> sample"), std::string::npos);
  auto result = replay(run.log);
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_TRUE(result->same) << result->recorded << result->replayed;
  EXPECT_TRUE(result->violations.empty());
  for (const char* bad : {"> sample v5\n", "> sample v5 v2 v1\n"}) {
    EXPECT_FALSE(replay("# outsize decisions 1: ondemand 1000 100 100\n" + std::string(bad)).ok()) << bad;
  }
}

TEST(Replay, TheSameProgramGivesTheSameLog) {
  for (std::uint64_t seed : {5, 6, 7, 8}) EXPECT_EQ(recorded(seed), recorded(seed));
}

TEST(Replay, FindsAChangedDecision) {
  std::string log = recorded(3);
  const std::size_t at = log.find("< evict");
  ASSERT_NE(at, std::string::npos);
  const auto line = static_cast<std::size_t>(std::count(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(at), '\n')) + 1;
  log.erase(at, log.find('\n', at) + 1 - at);
  auto result = replay(log);
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->same);
  EXPECT_EQ(result->first_difference, line);
  EXPECT_EQ(result->replayed.substr(0, 7), "< evict");
}

// A pass of the log through the judge finds what the engine itself would not.
TEST(Replay, JudgesTheRecordedLog) {
  auto result = replay(
      "# outsize decisions 1: ondemand 1000 100 100\n"
      "> alloc e1 b600\n"
      "> alloc e2 b300\n"
      "> fault e2 f1\n"
      "< resume e2\n"
      "> death e1\n");
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_FALSE(result->same);
  EXPECT_EQ(result->replayed, "< release e1");
  ASSERT_EQ(result->violations.size(), 1U);
  EXPECT_NE(result->violations[0].find("invariant 1: extent 0 is dead and idle"), std::string::npos)
      << result->violations[0];
}

TEST(Replay, RefusesWhatItCannotRead) {
  EXPECT_FALSE(replay("").ok());
  EXPECT_FALSE(replay("> alloc e1 b600\n").ok());
  EXPECT_FALSE(replay("# outsize decisions 1: nosuch 1 1 1\n").ok());
  auto bad = replay("# outsize decisions 1: ondemand 1000 100 100\n> alloc e1 b600\n> dance e1\n");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message().find("line 3"), std::string::npos) << bad.error().message();
}

}  // namespace
}  // namespace outsize::sim
