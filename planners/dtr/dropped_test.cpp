// The neighbourhoods on graphs that fit on a napkin.

#include <gtest/gtest.h>

#include "planners/dtr/dropped_classes.h"
#include "planners/dtr/dropped_regions.h"

namespace outsize::dtr {
namespace {

// Storages of 1, 10, 100, ... nanoseconds, so that a sum says who is in it.
template <class Tracker>
struct Rig {
  explicit Rig(int count) : tracker(graph) {
    Nanos compute = 1;
    for (int i = 0; i < count; ++i, compute *= 10) {
      const StorageId storage = graph.add(1);
      tracker.add(storage);
      graph.facts(storage).compute = compute;
    }
  }
  void compute(StorageId storage) {
    graph.set_resident(storage, true);
    if constexpr (std::is_same_v<Tracker, DroppedRegions>) {
      tracker.computed({storage});
    } else {
      tracker.computed(storage);
    }
  }
  void drop(StorageId storage) {
    graph.set_resident(storage, false);
    tracker.dropped(storage);
  }

  StorageGraph graph;
  Tracker tracker;
};

// 0 -> 1 -> 2 -> 3 -> 4
template <class Tracker>
Rig<Tracker> chain() {
  Rig<Tracker> rig(5);
  for (StorageId storage = 0; storage < 4; ++storage) {
    rig.graph.connect(storage, storage + 1);
    rig.compute(storage);
  }
  rig.compute(4);
  return rig;
}

TEST(DroppedRegions, ReachThroughAbsentStoragesOnly) {
  auto rig = chain<DroppedRegions>();
  rig.drop(1);
  rig.drop(2);
  EXPECT_EQ(rig.tracker.both(0), 110);
  EXPECT_EQ(rig.tracker.ancestors(0), 0);
  EXPECT_EQ(rig.tracker.ancestors(3), 110);
  EXPECT_EQ(rig.tracker.both(4), 0);
  rig.drop(3);
  EXPECT_EQ(rig.tracker.both(0), 1110);
  EXPECT_EQ(rig.tracker.ancestors(4), 1110);
}

TEST(DroppedRegions, AComputedStorageDividesThem) {
  auto rig = chain<DroppedRegions>();
  for (StorageId storage : {3U, 1U, 2U}) rig.drop(storage);
  rig.compute(2);
  EXPECT_EQ(rig.tracker.both(0), 10);
  EXPECT_EQ(rig.tracker.both(2), 1010);
  EXPECT_EQ(rig.tracker.ancestors(2), 10);
  EXPECT_EQ(rig.tracker.both(4), 1000);
}

// 0 and 1 -> 2 -> 3, 1 -> 3: absent 2 is met on two ways and counts once.
TEST(DroppedRegions, AStorageCountsOnceInARegion) {
  Rig<DroppedRegions> rig(4);
  rig.compute(0);
  rig.compute(1);
  rig.graph.connect(0, 2);
  rig.graph.connect(1, 2);
  rig.compute(2);
  rig.graph.connect(2, 3);
  rig.graph.connect(1, 3);
  rig.compute(3);
  rig.drop(2);
  rig.drop(1);
  EXPECT_EQ(rig.tracker.both(0), 100);  // 2; from there on only children
  EXPECT_EQ(rig.tracker.both(3), 110);  // 2 and, by both ways, 1
  EXPECT_EQ(rig.tracker.search(3).compute, 110);
}

// 0 -> 1 -> 3 and 0 -> 2 -> 3 -> 4: 3 goes first and is reached by both ways when 1 and 2 follow.
TEST(DroppedRegions, WhatTwoRegionsShareIsAbsorbedOnce) {
  Rig<DroppedRegions> rig(5);
  rig.compute(0);
  for (auto [from, to] : {std::pair{0, 1}, {0, 2}, {1, 3}, {2, 3}, {3, 4}}) {
    rig.graph.connect(static_cast<StorageId>(from), static_cast<StorageId>(to));
  }
  for (StorageId storage = 1; storage < 5; ++storage) rig.compute(storage);
  for (StorageId storage : {3U, 1U, 2U}) rig.drop(storage);
  EXPECT_EQ(rig.tracker.both(0), 1110);
  EXPECT_EQ(rig.tracker.ancestors(4), 1110);
}

// A view made of 1 while 1 is away: sums that exist stay as they are, new ones have it.
TEST(DroppedRegions, ASumIsAsOldAsItsLastChange) {
  auto rig = chain<DroppedRegions>();
  rig.drop(1);
  rig.graph.facts(1).compute = 15;
  EXPECT_EQ(rig.tracker.both(0), 10);
  EXPECT_EQ(rig.tracker.search(0).compute, 15);
  rig.drop(2);
  EXPECT_EQ(rig.tracker.both(0), 110);       // 10 of then, and 100
  EXPECT_EQ(rig.tracker.ancestors(3), 115);  // of storage 1 it hears only now
  rig.compute(2);
  EXPECT_EQ(rig.tracker.ancestors(2), 15);
}

TEST(DroppedRegions, ASearchKnowsTheLatestUse) {
  auto rig = chain<DroppedRegions>();
  rig.graph.facts(1).last_use = 7;
  rig.graph.facts(2).last_use = 5;
  rig.drop(1);
  rig.drop(2);
  EXPECT_EQ(rig.tracker.search(3).last_use, 7);
  EXPECT_EQ(rig.tracker.search(4).last_use, 0);
}

// x -> y -> view of x: at the level of storages x is its own ancestor.
TEST(DroppedRegions, AStorageMayBeItsOwnAncestor) {
  Rig<DroppedRegions> rig(2);
  rig.graph.connect(0, 1);
  rig.graph.connect(1, 0);
  rig.compute(0);
  rig.compute(1);
  rig.drop(1);
  EXPECT_EQ(rig.tracker.both(0), 20);            // once in each direction
  EXPECT_EQ(rig.tracker.search(0).compute, 10);  // once
  rig.drop(0);
  rig.compute(0);
  EXPECT_EQ(rig.tracker.both(0), 20);
}

TEST(DroppedClasses, NeighboursAreJoinedAndStayJoined) {
  auto rig = chain<DroppedClasses>();
  rig.drop(1);
  rig.drop(3);
  EXPECT_EQ(rig.tracker.around(2), 1010);
  EXPECT_EQ(rig.tracker.around(0), 10);
  rig.drop(2);
  EXPECT_EQ(rig.tracker.around(0), 1110);
  rig.compute(2);  // nothing connects 1 and 3 now, but they remain one class
  EXPECT_EQ(rig.tracker.around(0), 1010);
  EXPECT_EQ(rig.tracker.around(2), 1010);  // one class on both sides counts once
}

TEST(DroppedClasses, TodaysComputeIsTakenAway) {
  auto rig = chain<DroppedClasses>();
  rig.drop(1);
  rig.drop(2);
  rig.graph.facts(1).compute = 500;  // a view was made while it was away
  rig.compute(1);
  EXPECT_EQ(rig.tracker.around(1), 110 - 500);
}

// The result of an op that waits for room is absent and costs nothing, but what is dropped
// meanwhile joins it, and its own compute is taken from that class when it runs.
TEST(DroppedClasses, AnOpThatWaitsIsANeighbour) {
  auto rig = chain<DroppedClasses>();
  const StorageId waiting = rig.graph.add(1);
  rig.tracker.add(waiting);
  rig.graph.facts(waiting).compute = 7;
  rig.graph.connect(2, waiting);
  EXPECT_EQ(rig.tracker.around(2), 0);
  rig.drop(2);
  EXPECT_EQ(rig.tracker.around(1), 100);
  rig.compute(2);
  rig.compute(waiting);
  rig.drop(3);
  EXPECT_EQ(rig.tracker.around(2), 1000);
}

// Nobody ever asks for the neighbours of what is kept, and it is never absent.
TEST(StorageGraph, WhatIsKeptNeedsNoLinks) {
  StorageGraph graph;
  const StorageId weight = graph.add(8), result = graph.add(8);
  graph.keep(weight);
  graph.connect(weight, result);
  EXPECT_TRUE(graph.parents(result).empty());
  EXPECT_TRUE(graph.children(weight).empty());
  graph.connect(result, result);
  EXPECT_TRUE(graph.children(result).empty());
}

}  // namespace
}  // namespace outsize::dtr
