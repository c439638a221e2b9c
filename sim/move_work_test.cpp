#include "sim/move_work.h"

#include <gtest/gtest.h>

#include <limits>

#include "sim/sim_driver.h"
#include "sim/training_program.h"

namespace outsize::sim {
namespace {

constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();
constexpr Nanos kPage = 100;
constexpr Nanos pages(Bytes bytes) { return bytes / kPageBytes * kPage; }

TEST(MoveWork, OnlySmallPagesArePaidFor) {
  MoveWork work({.page = kPage});
  work.handled(3 * kChunkBytes);
  EXPECT_EQ(work.owed(), 0);
  work.handled(kChunkBytes + 768 * kKiB);
  EXPECT_EQ(work.owed(), pages(768 * kKiB));
  EXPECT_EQ(work.owed(), 0) << "paid once";
  work.handled(1);
  EXPECT_EQ(work.owed(), kPage) << "a page has to be handled whole";
}

TEST(MoveWork, WhatLiesReadyIsFree) {
  MoveWork work({.page = kPage});
  work.put(kMiB);
  work.take(kMiB, kNoLimit);
  work.put(kMiB);
  work.take(256 * kKiB, kNoLimit);  // its beginning
  EXPECT_EQ(work.pooled(), 768 * kKiB);
  EXPECT_EQ(work.owed(), 0);
  work.put(512 * kKiB);
  work.take(kMiB, kNoLimit);  // that, and what stayed behind: those have to be moved
  EXPECT_EQ(work.pooled(), 256 * kKiB);
  EXPECT_EQ(work.owed(), pages(512 * kKiB));
}

TEST(MoveWork, WhatIsPutTogetherIsPaidFor) {
  MoveWork work({.page = kPage});
  work.put(512 * kKiB);
  work.put(300 * kKiB);
  work.take(768 * kKiB, kNoLimit);
  EXPECT_EQ(work.owed(), pages(256 * kKiB)) << "the larger stays where it is";
  EXPECT_EQ(work.pooled(), 44 * kKiB);
  work.put(4 * kChunkBytes);
  work.take(2 * kChunkBytes + 40 * kKiB, kNoLimit);
  EXPECT_EQ(work.owed(), pages(40 * kKiB)) << "huge pages move for nothing";
  EXPECT_EQ(work.pooled(), 2 * kChunkBytes + 4 * kKiB);
}

TEST(MoveWork, ThePoolMakesWay) {
  MoveWork work({.page = kPage});
  for (int i = 0; i < 4; ++i) work.put(kMiB);
  work.take(kMiB, 0);
  EXPECT_EQ(work.pooled(), 3 * kMiB) << "not for what is warm";
  work.take(kChunkBytes, 2 * kMiB);
  EXPECT_EQ(work.pooled(), 2 * kMiB);
  work.take(4 * kChunkBytes, -1);
  EXPECT_EQ(work.pooled(), 0);
}

TEST(MoveWork, CommandsTransfersAndFreshPagesHaveTheirPrice) {
  MoveWork work({.page = kPage, .fresh = 1000, .fresh_huge = 100, .command = 7, .transfer = 20, .mebibyte = 4});
  work.command();
  EXPECT_EQ(work.owed(), 7);
  work.transferred({.bytes = 3 * kMiB, .started = 1000, .ends = 1100});
  EXPECT_EQ(work.owed(), 20 + 3 * 4);
  work.take(5 * kMiB, kNoLimit);
  EXPECT_EQ(work.owed(), 4 * 100 + 1000);
  EXPECT_EQ(work.made(), 5 * kMiB);
  work.put(5 * kMiB);
  work.take(5 * kMiB, kNoLimit);
  EXPECT_EQ(work.owed(), 0) << "warm";
  EXPECT_EQ(work.made(), 5 * kMiB);
}

TEST(MoveWork, WholeChunksAreBrokenUpOnlyWhereThereIsNoRoom) {
  MoveWork work({.page = kPage, .fresh = 1000});
  work.put(kChunkBytes);
  work.take(kMiB, kNoLimit);
  EXPECT_EQ(work.made(), kMiB);
  EXPECT_EQ(work.owed(), 1000);
  work.take(kMiB, 0);
  EXPECT_EQ(work.made(), kMiB);
  EXPECT_EQ(work.owed(), pages(kMiB));
  EXPECT_EQ(work.pooled(), kMiB);
}

TEST(MoveWork, FreshPagesAreChargedWhereSmallOnesMoveForNothing) {
  MoveWork work({.fresh_huge = 100});
  work.take(kChunkBytes, kNoLimit);
  EXPECT_EQ(work.owed(), 200);
  work.put(kChunkBytes);
  work.take(kChunkBytes, kNoLimit);
  EXPECT_EQ(work.owed(), 0);
}

TEST(MoveWork, HugePagesAreDearUntilThoseGivenBackComeAgain) {
  MoveWork work({.fresh_huge = 100, .warm_huge = 10, .cold = 3 * kChunkBytes});
  for (int i = 0; i < 8; ++i) work.put(kMiB);
  work.take(2 * kChunkBytes, 4 * kMiB);  // 4 MiB make way
  EXPECT_EQ(work.owed(), 4 * 100);
  work.take(2 * kChunkBytes, 2 * kMiB);
  EXPECT_EQ(work.owed(), 2 * 100 + 2 * 10) << "a chunk that has to be found, and one of those 4 MiB";
  work.take(2 * kChunkBytes, 0);
  EXPECT_EQ(work.owed(), 4 * 10) << "of what was given back then and since";
  work.take(kChunkBytes, 0);
  EXPECT_EQ(work.owed(), 2 * 10);
  work.take(kChunkBytes, 0);
  EXPECT_EQ(work.owed(), 2 * 100) << "nothing is left of it";
}

TEST(MoveWork, WhatSmallPagesTookOfThatIsGone) {
  MoveWork work({.fresh = 5, .fresh_huge = 100, .warm_huge = 10, .cold = kChunkBytes});
  for (int i = 0; i < 4; ++i) work.put(kMiB);
  work.take(kChunkBytes, kMiB);  // 3 MiB make way
  EXPECT_EQ(work.owed(), 2 * 100);
  work.take(kChunkBytes / 2, 0);  // what is left
  EXPECT_EQ(work.owed(), 0);
  work.take(kChunkBytes, 0);
  EXPECT_EQ(work.owed(), 2 * 10);
  work.take(kChunkBytes / 2, 0);
  EXPECT_EQ(work.owed(), 5);
  work.take(kChunkBytes, 0);
  EXPECT_EQ(work.owed(), 2 * 100) << "all was taken again";
}

TEST(MoveWork, NoMoreMakesWayThanHasTo) {
  MoveWork work({.page = kPage, .fresh_huge = 100});
  work.put(kMiB + kMiB / 2);
  work.take(kChunkBytes, kMiB);
  EXPECT_EQ(work.pooled(), kMiB);
  work.put(3 * kChunkBytes + kMiB);
  work.take(kMiB / 4, kNoLimit);  // of the MiB
  work.take(4 * kChunkBytes, kMiB);  // three are there
  EXPECT_EQ(work.pooled(), kMiB);
}

TEST(MoveWork, WhereNothingWasGivenBackHugePagesAreFound) {
  MoveWork work({.fresh_huge = 100, .warm_huge = 10, .cold = kChunkBytes});
  work.take(4 * kChunkBytes, kNoLimit);
  EXPECT_EQ(work.owed(), 8 * 100);
  MoveWork unsaid({.fresh_huge = 100, .cold = kChunkBytes});
  for (int i = 0; i < 2; ++i) {
    unsaid.put(kMiB);
    unsaid.take(kChunkBytes, 0);
    EXPECT_EQ(unsaid.owed(), 2 * 100) << "nobody said what warm ones cost";
  }
}

// Every chunk of this program is whole but for a half: what moves has small pages.
TEST(MoveWork, ARunPaysForWhatMoves) {
  TrainingOptions loop;
  loop.weight = loop.activation = kChunkBytes + kMiB;
  const Program program = training_program(loop);
  const auto run = [&](int percent, Nanos page) {
    SimOptions options;
    options.budget = peak_bytes(program) * percent / 100;
    options.policy = "ondemand";
    options.costs.page = page;
    const SimResult result = SimDriver(program, options).run();
    EXPECT_TRUE(result.problems.empty());
    return result;
  };
  EXPECT_EQ(run(110, 0).time, run(110, kPage).time) << "nothing moves";
  const SimResult free = run(50, 0), paid = run(50, kPage);
  EXPECT_GT(free.stats.evictions, 100);
  EXPECT_EQ(free.stats.evictions, paid.stats.evictions);
  EXPECT_GE(paid.time - paid.stall - (free.time - free.stall), free.stats.evictions * pages(kMiB));
}

TEST(MoveWork, ARunPaysForItsCommandsAndForItsTransfers) {
  const Program program = training_program({});
  const auto busy = [&](const MoveCosts& costs) {
    SimOptions options;
    options.budget = peak_bytes(program) / 2;
    options.policy = "ondemand";
    options.costs = costs;
    const SimResult result = SimDriver(program, options).run();
    EXPECT_TRUE(result.problems.empty());
    return std::pair(result.time - result.stall, result.stats);
  };
  const auto [free, stats] = busy({});
  const std::int64_t transfers = stats.reads + stats.writes;
  EXPECT_GT(transfers, 100);
  EXPECT_GE(busy({.command = 1000}).first - free, (transfers + stats.evictions) * 1000 * 9 / 10);
  EXPECT_GE(busy({.transfer = 1000}).first - free, transfers * 1000 * 9 / 10) << "all but the last few";
}

TEST(MoveWork, BytesHoldUpOnlyWhoWorks) {
  MoveWork work({.transfer = 20, .mebibyte = 4});
  Transfer transfer{.bytes = 3 * kMiB, .started = 1000, .ends = 1100, .idle = 25};
  work.transferred(transfer);
  EXPECT_EQ(work.owed(), 20 + 9);
  transfer.idle = 100;
  work.transferred(transfer);
  EXPECT_EQ(work.owed(), 20);
  transfer.started = transfer.ends;
  transfer.idle = 0;
  work.transferred(transfer);
  EXPECT_EQ(work.owed(), 20 + 12) << "a transfer that takes no time";

  const Program program = training_program({});
  const auto run = [&](const char* policy, Nanos price) {
    SimOptions options;
    options.budget = peak_bytes(program) / 2;
    options.policy = policy;
    options.costs.mebibyte = price;
    const SimResult result = SimDriver(program, options).run();
    EXPECT_TRUE(result.problems.empty());
    return result;
  };
  constexpr Nanos kPrice = 1000;
  const SimResult waits = run("ondemand", kPrice), free = run("lookahead", 0), dear = run("lookahead", kPrice);
  EXPECT_EQ(waits.time, run("ondemand", 0).time) << "what moves while an op waits holds up nobody";
  EXPECT_GT(dear.time, free.time);
  EXPECT_LE(dear.time - dear.stall - (free.time - free.stall), (dear.stats.read + dear.stats.written) / kMiB * kPrice);
}

TEST(MoveWork, WithoutACostNothingIsKept) {
  MoveWork work(MoveCosts{});
  work.put(kMiB);
  work.handled(kMiB);
  EXPECT_EQ(work.pooled(), 0);
  EXPECT_EQ(work.owed(), 0);
}

}  // namespace
}  // namespace outsize::sim
