#include "platforms/host/untracked.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace outsize::host {
namespace {

using Running = UntrackedLedger::Running;

std::vector<Bytes> sizes(const UntrackedLedger& ledger) {
  std::vector<Bytes> found;
  for (const Untracked& one : ledger.largest(10)) found.push_back(one.bytes / kMiB);
  return found;
}

void look(UntrackedLedger& ledger, Bytes mib, std::vector<Running> running = {}) {
  ledger.look(mib * kMiB, running);
}

TEST(UntrackedLedger, NamesTheOpThatRunsWhileMemoryRises) {
  UntrackedLedger ledger;
  look(ledger, 200);
  look(ledger, 230, {{0, 7, 1}});  // grew between the last look and this one
  look(ledger, 500, {{0, 7, 1}});
  look(ledger, 210, {{0, 7, 1}});
  EXPECT_EQ(ledger.seen(7), 0) << "who knows whether it goes away again";
  look(ledger, 201);
  EXPECT_EQ(ledger.seen(7), 299 * kMiB);
  EXPECT_EQ(ledger.seen(8), 0);
  EXPECT_EQ(sizes(ledger), std::vector<Bytes>{300});
}

TEST(UntrackedLedger, WhatStaysIsNoScratchAndRunsAreNotAddedUp) {
  UntrackedLedger ledger;
  look(ledger, 200);
  for (std::uint64_t run = 1; run <= 20; ++run) {  // each leaves 10 MiB behind
    look(ledger, 190 + 10 * static_cast<Bytes>(run) + 10, {{0, 7, run}});
  }
  EXPECT_EQ(ledger.seen(7), 0);
  EXPECT_EQ(sizes(ledger), std::vector<Bytes>{10});
}

TEST(UntrackedLedger, ScratchOfARunThatAnotherFollowsAtOnce) {
  UntrackedLedger ledger;
  look(ledger, 200);
  look(ledger, 500, {{0, 7, 1}});
  look(ledger, 210, {{0, 7, 2}});
  look(ledger, 260, {{0, 8, 3}});
  look(ledger, 200);
  EXPECT_EQ(ledger.seen(7), 290 * kMiB);
  EXPECT_EQ(ledger.seen(8), 50 * kMiB);
}

TEST(UntrackedLedger, WhatGrowsWhileNoOpRunsIsSomebodyElses) {
  UntrackedLedger ledger;
  look(ledger, 200, {{0, 7, 1}});
  look(ledger, 260);
  look(ledger, 350);
  look(ledger, 350, {{0, 7, 2}});
  EXPECT_EQ(ledger.seen(7), 0);
  EXPECT_EQ(sizes(ledger), std::vector<Bytes>{150});
  EXPECT_EQ(ledger.largest(1).front().site, 0U);
}

TEST(UntrackedLedger, EachRiseIsToldOnceWhenItIsOver) {
  UntrackedLedger ledger;
  std::vector<std::tuple<ThreadId, SiteId, Bytes>> told;
  ledger.tell([&](ThreadId thread, SiteId site, Bytes bytes) { told.emplace_back(thread, site, bytes / kMiB); });
  look(ledger, 100);
  look(ledger, 150, {{2, 7, 1}});
  look(ledger, 190, {{2, 7, 1}});
  EXPECT_TRUE(told.empty());
  look(ledger, 103);  // between ops; some stays
  look(ledger, 160);
  look(ledger, 160, {{2, 8, 2}});
  look(ledger, 160);
  EXPECT_EQ(told, (decltype(told){{2, 7, 90}, {trace::kUnknownThread, 0, 57}}));
}

TEST(UntrackedLedger, EveryThreadsOpIsLookedAtAndNoiseIsNot) {
  UntrackedLedger ledger;
  look(ledger, 100, {{0, 7, 1}, {3, 9, 1}});
  look(ledger, 103, {{0, 7, 1}, {3, 9, 1}});
  EXPECT_TRUE(sizes(ledger).empty());
  look(ledger, 150, {{0, 7, 1}, {3, 9, 1}});
  EXPECT_EQ(sizes(ledger), (std::vector<Bytes>{50, 50}));
  look(ledger, 100);
  EXPECT_EQ(ledger.seen(7), 50 * kMiB);
  EXPECT_EQ(ledger.seen(9), 50 * kMiB);
}

TEST(UntrackedLedger, TheLargestFirstAndTiesBySite) {
  UntrackedLedger ledger;
  look(ledger, 100);
  look(ledger, 150, {{0, 9, 1}});
  look(ledger, 200, {{0, 4, 2}});
  look(ledger, 300, {{0, 6, 3}});
  const std::vector<Untracked> all = ledger.largest(2);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].site, 6U);
  EXPECT_EQ(all[1].site, 4U);
}

TEST(UntrackedLedger, TensorsHaveWhatIsLeft) {
  UntrackedLedger ledger;
  const Bytes whole = 1024 * kMiB, margin = UntrackedLedger::margin(whole);
  look(ledger, 200);
  EXPECT_EQ(ledger.tensors_in(whole), 824 * kMiB - margin);
  look(ledger, 2000);
  EXPECT_LT(ledger.tensors_in(whole), 0);
}

TEST(UntrackedLedger, WhatAnOpWillTakeIsTakenOffOnce) {
  UntrackedLedger ledger;
  const Bytes whole = 1024 * kMiB, margin = UntrackedLedger::margin(whole);
  look(ledger, 200);
  ledger.expect(0, 300 * kMiB);
  EXPECT_EQ(ledger.tensors_in(whole), 524 * kMiB - margin);
  look(ledger, 450, {{0, 7, 1}});  // most of it is there
  EXPECT_EQ(ledger.tensors_in(whole), 524 * kMiB - margin);
  look(ledger, 600, {{0, 7, 1}});  // more than was expected
  EXPECT_EQ(ledger.tensors_in(whole), 424 * kMiB - margin);
  ledger.expect(5, 100 * kMiB);  // another thread, on top
  look(ledger, 200, {{0, 7, 1}});
  EXPECT_EQ(ledger.tensors_in(whole), 424 * kMiB - margin);
  ledger.ended(0);
  EXPECT_EQ(ledger.tensors_in(whole), 724 * kMiB - margin);
  ledger.ended(5);
  EXPECT_EQ(ledger.tensors_in(whole), 824 * kMiB - margin);
}

TEST(UntrackedLedger, RemembersSoManySitesAndTheLargestOfThem) {
  UntrackedLedger ledger;
  ledger.look(0, {});
  constexpr SiteId kSites = 3 * UntrackedLedger::kSitesMax;
  for (SiteId site = 1; site <= kSites; ++site) {
    const UntrackedLedger::Running one{0, site, site};
    ledger.look(0, {&one, 1});
    ledger.look((8 + static_cast<Bytes>(site % 7)) * kMiB + static_cast<Bytes>(site == 99) * kGiB, {&one, 1});
    ledger.look(0, {});
  }
  EXPECT_LE(ledger.largest(kSites).size(), UntrackedLedger::kSitesMax + 1);
  EXPECT_EQ(ledger.largest(1).at(0).site, 99U);
  EXPECT_GT(ledger.seen(99), kGiB);
}

}  // namespace
}  // namespace outsize::host
