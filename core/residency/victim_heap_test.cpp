#include "core/residency/victim_heap.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace outsize {
namespace {

std::vector<ExtentId> in_order(VictimHeap& heap, std::size_t limit = ~std::size_t{0}) {
  std::vector<ExtentId> ids;
  heap.in_order([&](ExtentId id) {
    ids.push_back(id);
    return ids.size() < limit;
  });
  return ids;
}

TEST(VictimHeap, LargestKeyFirstTiesBySmallerId) {
  VictimHeap heap;
  heap.put(5, 10);
  heap.put(3, 30);
  heap.put(9, 30);
  heap.put(1, 20);
  EXPECT_EQ(in_order(heap), (std::vector<ExtentId>{3, 9, 1, 5}));
  EXPECT_EQ(in_order(heap, 2), (std::vector<ExtentId>{3, 9}));
}

TEST(VictimHeap, KeysChangeUpAndDown) {
  VictimHeap heap;
  for (ExtentId id = 0; id < 4; ++id) heap.put(id, id);
  heap.put(0, 9);
  heap.put(3, 0);
  EXPECT_EQ(in_order(heap), (std::vector<ExtentId>{0, 2, 1, 3}));
  heap.remove(2);
  heap.remove(2);
  heap.remove(77);
  EXPECT_FALSE(heap.contains(2));
  EXPECT_EQ(in_order(heap), (std::vector<ExtentId>{0, 1, 3}));
  heap.rebuild([](ExtentId id) { return Position{id}; });
  EXPECT_EQ(in_order(heap), (std::vector<ExtentId>{3, 1, 0}));
}

TEST(VictimHeap, AgreesWithASortedListOverRandomChanges) {
  VictimHeap heap;
  std::map<ExtentId, Position> truth;
  std::uint64_t state = 42;
  auto random = [&](std::uint64_t bound) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % bound;
  };
  for (int round = 0; round < 20'000; ++round) {
    const auto id = static_cast<ExtentId>(random(60));
    if (random(3) == 0) {
      heap.remove(id);
      truth.erase(id);
    } else {
      const Position key = random(20);
      heap.put(id, key);
      truth[id] = key;
    }
    ASSERT_EQ(heap.size(), truth.size());
    if (round % 50 != 0) continue;
    std::vector<ExtentId> expected;
    for (const auto& [each, key] : truth) expected.push_back(each);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](ExtentId a, ExtentId b) { return truth[a] > truth[b]; });
    ASSERT_EQ(in_order(heap), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace outsize
