// Random programs through the engine, watched by the judge and by modelled bytes.
//
// OUTSIZE_FUZZ_SEED=n runs one seed and prints what it found; OUTSIZE_FUZZ_RUNS=n runs more.
#include <cstdlib>

#include <gtest/gtest.h>

#include "sim/random_program.h"
#include "sim/sim_driver.h"

namespace outsize::sim {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string problems_of(std::uint64_t seed, SimResult* out = nullptr) {
  const FuzzCase fuzz = fuzz_case(seed);
  const Program program = random_program(fuzz.program);
  SimDriver driver(program, fuzz.sim);
  const SimResult result = driver.run();
  std::string text;
  for (const std::string& problem : result.problems) text += "  " + problem + "\n";
  if (out != nullptr) *out = result;
  return text;
}

// In parts, so that they can run side by side.
constexpr std::uint64_t kParts = 4;

class EngineFuzz : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Parts, EngineFuzz, testing::Range<std::uint64_t>(0, kParts));

TEST_P(EngineFuzz, NoInvariantBreaks) {
  const std::uint64_t one = from_environment("OUTSIZE_FUZZ_SEED", 0);
  if (one > 0 && GetParam() > 0) GTEST_SKIP() << "one seed is run by the first part";
  const std::uint64_t runs = one > 0 ? 1 : from_environment("OUTSIZE_FUZZ_RUNS", 2500) / kParts;
  const std::uint64_t first = one > 0 ? one : 1 + GetParam() * runs;
  int bad = 0;
  EngineStats sum;
  std::int64_t refused_budget = 0, refused_io = 0, fatal = 0;
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    SimResult result;
    const std::string problems = problems_of(seed, &result);
    sum.reads += result.stats.reads;
    sum.writes += result.stats.writes;
    sum.evictions += result.stats.evictions;
    sum.faults += result.stats.faults;
    sum.ops += result.stats.ops;
    refused_budget += result.refused_budget;
    refused_io += result.refused_io;
    fatal += result.fatal;
    if (problems.empty()) continue;
    ADD_FAILURE() << "OUTSIZE_FUZZ_SEED=" << seed << "\n" << problems;
    if (++bad == 5) break;
  }
  if (one == 0 && runs >= 500) {  // the programs press as hard as they are meant to
    EXPECT_GT(sum.evictions, 100 * static_cast<std::int64_t>(runs));
    EXPECT_GT(sum.faults, static_cast<std::int64_t>(runs));
    EXPECT_GT(refused_budget, 0);
    EXPECT_GT(refused_io, 0);
  }
  std::printf("ops %ld, reads %ld, writes %ld, evictions %ld, faults %ld, refused %ld + %ld, fatal %ld\n",
              sum.ops, sum.reads, sum.writes, sum.evictions, sum.faults, refused_budget, refused_io, fatal);
}

}  // namespace
}  // namespace outsize::sim
