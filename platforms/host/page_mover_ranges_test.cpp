#include "platforms/host/page_mover_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace outsize::host {
namespace {

TEST(RangeSet, AgreesWithABitmap) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr int kSize = 64;
  for (int round = 0; round < 200; ++round) {
    RangeSet<int> set;
    std::vector<bool> model(kSize);
    for (int i = 0; i < 30; ++i) {
      int begin = static_cast<int>(random() % kSize);
      int end = static_cast<int>(random() % (kSize + 1));
      const bool insert = random() % 2 == 0;
      if (insert) set.insert(begin, end);
      else set.erase(begin, end);
      for (int at = begin; at < end; ++at) model[static_cast<std::size_t>(at)] = insert;
      begin = static_cast<int>(random() % kSize);
      end = static_cast<int>(random() % (kSize + 1));
      int overlap = 0;
      for (int at = begin; at < end; ++at) overlap += model[static_cast<std::size_t>(at)] ? 1 : 0;
      ASSERT_EQ(set.overlap(begin, end), overlap);
      if (begin < end) {
        ASSERT_EQ(set.intersects(begin, end), overlap > 0);
      }
      int total = 0;
      int last = -1;
      for (const auto& [low, high] : set.ranges()) {
        ASSERT_GT(low, last) << "neighbours must be one range";
        ASSERT_LT(low, high);
        for (int p = low; p < high; ++p) ASSERT_TRUE(model[static_cast<std::size_t>(p)]);
        total += high - low;
        last = high;
      }
      int in_model = 0;
      for (const bool bit : model) in_model += bit ? 1 : 0;
      ASSERT_EQ(total, in_model);
    }
  }
}

TEST(AreaTable, FindsWhatWasInserted) {
  AreaTable table;
  for (Address i = 1; i <= 300; ++i) table.insert(i * 100, i * 100 + 50);  // more than one block
  for (Address i = 1; i <= 300; ++i) {
    EXPECT_TRUE(table.contains(i * 100));
    EXPECT_TRUE(table.contains(i * 100 + 49));
    EXPECT_FALSE(table.contains(i * 100 + 50));
    EXPECT_FALSE(table.contains(i * 100 - 1));
  }
  EXPECT_FALSE(table.erase(100, 151));
  EXPECT_TRUE(table.erase(100, 150));
  EXPECT_FALSE(table.erase(100, 150));
  EXPECT_FALSE(table.contains(120));
  EXPECT_TRUE(table.contains(220));
}

TEST(AreaTable, ReadersNeverSeeAMixtureOfTwoRanges) {
  AreaTable table;
  table.insert(1000, 2000);
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    // One entry used in turn for ranges whose mixture would cover 500.
    while (!stop) {
      table.insert(100, 200);
      table.erase(100, 200);
      table.insert(800, 900);
      table.erase(800, 900);
    }
  });
  int wrong = 0;
  for (int i = 0; i < 300000; ++i) {
    if (table.contains(500)) ++wrong;
    if (!table.contains(1500)) ++wrong;
  }
  stop = true;
  changer.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace outsize::host
