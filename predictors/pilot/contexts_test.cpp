#include "predictors/pilot/contexts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "predictors/pilot/mix.h"

namespace outsize::pilot {
namespace {

using Rows = std::map<std::uint64_t, std::map<std::uint32_t, std::uint32_t>>;

Rows rows_of(const Contexts& contexts) {
  Rows rows;
  for (const std::uint64_t key : contexts.keys()) {
    for (const Count& way : contexts.find(key)) rows[key][way.to] = way.count;
  }
  return rows;
}

TEST(Contexts, CountsAsATableOfRowsDoes) {
  std::mt19937 random(7);
  Contexts contexts;
  Rows rows;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t key = mix(random() % 3000, 1);
    const std::uint32_t to = random() % 3 == 0 ? random() % 40 : 5;
    contexts.count(key, to, 1U << 18);
    ++rows[key][to];
  }
  EXPECT_EQ(contexts.size(), rows.size());
  EXPECT_EQ(rows_of(contexts), rows);
  EXPECT_TRUE(contexts.find(mix(3000, 1)).empty());
  EXPECT_TRUE(Contexts().find(1).empty());
}

TEST(Contexts, TheFirstWaysStandFirst) {
  Contexts contexts;
  for (const std::uint32_t to : {9U, 3U, 7U, 3U}) contexts.count(1, to, 100);
  const std::span<const Count> counts = contexts.find(1);
  ASSERT_EQ(counts.size(), 3U);
  EXPECT_EQ(counts[0].to, 9U);
  EXPECT_EQ(counts[1].to, 3U);
  EXPECT_EQ(counts[1].count, 2U);
  EXPECT_EQ(counts[2].to, 7U);
}

TEST(Contexts, FullCountsAreHalved) {
  Contexts contexts;
  contexts.count(1, 2, 100);
  for (std::uint32_t i = 0; i < Contexts::kCountMax; ++i) contexts.count(1, 3, 100);
  EXPECT_EQ(rows_of(contexts), (Rows{{1, {{2, 1}, {3, Contexts::kCountMax / 2}}}}));
}

TEST(Contexts, NoMoreWaysThanItHolds) {
  Contexts contexts;
  for (std::uint32_t to = 0; to < 2 * Contexts::kWaysMax; ++to) contexts.count(1, to, 100);
  EXPECT_EQ(contexts.find(1).size(), Contexts::kWaysMax);
}

TEST(Contexts, WhatCameSeldomIsForgotten) {
  constexpr std::size_t kMost = 256;
  Contexts contexts;
  for (int i = 0; i < 3; ++i) {
    for (std::uint32_t to = 0; to < 4; ++to) contexts.count(mix(1, 1), to, kMost);
  }
  for (std::uint64_t i = 0; i < 10 * kMost; ++i) {
    contexts.count(mix(i, 2), 1, kMost);
    ASSERT_LE(contexts.size(), kMost);
    if (i == kMost) { EXPECT_EQ(contexts.find(mix(1, 1)).size(), 4U) << "it came three times"; }
  }
  EXPECT_TRUE(contexts.find(mix(1, 1)).empty());
  EXPECT_FALSE(contexts.find(mix(10 * kMost - 1, 2)).empty());
  EXPECT_LT(contexts.bytes(), 1 << 20) << "rows of forgotten contexts are used again";
}

TEST(Contexts, WhatIsPutIsThere) {
  Contexts contexts;
  const std::vector<Count> few{{4, 2}}, many{{1, 1}, {2, 2}, {3, 3}};
  for (const auto& [key, row] : {std::pair(8U, &many), std::pair(9U, &few), std::pair(8U, &few), std::pair(9U, &many)}) {
    EXPECT_TRUE(contexts.put(key, *row));
  }
  EXPECT_EQ(rows_of(contexts), (Rows{{8, {{4, 2}}}, {9, {{1, 1}, {2, 2}, {3, 3}}}}));
}

TEST(Contexts, KeysThatWouldMakeItSlowAreToldOf) {
  const std::vector<Count> counts{{1, 1}};
  Contexts contexts;
  std::uint64_t put = 0;
  while (put < 100000 && contexts.put((put + 1) << 32, counts)) ++put;
  EXPECT_LT(put, 10000U);
  Contexts mixed;
  for (std::uint64_t i = 0; i < 300000; ++i) ASSERT_TRUE(mixed.put(mix(i, 3), counts));
}

}  // namespace
}  // namespace outsize::pilot
