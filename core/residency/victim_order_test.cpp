#include "core/residency/victim_order.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace outsize {
namespace {

std::vector<ExtentId> in_order(VictimOrder& order, std::size_t limit = ~std::size_t{0}) {
  std::vector<ExtentId> ids;
  order.in_order([&](ExtentId id) {
    ids.push_back(id);
    return ids.size() < limit;
  });
  return ids;
}

TEST(VictimOrder, LargestKeyFirstTiesBySmallerId) {
  VictimOrder order;
  order.put(5, 10);
  order.put(3, 30);
  order.put(9, 30);
  order.put(1, 20);
  EXPECT_EQ(in_order(order), (std::vector<ExtentId>{3, 9, 1, 5}));
  EXPECT_EQ(in_order(order, 2), (std::vector<ExtentId>{3, 9}));
}

TEST(VictimOrder, KeysChangeUpAndDown) {
  VictimOrder order;
  for (ExtentId id = 0; id < 4; ++id) order.put(id, id);
  order.put(0, 9);
  order.put(3, 0);
  EXPECT_EQ(in_order(order), (std::vector<ExtentId>{0, 2, 1, 3}));
  order.remove(2);
  order.remove(2);
  order.remove(77);
  EXPECT_FALSE(order.contains(2));
  EXPECT_EQ(in_order(order), (std::vector<ExtentId>{0, 1, 3}));
  order.rebuild([](ExtentId id) { return Position{id}; });
  EXPECT_EQ(in_order(order), (std::vector<ExtentId>{3, 1, 0}));
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

TEST(VictimOrder, AgreesWithASortedListOverRandomChanges) {
  VictimOrder order;
  std::map<ExtentId, Position> truth;
  Random random;
  for (int round = 0; round < 20'000; ++round) {
    const auto id = static_cast<ExtentId>(random(60));
    if (random(3) == 0) {
      order.remove(id);
      truth.erase(id);
    } else {
      const Position key = random(20);
      order.put(id, key);
      truth[id] = key;
    }
    ASSERT_EQ(order.size(), truth.size());
    if (round % 50 != 0) continue;
    ASSERT_EQ(in_order(order), sorted(truth)) << "round " << round;
  }
}

// More than come out of the bag at a time; the best leave, as victims do, so that the rows run out.
TEST(VictimOrder, AgreesWithASortedListWhereMostLieInTheBag) {
  VictimOrder order;
  std::map<ExtentId, Position> truth;
  Random random;
  for (int round = 0; round < 40'000; ++round) {
    const auto id = static_cast<ExtentId>(random(6'000));
    const Position key = random(100'000);
    order.put(id, key);
    truth[id] = key;
    if (round % 16 != 0) continue;
    const std::vector<ExtentId> best = in_order(order, 1 + random(12));
    for (const ExtentId gone : best) {
      if (round % 3 == 0) break;
      order.remove(gone);
      truth.erase(gone);
    }
    if (round % 5'008 == 0) order.rebuild([&](ExtentId each) { return truth[each] = truth[each] * 7919 % 100'003; });
    if (round % 400 != 0) continue;
    std::vector<ExtentId> expected = sorted(truth);
    ASSERT_EQ(in_order(order), expected) << "round " << round;
    const std::size_t limit = 1 + random(2'500);
    expected.resize(std::min(limit, expected.size()));
    ASSERT_EQ(in_order(order, limit), expected) << "round " << round;
  }
  EXPECT_GT(order.size(), 2'500U) << "not many more";
}

// Of those that come, most belong into rows, until these hold too many and give back.
TEST(VictimOrder, AgreesWithASortedListWhereRowsAreOverfull) {
  VictimOrder order;
  std::map<ExtentId, Position> truth;
  Random random;
  for (ExtentId id = 0; id < 30'000; ++id) {
    const Position key = random(2) == 0 ? random(1'000'000) : 1'000'000 + id;
    order.put(id, key);
    truth[id] = key;
    if (id % 4'096 == 0) in_order(order, 100);
  }
  ASSERT_EQ(in_order(order), sorted(truth));
  for (int round = 0; round < 60'000; ++round) {
    const auto id = static_cast<ExtentId>(random(30'000));
    if (random(4) == 0) {
      order.remove(id);
      truth.erase(id);
    } else {
      truth[id] = 1'000'000 + random(1'000'000);
      order.put(id, truth[id]);
    }
    if (round % 1'000 == 0) order.rebuild([&](ExtentId each) { return truth[each] /= 2; });
    if (round % 700 == 0) in_order(order, 1 + random(6'000));
  }
  ASSERT_EQ(order.size(), truth.size());
  ASSERT_EQ(in_order(order), sorted(truth));
}

// The best leave and come back behind all others, as where the least recently used leaves.
TEST(VictimOrder, AgreesWithASortedListThatIsAQueue) {
  VictimOrder order;
  std::map<ExtentId, Position> truth;
  Position key = kNever - 2;
  for (ExtentId id = 0; id < 9'000; ++id) order.put(id, truth[id] = key--);
  for (int round = 0; round < 20'000; ++round) {
    const ExtentId best = in_order(order, 1).front();
    ASSERT_EQ(best, static_cast<ExtentId>(round % 9'000));
    order.remove(best);
    order.put(best, truth[best] = key--);
  }
  EXPECT_EQ(in_order(order), sorted(truth));
}

}  // namespace
}  // namespace outsize
