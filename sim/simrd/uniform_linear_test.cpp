// The unit chain of DTR's paper: n ops forward, n backward, one byte and one time unit each. The
// numbers below were not made by outsize: they are the answers of the public simulator
// (uwsampl/dtr-prototype at eff53cc, runtime V2EagerOptimized, limit 50 n), carried over whole.
#include <gtest/gtest.h>

#include <string>

#include "sim/simrd/simulation.h"

namespace outsize::sim::simrd {
namespace {

struct Row {
  int ops;
  Bytes budget;
  const char* policy;
  Outcome::Status status;
  Nanos compute, recompute, clock;
  Bytes peak;
};

constexpr Row kRows[] = {
    {8, 3, "dtr", Outcome::kOk, 16, 15, 32, 3},
    {8, 3, "dtr-local", Outcome::kOk, 16, 15, 32, 3},
    {8, 3, "msps", Outcome::kOk, 16, 18, 35, 3},
    {8, 3, "exact-size", Outcome::kOk, 16, 20, 37, 3},
    {8, 4, "dtr-eqclass", Outcome::kOk, 16, 5, 22, 4},
    {8, 4, "lru", Outcome::kOk, 16, 7, 24, 4},
    {8, 4, "largest", Outcome::kOk, 16, 14, 31, 4},
    {8, 6, "dtr", Outcome::kOk, 16, 2, 19, 6},
    {8, 6, "dtr-local", Outcome::kOk, 16, 2, 19, 6},
    {8, 6, "msps", Outcome::kOk, 16, 3, 20, 6},
    {8, 6, "exact-size", Outcome::kOk, 16, 2, 19, 6},
    {8, 8, "dtr-eqclass", Outcome::kOk, 16, 0, 17, 8},
    {8, 8, "lru", Outcome::kOk, 16, 0, 17, 8},
    {8, 8, "largest", Outcome::kOk, 16, 0, 17, 8},
    {8, 9, "dtr", Outcome::kOk, 16, 0, 17, 8},
    {8, 9, "dtr-local", Outcome::kOk, 16, 0, 17, 8},
    {8, 9, "msps", Outcome::kOk, 16, 0, 17, 8},
    {8, 9, "exact-size", Outcome::kOk, 16, 0, 17, 8},
    {8, 10, "dtr-eqclass", Outcome::kOk, 16, 0, 17, 8},
    {8, 10, "lru", Outcome::kOk, 16, 0, 17, 8},
    {8, 10, "largest", Outcome::kOk, 16, 0, 17, 8},
    {16, 3, "dtr", Outcome::kOk, 32, 93, 126, 3},
    {16, 3, "dtr-local", Outcome::kOk, 32, 91, 124, 3},
    {16, 3, "msps", Outcome::kOk, 32, 98, 131, 3},
    {16, 3, "exact-size", Outcome::kOk, 32, 104, 137, 3},
    {16, 4, "dtr-eqclass", Outcome::kOk, 32, 57, 90, 4},
    {16, 4, "lru", Outcome::kOk, 32, 67, 100, 4},
    {16, 4, "largest", Outcome::kOk, 32, 90, 123, 4},
    {16, 5, "dtr", Outcome::kOk, 32, 17, 50, 5},
    {16, 5, "dtr-local", Outcome::kOk, 32, 36, 69, 5},
    {16, 5, "msps", Outcome::kOk, 32, 19, 52, 5},
    {16, 5, "exact-size", Outcome::kOk, 32, 25, 58, 5},
    {16, 8, "dtr-eqclass", Outcome::kOk, 32, 8, 41, 8},
    {16, 8, "lru", Outcome::kOk, 32, 11, 44, 8},
    {16, 8, "largest", Outcome::kOk, 32, 44, 77, 8},
    {16, 16, "dtr", Outcome::kOk, 32, 0, 33, 16},
    {16, 16, "dtr-local", Outcome::kOk, 32, 0, 33, 16},
    {16, 16, "msps", Outcome::kOk, 32, 0, 33, 16},
    {16, 16, "exact-size", Outcome::kOk, 32, 0, 33, 16},
    {16, 17, "dtr-eqclass", Outcome::kOk, 32, 0, 33, 16},
    {16, 17, "lru", Outcome::kOk, 32, 0, 33, 16},
    {16, 17, "largest", Outcome::kOk, 32, 0, 33, 16},
    {16, 18, "dtr", Outcome::kOk, 32, 0, 33, 16},
    {16, 18, "dtr-local", Outcome::kOk, 32, 0, 33, 16},
    {16, 18, "msps", Outcome::kOk, 32, 0, 33, 16},
    {16, 18, "exact-size", Outcome::kOk, 32, 0, 33, 16},
    {32, 3, "dtr-eqclass", Outcome::kOk, 64, 435, 500, 3},
    {32, 3, "lru", Outcome::kOk, 64, 435, 500, 3},
    {32, 3, "largest", Outcome::kOk, 64, 464, 529, 3},
    {32, 4, "dtr", Outcome::kOk, 64, 329, 394, 4},
    {32, 4, "dtr-local", Outcome::kOk, 64, 379, 444, 4},
    {32, 4, "msps", Outcome::kOk, 64, 116, 181, 4},
    {32, 4, "exact-size", Outcome::kOk, 64, 267, 332, 4},
    {32, 6, "dtr-eqclass", Outcome::kOk, 64, 48, 113, 6},
    {32, 6, "lru", Outcome::kOk, 64, 163, 228, 6},
    {32, 6, "largest", Outcome::kOk, 64, 377, 442, 6},
    {32, 12, "dtr", Outcome::kOk, 64, 20, 85, 12},
    {32, 12, "dtr-local", Outcome::kOk, 64, 39, 104, 12},
    {32, 12, "msps", Outcome::kOk, 64, 21, 86, 12},
    {32, 12, "exact-size", Outcome::kOk, 64, 23, 88, 12},
    {32, 16, "dtr-eqclass", Outcome::kOk, 64, 16, 81, 16},
    {32, 16, "lru", Outcome::kOk, 64, 19, 84, 16},
    {32, 16, "largest", Outcome::kOk, 64, 152, 217, 16},
    {32, 32, "dtr", Outcome::kOk, 64, 0, 65, 32},
    {32, 32, "dtr-local", Outcome::kOk, 64, 0, 65, 32},
    {32, 32, "msps", Outcome::kOk, 64, 0, 65, 32},
    {32, 32, "exact-size", Outcome::kOk, 64, 0, 65, 32},
    {32, 33, "dtr-eqclass", Outcome::kOk, 64, 0, 65, 32},
    {32, 33, "lru", Outcome::kOk, 64, 0, 65, 32},
    {32, 33, "largest", Outcome::kOk, 64, 0, 65, 32},
    {32, 34, "dtr", Outcome::kOk, 64, 0, 65, 32},
    {32, 34, "dtr-local", Outcome::kOk, 64, 0, 65, 32},
    {32, 34, "msps", Outcome::kOk, 64, 0, 65, 32},
    {32, 34, "exact-size", Outcome::kOk, 64, 0, 65, 32},
    {64, 3, "dtr-eqclass", Outcome::kOk, 128, 1897, 2026, 3},
    {64, 3, "lru", Outcome::kOk, 128, 1891, 2020, 3},
    {64, 3, "largest", Outcome::kOk, 128, 1952, 2081, 3},
    {64, 4, "dtr", Outcome::kOk, 128, 1772, 1901, 4},
    {64, 4, "dtr-local", Outcome::kOk, 128, 1771, 1900, 4},
    {64, 4, "msps", Outcome::kOk, 128, 467, 596, 4},
    {64, 4, "exact-size", Outcome::kOk, 128, 1171, 1300, 4},
    {64, 7, "dtr-eqclass", Outcome::kOk, 128, 129, 258, 7},
    {64, 7, "lru", Outcome::kOk, 128, 731, 860, 7},
    {64, 7, "largest", Outcome::kOk, 128, 1710, 1839, 7},
    {64, 16, "dtr", Outcome::kOk, 128, 49, 178, 16},
    {64, 16, "dtr-local", Outcome::kOk, 128, 161, 290, 16},
    {64, 16, "msps", Outcome::kOk, 128, 60, 189, 16},
    {64, 16, "exact-size", Outcome::kOk, 128, 74, 203, 16},
    {64, 32, "dtr-eqclass", Outcome::kOk, 128, 32, 161, 32},
    {64, 32, "lru", Outcome::kOk, 128, 35, 164, 32},
    {64, 32, "largest", Outcome::kOk, 128, 560, 689, 32},
    {64, 64, "dtr", Outcome::kOk, 128, 0, 129, 64},
    {64, 64, "dtr-local", Outcome::kOk, 128, 0, 129, 64},
    {64, 64, "msps", Outcome::kOk, 128, 0, 129, 64},
    {64, 64, "exact-size", Outcome::kOk, 128, 0, 129, 64},
    {64, 65, "dtr-eqclass", Outcome::kOk, 128, 0, 129, 64},
    {64, 65, "lru", Outcome::kOk, 128, 0, 129, 64},
    {64, 65, "largest", Outcome::kOk, 128, 0, 129, 64},
    {64, 66, "dtr", Outcome::kOk, 128, 0, 129, 64},
    {64, 66, "dtr-local", Outcome::kOk, 128, 0, 129, 64},
    {64, 66, "msps", Outcome::kOk, 128, 0, 129, 64},
    {64, 66, "exact-size", Outcome::kOk, 128, 0, 129, 64},
    {128, 3, "dtr-eqclass", Outcome::kRecomputeExceeded, 201, 6401, 6603, 3},
    {128, 3, "lru", Outcome::kRecomputeExceeded, 201, 6401, 6603, 3},
    {128, 3, "largest", Outcome::kRecomputeExceeded, 198, 6401, 6600, 3},
    {128, 4, "dtr", Outcome::kRecomputeExceeded, 204, 6401, 6606, 4},
    {128, 4, "dtr-local", Outcome::kRecomputeExceeded, 204, 6401, 6606, 4},
    {128, 4, "msps", Outcome::kOk, 256, 1842, 2099, 4},
    {128, 4, "exact-size", Outcome::kOk, 256, 4899, 5156, 4},
    {128, 8, "dtr-eqclass", Outcome::kOk, 256, 317, 574, 8},
    {128, 8, "lru", Outcome::kOk, 256, 3056, 3313, 8},
    {128, 8, "largest", Outcome::kRecomputeExceeded, 206, 6401, 6608, 8},
    {128, 23, "dtr", Outcome::kOk, 256, 105, 362, 23},
    {128, 23, "dtr-local", Outcome::kOk, 256, 594, 851, 23},
    {128, 23, "msps", Outcome::kOk, 256, 136, 393, 23},
    {128, 23, "exact-size", Outcome::kOk, 256, 132, 389, 23},
    {128, 64, "dtr-eqclass", Outcome::kOk, 256, 64, 321, 64},
    {128, 64, "lru", Outcome::kOk, 256, 67, 324, 64},
    {128, 64, "largest", Outcome::kOk, 256, 2144, 2401, 64},
    {128, 128, "dtr", Outcome::kOk, 256, 0, 257, 128},
    {128, 128, "dtr-local", Outcome::kOk, 256, 0, 257, 128},
    {128, 128, "msps", Outcome::kOk, 256, 0, 257, 128},
    {128, 128, "exact-size", Outcome::kOk, 256, 0, 257, 128},
    {128, 129, "dtr-eqclass", Outcome::kOk, 256, 0, 257, 128},
    {128, 129, "lru", Outcome::kOk, 256, 0, 257, 128},
    {128, 129, "largest", Outcome::kOk, 256, 0, 257, 128},
    {128, 130, "dtr", Outcome::kOk, 256, 0, 257, 128},
    {128, 130, "dtr-local", Outcome::kOk, 256, 0, 257, 128},
    {128, 130, "msps", Outcome::kOk, 256, 0, 257, 128},
    {128, 130, "exact-size", Outcome::kOk, 256, 0, 257, 128},
    {256, 3, "dtr-eqclass", Outcome::kRecomputeExceeded, 314, 12801, 13116, 3},
    {256, 3, "lru", Outcome::kRecomputeExceeded, 314, 12801, 13116, 3},
    {256, 3, "largest", Outcome::kRecomputeExceeded, 313, 12801, 13115, 3},
    {256, 4, "dtr", Outcome::kRecomputeExceeded, 316, 12801, 13118, 4},
    {256, 4, "dtr-local", Outcome::kRecomputeExceeded, 316, 12801, 13118, 4},
    {256, 4, "msps", Outcome::kOk, 512, 7345, 7858, 4},
    {256, 4, "exact-size", Outcome::kRecomputeExceeded, 344, 12801, 13146, 4},
    {256, 9, "dtr-eqclass", Outcome::kOk, 512, 770, 1283, 9},
    {256, 9, "lru", Outcome::kRecomputeExceeded, 426, 12801, 13228, 9},
    {256, 9, "largest", Outcome::kRecomputeExceeded, 315, 12801, 13117, 9},
    {256, 32, "dtr", Outcome::kOk, 512, 230, 743, 32},
    {256, 32, "dtr-local", Outcome::kOk, 512, 1982, 2495, 32},
    {256, 32, "msps", Outcome::kOk, 512, 304, 817, 32},
    {256, 32, "exact-size", Outcome::kOk, 512, 373, 886, 32},
    {256, 128, "dtr-eqclass", Outcome::kOk, 512, 128, 641, 128},
    {256, 128, "lru", Outcome::kOk, 512, 131, 644, 128},
    {256, 128, "largest", Outcome::kOk, 512, 8384, 8897, 128},
    {256, 256, "dtr", Outcome::kOk, 512, 0, 513, 256},
    {256, 256, "dtr-local", Outcome::kOk, 512, 0, 513, 256},
    {256, 256, "msps", Outcome::kOk, 512, 0, 513, 256},
    {256, 256, "exact-size", Outcome::kOk, 512, 0, 513, 256},
    {256, 257, "dtr-eqclass", Outcome::kOk, 512, 0, 513, 256},
    {256, 257, "lru", Outcome::kOk, 512, 0, 513, 256},
    {256, 257, "largest", Outcome::kOk, 512, 0, 513, 256},
    {256, 258, "dtr", Outcome::kOk, 512, 0, 513, 256},
    {256, 258, "dtr-local", Outcome::kOk, 512, 0, 513, 256},
    {256, 258, "msps", Outcome::kOk, 512, 0, 513, 256},
    {256, 258, "exact-size", Outcome::kOk, 512, 0, 513, 256},
};

// f0 ... f(n-1) forward; then b(n-1) from nothing, and b(i) from f(i-1) and b(i+1). What is not
// read again is released before the op that follows.
Program chain(int ops) {
  ProgramBuilder builder;
  auto forward = [](int i) { return "f" + std::to_string(i); };
  auto backward = [](int i) { return "b" + std::to_string(i); };
  auto call = [&](const std::string& name, const ProgramBuilder::Names& operands) {
    const ProgramBuilder::ResultSpec result{name, 1, -1};
    EXPECT_TRUE(builder.call({&result, 1}, operands, 1).ok());
  };
  for (int i = 0; i < ops; ++i) {
    const std::string before = forward(i - 1);
    call(forward(i), i == 0 ? ProgramBuilder::Names{} : ProgramBuilder::Names{before});
  }
  EXPECT_TRUE(builder.release(forward(ops - 1)).ok());
  call(backward(ops - 1), {});
  for (int i = ops - 2; i >= 0; --i) {
    EXPECT_TRUE(builder.release(forward(i)).ok());
    const std::string saved = forward(i - 1), gradient = backward(i + 1);
    call(backward(i),
         i == 0 ? ProgramBuilder::Names{gradient} : ProgramBuilder::Names{saved, gradient});
    EXPECT_TRUE(builder.release(gradient).ok());
  }
  return std::move(*builder.finish(false));
}

TEST(SimrdUniformLinear, EveryAnswerOfThePublicSimulator) {
  for (const Row& row : kRows) {
    const RunOptions options{row.budget, *dtr::find_policy(row.policy), 50 * row.ops, {}};
    const Outcome outcome = simulate(chain(row.ops), options);
    SCOPED_TRACE(std::string(row.policy) + ", n = " + std::to_string(row.ops) + ", " +
                 std::to_string(row.budget) + " slots");
    EXPECT_STREQ(to_string(outcome.status), to_string(row.status));
    EXPECT_EQ(outcome.compute, row.compute);
    EXPECT_EQ(outcome.recompute, row.recompute);
    EXPECT_EQ(outcome.clock, row.clock);
    EXPECT_EQ(outcome.peak, row.peak);
  }
  EXPECT_EQ(std::size(kRows), 158U);
}

}  // namespace
}  // namespace outsize::sim::simrd
