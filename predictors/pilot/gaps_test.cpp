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

TEST(PilotGaps, ALongerOneThanCanBeToldCountsAsTheLongest) {
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

// Beside a weight that every op uses, extents that small storages share: two used early in a step, one of them again just now.
class Sharers {
 public:
  explicit Sharers(bool backward, std::uint32_t ops = 90) : backward_(backward), pilot(table_, {}) {
    table_.ensure(4);
    for (ExtentId id = 0; id < 4; ++id) {
      table_[id].bytes = kMiB;
      table_[id].shared = id > 0;
      op(50, {id});
      pilot.on_birth(id, kMiB);
    }
    for (int step = 0; step < 20; ++step) {
      begin();
      for (std::uint64_t i = 0; i < ops + 10; ++i) op(100 + i, {0});
      pilot.on_step(now_ += 1000);
    }
    begin(true);
    for (std::uint64_t i = 0; i < ops; ++i) op(100 + i, {0});
    op(100 + ops, {0, 2});
  }

 private:
  // Only the last time: or they would be known by habit.
  void begin(bool last = false) {
    op(1, last ? std::vector<ExtentId>{1, 2} : std::vector<ExtentId>{});
    op(2, last ? std::vector<ExtentId>{3} : std::vector<ExtentId>{});
  }
  void op(std::uint64_t kind, const std::vector<ExtentId>& extents) {
    pilot.on_op({kind, extents, backward_, now_ += 1'000'000, {}, {}});
  }
  ExtentTable table_;
  bool backward_;
  Nanos now_ = 0;

 public:
  PilotPredictor pilot;
};

TEST(PilotGaps, SharedExtentsThatWereUsedLatelyAreWantedAtOnceAndOthersAfterThePlan) {
  Sharers sharers(false);
  sharers.pilot.on_sample({});  // so that a plan is made here
  EXPECT_TRUE(sharers.pilot.wanted_at_once(2));
  EXPECT_FALSE(sharers.pilot.wanted_at_once(1));
  EXPECT_LE(sharers.pilot.next_use(2), sharers.pilot.position());
  EXPECT_GT(sharers.pilot.next_use(1), sharers.pilot.position() + 100);
  EXPECT_GT(sharers.pilot.next_use(1), sharers.pilot.next_use(0));
}

TEST(PilotGaps, InBackwardSharedExtentsAreWantedTheLaterTheLongerAgoTheyWereUsed) {
  Sharers forward(false), backward(true);
  forward.pilot.on_sample({});
  backward.pilot.on_sample({});
  const auto in = [](const Sharers& sharers, ExtentId id) { return sharers.pilot.next_use(id) - sharers.pilot.position(); };
  EXPECT_LT(in(backward, 1), 100U) << "as many ops as it has gone unused";
  EXPECT_LT(in(backward, 1), in(forward, 1));
  EXPECT_EQ(in(backward, 1), in(backward, 3) + 1);
}

TEST(PilotGaps, WhatWasUsedLatelyAtTheLastPlanIsNotWantedAtOnceForEver) {
  Sharers sharers(false, 3000);  // as planned to the end: no plan is made but at samples, and where one has mostly run
  EXPECT_FALSE(sharers.pilot.wanted_at_once(1));
  EXPECT_FALSE(sharers.pilot.wanted_at_once(3));
}

// The rest of a step uses neither of two weights, and the plan is paid for no longer: what it does not tell of keeps the
// order in which it was used.
TEST(PilotGaps, OfTwoThingsOfOneGapTheOneUsedFirstComesFirstAlsoWhereThePlanHasRunOut) {
  ExtentTable table;
  table.ensure(3);
  PilotOptions options;
  options.requery = false;
  options.plan_ops_max = 64;
  PilotPredictor pilot(table, options);
  Nanos now = 0;
  const auto op = [&](std::uint64_t kind, const std::vector<ExtentId>& extents) {
    pilot.on_op({kind, extents, false, now += 1'000'000, {}, {}});
  };
  for (ExtentId id = 0; id < 3; ++id) {
    table[id].bytes = kMiB;
    op(50, {id});
    pilot.on_birth(id, kMiB);
  }
  const auto step = [&](std::uint64_t ops) {
    for (std::uint64_t i = 0; i < ops; ++i) {
      if (i == 100 || i == 200) op(100 + i, {static_cast<ExtentId>(i / 100 - 1)});
      else op(100 + i, {2});
    }
  };
  for (int i = 0; i < 20; ++i) {
    step(400);
    pilot.on_step(now += 1000);
  }
  step(300);
  EXPECT_LT(pilot.next_use(0), pilot.next_use(1));
  EXPECT_GT(pilot.next_use(0), pilot.position()) << "not overdue";
}

}  // namespace
}  // namespace outsize::pilot
