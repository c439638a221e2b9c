#include "planners/dtr/score.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

namespace outsize::dtr {
namespace {

Wide wide(std::uint64_t high, std::uint64_t low) { return static_cast<Wide>(high) << 64 | low; }

TEST(NearestQuotient, SmallNumbersAreAPlainDivision) {
  EXPECT_EQ(nearest_quotient(1, 3), 1.0 / 3.0);
  EXPECT_EQ(nearest_quotient(-10, 4), -2.5);
  EXPECT_EQ(nearest_quotient(0, wide(5, 0)), 0.0);
}

// The expectations are Python's: hex(a / b) of the same integers.
TEST(NearestQuotient, LargeNumbersAreRoundedOnce) {
  EXPECT_EQ(nearest_quotient(9007199254740993, 2), 0x1.0000000000000p+52);
  EXPECT_EQ(nearest_quotient(100000000000000001, 3000000000000000000ULL), 0x1.1111111111111p-5);
  EXPECT_EQ(nearest_quotient(123456789012345678, wide(0xd124, 0x4c44afd2ec4bb7ddULL)),
            0x1.0c702ea32a485p-23);
  EXPECT_EQ(nearest_quotient(-7, wide(0x5, 0x6bc75e2d63100000ULL)), -0x1.4a90ceafff9dfp-64);
  EXPECT_EQ(nearest_quotient((std::int64_t{1} << 62) - 1, (Wide{1} << 62) + 1),
            0x1.0000000000000p+0);
  EXPECT_EQ(nearest_quotient(3, wide(0x3fffffffffffffffULL, 0xffffffffffffffffULL)),
            0x1.8000000000000p-125);
}

// Two scores that differ by less than a rounding tie, and two that differ by one bit do not.
TEST(NearestQuotient, HalfwayGoesToTheEvenOne) {
  constexpr std::int64_t kBase = std::int64_t{1} << 53;
  EXPECT_EQ(nearest_quotient(kBase + 1, 1), 0x1p53);                    // half-way, even below
  EXPECT_EQ(nearest_quotient(kBase + 3, 1), 0x1.0000000000002p53);      // half-way, even above
  EXPECT_EQ(nearest_quotient(2 * kBase + 3, 2), 0x1.0000000000001p53);  // just above half
}

// A judge with another method: no double is nearer, by exact products of integers.
TEST(NearestQuotient, NoOtherDoubleIsNearer) {
  std::uint64_t state = 12345;
  auto random = [&state] {
    state += 0x9e3779b97f4a7c15ULL;
    std::uint64_t mixed = (state ^ state >> 30) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebULL;
    return mixed ^ mixed >> 31;
  };
  for (int i = 0; i < 20000; ++i) {
    const auto a =
        static_cast<std::int64_t>((random() >> 2 | std::uint64_t{1} << 61) >> random() % 8);
    const std::uint64_t b = (random() >> 1 | std::uint64_t{1} << 62) >> random() % 8;
    // The quotient is between 2^-9 and 2^9: scaled by 2^61 each double here is an integer, and
    // the distance of a * 2^61 from it times b says how near it is.
    const double q = nearest_quotient(a, b);
    auto distance = [&](double candidate) {
      const Wide scaled = static_cast<Wide>(candidate * 0x1p61) * b;
      const Wide exact = static_cast<Wide>(a) << 61;
      return scaled > exact ? scaled - exact : exact - scaled;
    };
    const auto bits = std::bit_cast<std::uint64_t>(q);
    ASSERT_LE(distance(q), distance(std::bit_cast<double>(bits + 1))) << a << " / " << b;
    ASSERT_LE(distance(q), distance(std::bit_cast<double>(bits - 1))) << a << " / " << b;
  }
}

}  // namespace
}  // namespace outsize::dtr
