#include "core/trace/sample.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace outsize::trace {
namespace {

using Row = std::vector<std::int64_t>;

TEST(Sample, IsARowOfIntegers) {
  const double lengths[] = {3, -4, 0x1p53};
  const Feature features[] = {{"", {}}, {"a", lengths}};
  const auto hash_of_a = static_cast<std::int64_t>(0xaf63dc4c8601ec8cULL);  // as published for FNV-1a
  const auto hash_of_nothing = static_cast<std::int64_t>(0xcbf29ce484222325ULL);
  EXPECT_EQ(encode_sample(features), (Row{hash_of_nothing, 0, hash_of_a, 3, 3, -4, std::int64_t{1} << 53}));
  EXPECT_EQ(encode_sample({}), Row{});
}

TEST(Sample, WhatIsNotWholeIsTheBitsOfItsDouble) {
  const double infinite = std::numeric_limits<double>::infinity();
  const double numbers[] = {0.5, 0x1p53 + 2, -infinite, std::nan(""), -0.0};
  const Feature feature{"a", numbers};
  const Row row = encode_sample({&feature, 1});
  ASSERT_EQ(row.size(), 7U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(row[2 + i], std::bit_cast<std::int64_t>(numbers[i])) << numbers[i];
  EXPECT_EQ(row[6], 0) << "zero has no sign here";
}

TEST(Sample, HasAsManyValuesAsItSays) {
  for (const Row& good : {Row{}, Row{1, 0}, Row{1, 2, 8, 9}, Row{1, 0, -5, 1, -7}}) EXPECT_TRUE(is_sample(good));
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  for (const Row& bad : {Row{1}, Row{1, 1}, Row{1, -1, 8}, Row{1, 0, 5}, Row{1, kMost}}) {
    EXPECT_FALSE(is_sample(bad));
  }
}

}  // namespace
}  // namespace outsize::trace
