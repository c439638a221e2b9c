#include "core/trace/token_statistics.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace outsize::trace {
namespace {

using Sizes = std::vector<std::int64_t>;
using Numbers = TensorView::Numbers;

template <class T>
TensorView view_of(const std::vector<T>& data, const Sizes& sizes, const Sizes& strides, Numbers numbers) {
  return {reinterpret_cast<const char*>(data.data()), sizeof(T), numbers, sizes, strides};
}

TEST(TokenStatistics, RowsAreCountedOneByOne) {
  const std::vector<std::int64_t> data{5, -7, 5, 5, 1, 2, 3, 4};
  const Sizes sizes{2, 4}, strides{4, 1};
  const TokenStatistics said = statistics_of(view_of(data, sizes, strides, Numbers::kSigned));
  EXPECT_EQ(said.values, (std::vector<double>{5, -7, 5, 5, 1, 2, 3, 4}));
  EXPECT_EQ(said.distinct, (std::vector<double>{2, 4}));
  EXPECT_EQ(said.commonest, (std::vector<double>{3, 1}));
}

TEST(TokenStatistics, StridesAreFollowed) {
  const std::vector<std::int16_t> data{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};  // 3 x 4
  const Sizes sizes{2, 1, 3}, strides{2, 5, 4};                                // columns 0 and 2
  const TensorView view = view_of(data, sizes, strides, Numbers::kSigned);
  EXPECT_EQ(statistics_of(view).values, (std::vector<double>{0, 4, 8, 2, 6, 10}));
  EXPECT_EQ(view.span(), 11 * 2);
}

TEST(TokenStatistics, SignsAndSizesOfNumbers) {
  const std::vector<std::uint8_t> bytes{255, 0};
  const std::vector<std::int8_t> small{-1, 127};
  const Sizes sizes{2}, strides{1};
  EXPECT_EQ(statistics_of(view_of(bytes, sizes, strides, Numbers::kUnsigned)).values, (std::vector<double>{255, 0}));
  EXPECT_EQ(statistics_of(view_of(small, sizes, strides, Numbers::kSigned)).values, (std::vector<double>{-1, 127}));
}

TEST(TokenStatistics, OfFractionsOnlyHowManyDiffer) {
  const std::vector<float> data{0.5F, 0.25F, 0.5F};
  const Sizes sizes{3}, strides{1};
  const TokenStatistics said = statistics_of(view_of(data, sizes, strides, Numbers::kOther));
  EXPECT_TRUE(said.values.empty());
  EXPECT_EQ(said.distinct, (std::vector<double>{2}));
  EXPECT_EQ(said.commonest, (std::vector<double>{2}));
}

TEST(TokenStatistics, OneNumberIsARow) {
  const std::vector<std::int32_t> data{-3};
  const TokenStatistics said = statistics_of(view_of(data, {}, {}, Numbers::kSigned));
  EXPECT_EQ(said.values, (std::vector<double>{-3}));
  EXPECT_EQ(said.distinct, (std::vector<double>{1}));
}

// Rows of random length, every second or each of their elements, of few or many values that are near one another or not.
template <class Item>
void rows_are_counted_right(std::mt19937_64& random, unsigned seed) {
  const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 3), stride = 1 + static_cast<std::int64_t>(random() % 2);
  const std::int64_t most = std::int64_t{1} << random() % 15;
  const std::int64_t length = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  if (rows * length > static_cast<std::int64_t>(TokenStatistics::kElementsMax)) return;
  const std::uint64_t values = 1 + random() % (2 * static_cast<std::uint64_t>(length)), apart = random() % 2 == 0 ? 1 : random();
  std::vector<Item> data;
  for (std::int64_t i = 0; i < rows * length * stride; ++i) data.push_back(static_cast<Item>(random() % values * apart));
  const Sizes sizes{rows, length}, strides{length * stride, stride};
  const TokenStatistics said = statistics_of(view_of(data, sizes, strides, Numbers::kOther));
  ASSERT_EQ(said.distinct.size(), static_cast<std::size_t>(rows)) << "seed " << seed;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::map<Item, int> times;
    int commonest = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      commonest = std::max(commonest, ++times[data[static_cast<std::size_t>((r * length + i) * stride)]]);
    }
    EXPECT_EQ(said.distinct[static_cast<std::size_t>(r)], static_cast<double>(times.size())) << "seed " << seed;
    EXPECT_EQ(said.commonest[static_cast<std::size_t>(r)], static_cast<double>(commonest)) << "seed " << seed;
  }
}

TEST(TokenStatistics, RowsOfAnyLengthAreCountedRight) {
  const unsigned seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    rows_are_counted_right<std::uint8_t>(random, seed);
    rows_are_counted_right<std::uint16_t>(random, seed);
    rows_are_counted_right<std::uint32_t>(random, seed);
    rows_are_counted_right<std::uint64_t>(random, seed);
  }
}

TEST(TokenStatistics, LargeTensorsAreLookedAtInPart) {
  const std::vector<std::uint8_t> data(200 * 100);
  const Sizes sizes{200, 100}, strides{100, 1};
  const TokenStatistics said = statistics_of(view_of(data, sizes, strides, Numbers::kUnsigned));
  EXPECT_EQ(said.distinct.size(), TokenStatistics::kRowsMax);
  EXPECT_EQ(said.values.size(), TokenStatistics::kValuesMax);
  const Sizes one{20'000};
  const Sizes by_one{1};
  EXPECT_TRUE(statistics_of(view_of(data, one, by_one, Numbers::kUnsigned)).distinct.empty()) << "no row fits";
}

TEST(TokenStatistics, WhatMakesNoSenseSaysNothing) {
  const std::vector<std::int64_t> data{1, 2};
  const Sizes one{2}, none{0}, huge{INT64_MAX}, by_one{1}, back{-1}, far{INT64_MAX};
  const auto silent = [](const TensorView& view) {
    const TokenStatistics said = statistics_of(view);
    return view.span() == 0 && said.values.empty() && said.distinct.empty();
  };
  EXPECT_TRUE(silent(view_of(data, none, by_one, Numbers::kSigned)));
  EXPECT_TRUE(silent(view_of(data, huge, by_one, Numbers::kSigned)));
  EXPECT_TRUE(silent(view_of(data, one, back, Numbers::kSigned)));
  EXPECT_TRUE(silent(view_of(data, one, far, Numbers::kSigned)));
  EXPECT_TRUE(silent(view_of(data, one, {}, Numbers::kSigned)));
  TensorView odd = view_of(data, one, by_one, Numbers::kOther);
  odd.item = 16;
  EXPECT_TRUE(silent(odd));
  odd.item = 8;
  odd.data = nullptr;
  EXPECT_TRUE(silent(odd));
  const Sizes twice{1 << 30, 1 << 30}, strides{1 << 30, 1 << 30};
  EXPECT_TRUE(silent(view_of(data, twice, strides, Numbers::kSigned)));
}

}  // namespace
}  // namespace outsize::trace
