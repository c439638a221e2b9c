#include "predictors/pilot/mix.h"
#include "predictors/pilot/readers.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

constexpr ClassId kChoice = 3, kAround = 4;
constexpr std::uint32_t kKind = 77;
using Values = std::vector<std::int64_t>;

// What all readers see of a sample at the first choice of its class.
std::set<std::uint64_t> seen(Sample& sample, const Values& encoded, const Trail& trail = {}) {
  sample.read(encoded);
  std::set<std::uint64_t> keys;
  for (Reader reader = 0; reader < readers(sample); ++reader) {
    if (const auto key = read_at(sample, trail, {kChoice, kKind}, reader)) keys.insert(*key);
  }
  return keys;
}

std::size_t shared(const std::set<std::uint64_t>& a, const std::set<std::uint64_t>& b) {
  std::size_t count = 0;
  for (const std::uint64_t key : a) count += b.count(key);
  return count;
}

Values sequence(std::int64_t name, std::int64_t size, std::int64_t first) {
  Values encoded{name, size};
  for (std::int64_t i = 0; i < size; ++i) encoded.push_back(first + 100 * i);
  return encoded;
}

TEST(PilotReaders, NothingIsSeenWhereNothingIsSaid) {
  Sample sample;
  EXPECT_TRUE(seen(sample, {}).empty());
  EXPECT_TRUE(seen(sample, {7, 0}).empty()) << "an empty sequence";
}

TEST(PilotReaders, NothingIsSeenLikeAValueWhereASequenceIsOver) {
  std::set<std::uint64_t> keys;
  const std::uint64_t hash = mix(mix(kChoice, 7), 16);
  for (int bit = 0; bit < 64; ++bit) keys.insert(mix(hash, std::uint64_t{1} << bit));
  keys.insert(mix(hash, 0));
  EXPECT_EQ(keys.size(), 65U);
  Trail late;
  for (int i = 0; i < 3; ++i) late.enter(kChoice, 0);
  Sample zeros, none;
  zeros.read(Values{7, 4, 9, 9, 9, 0});
  none.read(Values{7, 3, 9, 9, 9});
  EXPECT_NE(read_at(zeros, late, {kChoice, kKind}, kPlaces), read_at(none, late, {kChoice, kKind}, kPlaces));
}

TEST(PilotReaders, TheSameIsSeenWhereTheSameIsSaid) {
  Sample one, other;
  const auto first = seen(one, sequence(7, 40, 5)), again = seen(other, sequence(7, 40, 5));
  EXPECT_GT(first.size(), 40U);
  EXPECT_EQ(first, again);
  Sample third;
  EXPECT_EQ(shared(first, seen(third, sequence(8, 40, 5))), 0U) << "another feature";
}

TEST(PilotReaders, PlacesAreOfLongSequencesOnly) {
  Sample sample;
  sample.read(sequence(7, 15, 5));
  EXPECT_FALSE(read_at(sample, {}, {kChoice}, 3));
  sample.read(sequence(7, 400, 5));
  EXPECT_TRUE(read_at(sample, {}, {kChoice}, 3));
  EXPECT_TRUE(read_at(sample, {}, {kChoice}, kPlaces - 1));
  sample.read(sequence(7, 20, 5));
  EXPECT_FALSE(read_at(sample, {}, {kChoice}, 20)) << "behind its end";
}

TEST(PilotReaders, NumbersThatAreNearlyAlikeAreOne) {
  const auto near = [](std::int64_t a, std::int64_t b) {
    Sample one, other;
    return shared(seen(one, {7, 1, a}), seen(other, {7, 1, b})) > 2;  // more than how far the choice stands from it
  };
  EXPECT_TRUE(near(1000, 1010));
  EXPECT_TRUE(near(-1000, -1010));
  EXPECT_FALSE(near(1000, 1200));
  EXPECT_FALSE(near(1000, -1000));
  EXPECT_FALSE(near(7, 8));
  EXPECT_TRUE(near(INT64_MIN, INT64_MIN + 1));
}

TEST(PilotReaders, WhereTheChoiceStandsIsAPartOfIt) {
  Trail later;
  later.enter(kChoice, 1);
  Sample one, other;
  const auto first = seen(one, {7, 1, 5}), then = seen(other, {7, 1, 5}, later);
  EXPECT_EQ(first.size(), then.size());
  EXPECT_LT(shared(first, then), first.size());
  EXPECT_GT(shared(first, then), 0U);
  Trail within;
  within.enter(kAround, 2);
  Sample third, fourth;
  EXPECT_GT(seen(third, {7, 2, 5, 6}, within).size(), seen(fourth, {7, 2, 5, 6}).size());
}

// What one class has learnt of a value serves the other, wherever both stand.
TEST(PilotReaders, KinReadWhereTheyStandTogether) {
  constexpr ClassId kOther = 9;
  Sample sample;
  sample.read(Values{7, 4, 5, 6, 7, 6});
  Trail first, third;
  first.enter(kOther, 1, kKind);
  for (int i = 0; i < 3; ++i) third.enter(i == 1 ? kChoice : kOther, 1, kKind);
  const auto seen_by = [&](const Trail& trail, const Choosing& choosing) {
    std::set<std::uint64_t> keys;
    for (Reader reader = 0; reader < readers(sample); ++reader) {
      if (const auto key = read_at(sample, trail, choosing, reader)) keys.insert(*key);
    }
    return keys;
  };
  const auto here = seen_by(first, {kChoice, kKind});
  EXPECT_EQ(shared(here, seen_by(third, {kOther, kKind})), 1U) << "a 6 in both places";
  EXPECT_EQ(shared(here, seen_by(third, {kOther, kKind + 1})), 0U) << "no kin";
  EXPECT_EQ(seen_by(first, {kChoice, 0}).size() + 1, here.size());
  EXPECT_EQ(seen_by(first, {kChoice, kKind + 1}).size(), here.size() + 1) << "it lies within one";
}

TEST(PilotReaders, TheSampleBeforeIsReadToo) {
  Sample sample, alone;
  seen(sample, {7, 1, 42});
  const auto both = seen(sample, {7, 1, 43});
  const auto one = seen(alone, {7, 1, 43});
  EXPECT_EQ(shared(both, one), one.size());
  EXPECT_EQ(both.size(), 2 * one.size());
  Sample other;
  seen(other, {7, 1, 200});
  EXPECT_LT(shared(both, seen(other, {7, 1, 43})), both.size());
}

}  // namespace
}  // namespace outsize::pilot
