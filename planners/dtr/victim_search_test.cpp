#include "planners/dtr/victim_search.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace outsize::dtr {
namespace {

// A graph whose storages are all resident and may be dropped, in the order of their ids.
struct Rig {
  explicit Rig(const char* policy, std::initializer_list<Facts> all)
      : search(*find_policy(policy), graph) {
    for (const Facts& facts : all) {
      const StorageId storage = graph.add(facts.bytes);
      search.added(storage);
      graph.facts(storage) = facts;
    }
    for (StorageId storage = 0; storage < graph.size(); ++storage) {
      graph.set_resident(storage, true);
      list.append(storage);
    }
  }
  void link() {  // what a runtime does when the ops have run
    std::vector<StorageId> all;
    for (StorageId storage = 0; storage < graph.size(); ++storage) all.push_back(storage);
    search.computed(all);
  }
  void drop(StorageId storage) {
    graph.set_resident(storage, false);
    list.remove(storage);
    search.dropped(storage);
  }

  StorageGraph graph;
  VictimList list;
  VictimSearch search;
};

TEST(VictimList, KeepsTheOrderInWhichStoragesCame) {
  VictimList list;
  for (StorageId storage = 0; storage < 500; ++storage) list.append(storage);
  for (StorageId storage = 0; storage < 500; ++storage) {
    if (storage % 7 != 3) list.remove(storage);
  }
  list.append(0);
  list.append(0);
  list.remove(12345);
  std::vector<StorageId> order;
  for (StorageId storage : list.with_gaps()) {
    if (storage != VictimList::kGap) order.push_back(storage);
  }
  ASSERT_EQ(order.size(), list.size());
  EXPECT_EQ(list.size(), 72U);
  EXPECT_EQ(order.front(), 3U);
  EXPECT_EQ(order[1], 10U);
  EXPECT_EQ(order.back(), 0U);
  EXPECT_TRUE(list.contains(0));
  EXPECT_FALSE(list.contains(1));
}

TEST(VictimSearch, TheSmallestScoreIsChosenAndAllAreCounted) {
  // compute / (bytes * staleness) at 10: 8/(2*8) = 1/2, 9/(9*4) = 1/4, 6/(2*9) = 1/3.
  Rig rig("dtr-local", {{2, 8, 2}, {9, 9, 6}, {2, 6, 1}});
  EXPECT_EQ(rig.search.choose(rig.list, 10), 1U);
  EXPECT_EQ(rig.search.evaluations(), 3);
}

TEST(VictimSearch, OfEqualScoresTheLastWins) {
  Rig rig("dtr-local", {{1, 4, 0}, {2, 8, 0}, {3, 99, 0}});
  EXPECT_EQ(rig.search.choose(rig.list, 10), 1U);
}

// 2^53 + 1 and 2^53 nanoseconds are the same double, so these two tie, and the last one wins.
TEST(VictimSearch, ScoresTieWhereTheirDoublesDo) {
  constexpr Nanos kLarge = Nanos{1} << 53;
  Rig rig("local", {{1, kLarge, 0}, {1, kLarge + 1, 0}});
  EXPECT_EQ(rig.search.choose(rig.list, 10), 1U);
  Rig apart("local", {{1, kLarge, 0}, {1, kLarge + 2, 0}});
  EXPECT_EQ(apart.search.choose(apart.list, 10), 0U);
}

// The second has 5 times the bytes and 5 times the compute of the first: equal, so that the last
// wins. Divided as doubles, with bytes * staleness rounded first, the first one would be smaller.
TEST(VictimSearch, ScoresAreRoundedOnce) {
  constexpr Nanos kNow = 296597964;
  Rig rig("dtr-local", {{23939895109, 786151112, 0}, {119699475545, 3930755560, 0}});
  EXPECT_EQ(rig.search.choose(rig.list, kNow), 1U);
  EXPECT_LT(786151112.0 / (23939895109.0 * kNow), 3930755560.0 / (119699475545.0 * kNow));
}

TEST(VictimSearch, AScoreOfZeroEndsTheSearch) {
  Rig rig("dtr-local", {{1, 4, 0}, {1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(rig.search.choose(rig.list, 10), 1U);
  EXPECT_EQ(rig.search.evaluations(), 2);
}

// No bytes, or used just now: infinite. Of infinite ones, too, the last is taken.
TEST(VictimSearch, AnInfiniteScoreIsTheLastResort) {
  Rig rig("dtr-local", {{5, 1000, 1}, {0, 1, 1}, {5, 1, 10}});
  EXPECT_EQ(rig.search.choose(rig.list, 10), 0U);
  rig.list.remove(0);
  EXPECT_EQ(rig.search.choose(rig.list, 10), 2U);
  rig.list.remove(2);
  EXPECT_EQ(rig.search.choose(rig.list, 10), 1U);
  EXPECT_EQ(rig.search.evaluations(), 6);
}

TEST(VictimSearch, PoliciesLookAtWhatTheirNamesSay) {
  //                       bytes, compute, last use
  const std::initializer_list<Facts> all = {{4, 40, 1}, {8, 72, 6}, {2, 10, 8}, {1, 6, 9}};
  auto chosen = [&](const char* policy) {
    Rig rig(policy, all);
    return rig.search.choose(rig.list, 10);
  };
  EXPECT_EQ(chosen("lru"), 0U);
  EXPECT_EQ(chosen("stale"), 0U);
  EXPECT_EQ(chosen("largest"), 1U);
  EXPECT_EQ(chosen("size-stale"), 0U);   // 1/36, 1/32, 1/4, 1
  EXPECT_EQ(chosen("local"), 3U);        // 40, 72, 10, 6
  EXPECT_EQ(chosen("local-size"), 2U);   // 10, 9, 5, 6
  EXPECT_EQ(chosen("local-stale"), 0U);  // 40/9, 72/4, 10/2, 6
  EXPECT_EQ(chosen("dtr-local"), 0U);    // 40/36, 72/32, 10/4, 6
  EXPECT_FALSE(find_policy("belady").has_value());
}

// 0 -> 1 -> 2 -> 3 -> 4, and 1 and 3 are gone: 2 has both around it, 0 only 1, 4 only 3.
TEST(VictimSearch, TheNeighbourhoodCounts) {
  const std::initializer_list<Facts> all = {
      {1, 6, 0}, {1, 20, 0}, {1, 7, 0}, {1, 30, 0}, {1, 5, 0}};
  auto chosen = [&](const char* policy) {
    Rig rig(policy, all);
    for (StorageId storage = 0; storage < 4; ++storage) rig.graph.connect(storage, storage + 1);
    rig.link();
    rig.drop(1);
    rig.drop(3);
    return rig.search.choose(rig.list, 1);
  };
  for (const char* policy : {"dtr", "dtr-fresh", "dtr-eqclass", "exact", "eqclass-size"}) {
    EXPECT_EQ(chosen(policy), 0U) << policy;  // 6+20, 7+20+30, 5+30
  }
  EXPECT_EQ(chosen("msps"), 0U);       // ancestors only: 6, 7+20, 5+30
  EXPECT_EQ(chosen("dtr-local"), 4U);  // 6, 7, 5
}

// 0 -> 1 -> 2: storage 0 comes back with a view more than it went with, which leaves the class of 1
// with 5 + 1 - 50, and 2 with a score of 2 - 44.
TEST(VictimSearch, AZeroEndsTheSearchAlsoBehindANegativeScore) {
  Rig rig("eqclass", {{1, 5, 0}, {1, 1, 0}, {1, 2, 0}, {1, 0, 0}, {1, 9, 0}});
  rig.graph.connect(0, 1);
  rig.graph.connect(1, 2);
  rig.link();
  rig.drop(0);
  rig.drop(1);
  rig.graph.facts(0).compute = 50;
  rig.graph.set_resident(0, true);
  rig.search.computed({0});
  EXPECT_EQ(rig.search.choose(rig.list, 10), 2U);
  EXPECT_EQ(rig.search.evaluations(), 2);
}

}  // namespace
}  // namespace outsize::dtr
