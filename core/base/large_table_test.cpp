#include "core/base/large_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace outsize {
namespace {

std::vector<std::pair<std::uintptr_t, std::size_t>> told;

class LargeTables : public testing::Test {
 protected:
  LargeTables() {
    told.clear();
    tell_large_pages = [](void* memory, std::size_t bytes) noexcept {
      told.emplace_back(reinterpret_cast<std::uintptr_t>(memory), bytes);
    };
  }
  ~LargeTables() override { tell_large_pages = nullptr; }
  static constexpr std::size_t kFew = kLargePage / sizeof(std::uint64_t) - 1;
};

TEST_F(LargeTables, AreToldOfWholeLargePagesAndSmallOnesAreNot) {
  LargeTable<std::uint64_t> table(kFew);
  EXPECT_TRUE(told.empty());
  LargeTable<std::uint64_t> just_large(kFew + 1);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told.back().second, kLargePage);
  LargeTable<std::uint64_t> other(kFew + 2);
  EXPECT_EQ(told.back().first, reinterpret_cast<std::uintptr_t>(other.data()));
  EXPECT_EQ(told.back().second, 2 * kLargePage);
  for (const auto& [memory, bytes] : told) {
    EXPECT_EQ(memory % kLargePage, 0U);
    EXPECT_EQ(bytes % kLargePage, 0U);
  }
}

TEST_F(LargeTables, KeepWhatTheyHoldAsTheyGrow) {
  LargeTable<std::uint64_t> table;
  for (std::uint64_t i = 0; i < 4 * kFew; ++i) table.push_back(i);
  std::vector<std::uint64_t> expected(4 * kFew);
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_TRUE(std::equal(table.begin(), table.end(), expected.begin(), expected.end()));
  table.resize(1);
  table.shrink_to_fit();
  EXPECT_EQ(table, LargeTable<std::uint64_t>{0});
}

// Told or not, memory is had and given back in the same way.
TEST_F(LargeTables, MayOutliveWhoTells) {
  LargeTable<std::uint64_t> before(2 * kFew, 7);
  tell_large_pages = nullptr;
  const LargeTable<std::uint64_t> moved = std::move(before);
  EXPECT_EQ(std::accumulate(moved.begin(), moved.end(), std::uint64_t{0}), 2 * kFew * 7);
  const LargeTable<std::uint64_t> untold(2 * kFew);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(untold.data()) % kLargePage, 0U);
  EXPECT_EQ(told.size(), 1U);
}

}  // namespace
}  // namespace outsize
