#include "predictors/pilot/sample.h"

#include <vector>

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

using Values = std::vector<std::int64_t>;

// Features as they were encoded, each its name and its values.
std::vector<Values> read(const Values& encoded) {
  Sample sample;
  sample.read(encoded);
  std::vector<Values> all;
  for (const Feature& feature : sample.features()) {
    all.push_back({static_cast<std::int64_t>(feature.name)});
    all.back().insert(all.back().end(), feature.values.begin(), feature.values.end());
  }
  return all;
}

TEST(PilotSample, FeaturesAreReadInOrder) {
  EXPECT_EQ(read({7, 1, 42, -8, 3, 5, -6, 7, 9, 0}), (std::vector<Values>{{7, 42}, {-8, 5, -6, 7}, {9}}));
  EXPECT_TRUE(read({}).empty());
}

TEST(PilotSample, WhatIsCutShortIsLeftOut) {
  const std::vector<Values> first{{7, 42}};
  EXPECT_TRUE(read({7}).empty());
  EXPECT_TRUE(read({7, 1}).empty());
  EXPECT_EQ(read({7, 1, 42, 8}), first);
  EXPECT_EQ(read({7, 1, 42, 8, 3, 5, 6}), first);
}

TEST(PilotSample, CountsThatCannotBeEndIt) {
  const std::vector<Values> first{{7, 42}};
  for (const std::int64_t count : {std::int64_t{-1}, INT64_MIN, INT64_MAX, std::int64_t{3}, std::int64_t{1} << 61}) {
    EXPECT_EQ(read({7, 1, 42, 8, count, 1, 2}), first) << count;
  }
}

TEST(PilotSample, ManyFeaturesAreBounded) {
  Values many;
  for (std::int64_t i = 0; i < 1000; ++i) many.insert(many.end(), {i, 1, -i});
  const std::vector<Values> all = read(many);
  ASSERT_EQ(all.size(), Sample::kFeaturesMax);
  EXPECT_EQ(all.back(), (Values{63, -63}));
}

TEST(PilotSample, ASampleTakesThePlaceOfTheOneBefore) {
  Sample sample;
  Values first{7, 3, 1, 2, 3};
  sample.read(first);
  const Values second{8, 1, 5};
  sample.read(second);
  first.assign(first.size(), 99);  // the caller's own again
  ASSERT_EQ(sample.features().size(), 1U);
  EXPECT_EQ(sample.features()[0].name, 8U);
  EXPECT_EQ(sample.features()[0].values[0], 5);
  sample.read({});
  EXPECT_TRUE(sample.features().empty());
}

TEST(PilotSample, BehindTheEndIsAValueOfItsOwn) {
  Sample sample;
  const Values encoded{7, 2, 1, 2, 8, 0};
  sample.read(encoded);
  const Feature& feature = sample.features()[0];
  EXPECT_EQ(value_at(feature, 0), 1);
  EXPECT_EQ(value_at(feature, 1), 2);
  EXPECT_EQ(value_at(feature, 2), Sample::kBeyond) << "and not the next feature's name";
  EXPECT_EQ(value_at(feature, UINT64_MAX), Sample::kBeyond);
  EXPECT_EQ(value_at(sample.features()[1], 0), Sample::kBeyond);
}

}  // namespace
}  // namespace outsize::pilot
