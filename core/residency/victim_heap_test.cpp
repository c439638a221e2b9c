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

class Random {
 public:
  std::uint64_t operator()(std::uint64_t bound) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) % bound;
  }

 private:
  std::uint64_t state_ = 42;
};

std::vector<ExtentId> sorted(const std::map<ExtentId, Position>& truth) {
  std::vector<ExtentId> ids;
  for (const auto& [id, key] : truth) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(), [&](ExtentId a, ExtentId b) { return truth.at(a) > truth.at(b); });
  return ids;
}

TEST(VictimHeap, AgreesWithASortedListOverRandomChanges) {
  VictimHeap heap;
  std::map<ExtentId, Position> truth;
  Random random;
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
    ASSERT_EQ(in_order(heap), sorted(truth)) << "round " << round;
  }
}

// Many more than are kept in order; the best leave, as victims do, so that the front runs out and is found anew.
TEST(VictimHeap, AgreesWithASortedListWhereMostLieBehindTheFront) {
  VictimHeap heap;
  std::map<ExtentId, Position> truth;
  Random random;
  for (int round = 0; round < 40'000; ++round) {
    const auto id = static_cast<ExtentId>(random(6'000));
    const Position key = random(100'000);
    heap.put(id, key);
    truth[id] = key;
    if (round % 16 != 0) continue;
    const std::vector<ExtentId> best = in_order(heap, 1 + random(12));
    for (const ExtentId gone : best) {
      if (round % 3 == 0) break;
      heap.remove(gone);
      truth.erase(gone);
    }
    if (round % 5'008 == 0) heap.rebuild([&](ExtentId each) { return truth[each] = truth[each] * 7919 % 100'003; });
    if (round % 400 != 0) continue;
    std::vector<ExtentId> expected = sorted(truth);
    ASSERT_EQ(in_order(heap), expected) << "round " << round;
    const std::size_t limit = 1 + random(2'500);
    expected.resize(std::min(limit, expected.size()));
    ASSERT_EQ(in_order(heap, limit), expected) << "round " << round;
  }
  EXPECT_GT(heap.size(), 2'500U) << "not many more";
}

}  // namespace
}  // namespace outsize
