// By how long things go unused; and what the pilot makes of it where its plan tells of a thing nothing.
#include "predictors/pilot/gaps.h"

#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/mix.h"
#include "predictors/pilot/pilot.h"

namespace outsize::pilot {
namespace {

TEST(PilotGaps, OfShortAndLongOnesThoseCountThatAreNotOverYet) {
  Gaps gaps;
  EXPECT_EQ(gaps.beyond(0), 0U) << "nothing was seen yet";
  for (int step = 0; step < 100; ++step) {
    gaps.add(3);
    gaps.add(1000);
  }
  EXPECT_EQ(gaps.beyond(0), 501U);
  EXPECT_EQ(gaps.beyond(3), 997U);
  EXPECT_EQ(gaps.beyond(990), 10U);
  EXPECT_EQ(gaps.beyond(1000), 0U);
  EXPECT_EQ(gaps.beyond(kNever), 0U);
}

TEST(PilotGaps, WhatWasLongAgoCountsLess) {
  Gaps gaps;
  for (int i = 0; i < 50; ++i) gaps.add(40'000);
  for (int i = 0; i < 200; ++i) gaps.add(100);
  EXPECT_LT(gaps.beyond(10), 40'000U / 8);
  EXPECT_EQ(gaps.beyond(100), 39'900U) << "but it is not forgotten";
}

TEST(PilotGaps, OfAnOctaveTheLatestCountMost) {
  Gaps gaps;
  for (int i = 0; i < 50; ++i) gaps.add(70);
  for (int i = 0; i < 50; ++i) gaps.add(120);
  EXPECT_NEAR(static_cast<double>(gaps.beyond(70)), 50, 5);
}

TEST(PilotGaps, AnExtentNeverSeenBeforeIsNotTooLongAgo) {
  Gaps gaps;
  gaps.add(kNever - 1);
  gaps.add(0);
  EXPECT_GT(gaps.beyond(1U << 20), Position{1} << 23);
}

TEST(PilotGaps, ThingsHaveTheirOwn) {
  GapTable table;
  EXPECT_EQ(table.beyond(7, 0), 0U);
  table.add(7, 64);
  table.add(100, 9);
  EXPECT_EQ(table.beyond(7, 14), 50U);
  EXPECT_EQ(table.beyond(8, 14), 0U);
  EXPECT_GE(table.bytes(), static_cast<Bytes>(101 * sizeof(Gaps)));
  table.clear();
  EXPECT_EQ(table.beyond(7, 14), 0U);
}

// Each step runs one of some experts, by chance: three of them often, eight hardly ever. Nobody can foresee which.
class Experts {
 public:
  static constexpr ExtentId kOften = 3, kRare = 8;

  Experts() : pilot(table_, {}) {
    table_.ensure(kOften + kRare + 1);
    for (ExtentId id = 0; id <= kOften + kRare; ++id) {
      table_[id].bytes = kMiB;
      op(50, {id});
      pilot.on_birth(id, kMiB);
    }
    pilot.on_step(now_ += 1000);
  }
  void step(ExtentId expert) {
    begin();
    for (int i = 0; i < 3; ++i) op(2 + expert, {expert});
    for (std::uint64_t i = 0; i < 40; ++i) op(100 + i, {kOften + kRare});
    pilot.on_step(now_ += 1000);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      const std::uint64_t dice = mix(number_, 1) % 100, which = mix(number_, 2);
      ++number_;
      step(static_cast<ExtentId>(dice < 84 ? which % kOften : kOften + which % kRare));
    }
  }
  void begin() { op(1, {}); }

 private:
  void op(std::uint64_t kind, const std::vector<ExtentId>& extents) {
    pilot.on_op({kind, extents, false, now_ += 1'000'000, {}, {}});
  }
  ExtentTable table_;
  std::uint64_t number_ = 1;
  Nanos now_ = 0;

 public:
  PilotPredictor pilot;
};

TEST(PilotGaps, WhatIsUsedOftenIsTakenToComeBeforeWhatIsRare) {
  Experts experts;
  experts.steps(400);
  for (ExtentId expert = 0; expert < Experts::kOften + Experts::kRare; ++expert) experts.step(expert);  // the rare ones last
  experts.begin();
  experts.pilot.on_sample({});  // so that a plan is made here
  for (ExtentId often = 0; often < Experts::kOften; ++often) {
    for (ExtentId rare = 0; rare < Experts::kRare; ++rare) {
      EXPECT_LT(experts.pilot.next_use(often), experts.pilot.next_use(Experts::kOften + rare));
    }
  }
}

// Beside a weight that every op uses, two extents that small storages share: one used just now, one a while ago.
TEST(PilotGaps, SharedExtentsThatWereUsedLatelyAreWantedAtOnceAndOthersAfterThePlan) {
  ExtentTable table;
  table.ensure(3);
  PilotPredictor pilot(table, {});
  Nanos now = 0;
  const auto op = [&](std::uint64_t kind, const std::vector<ExtentId>& extents) {
    pilot.on_op({kind, extents, false, now += 1'000'000, {}, {}});
  };
  for (ExtentId id = 0; id < 3; ++id) {
    table[id].bytes = kMiB;
    table[id].shared = id > 0;
    op(50, {id});
    pilot.on_birth(id, kMiB);
  }
  for (int step = 0; step < 20; ++step) {
    op(1, {1, 2});
    for (std::uint64_t i = 0; i < 100; ++i) op(100 + i, {0});
    pilot.on_step(now += 1000);
  }
  op(1, {1, 2});
  for (std::uint64_t i = 0; i < 90; ++i) op(100 + i, {0});
  op(190, {0, 2});
  pilot.on_sample({});
  EXPECT_LE(pilot.next_use(2), pilot.position());
  EXPECT_GT(pilot.next_use(1), pilot.position() + 100);
  EXPECT_GT(pilot.next_use(1), pilot.next_use(0));
}

}  // namespace
}  // namespace outsize::pilot
