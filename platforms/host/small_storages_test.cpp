#include "platforms/host/small_storages.h"

#include <gtest/gtest.h>

namespace outsize::host {
namespace {

constexpr Bytes kBlock = 4 * kKiB;
constexpr SiteId kSite = 7;

// Extents at addresses that are only names: the bookkeeping never touches the bytes.
class SmallStoragesTest : public ::testing::Test {
 protected:
  static char* base(ExtentId extent) {
    return reinterpret_cast<char*>(static_cast<std::uintptr_t>(extent + 1) * kChunkBytes);  // NOLINT
  }
  ExtentId open() {
    const ExtentId id = next_++;
    table_.ensure(id);
    table_[id].where = Where::kResident;
    small_.open(id, base(id), kSite);
    return id;
  }
  // Where the block landed; opens an extent when one is asked for.
  std::pair<ExtentId, char*> birth(Bytes bytes = kBlock) {
    ExtentId extent = kNoExtent;
    char* address = small_.allocate(bytes, kSite, extent);
    if (address == nullptr) {
      open();
      address = small_.allocate(bytes, kSite, extent);
    }
    return {extent, address};
  }
  void evict(ExtentId extent) {
    table_[extent].where = Where::kAbsent;
    small_.on_evict(extent);
  }

  ExtentTable table_;
  SmallStorages small_{table_};
  ExtentId next_ = 0;
};

TEST_F(SmallStoragesTest, BornTogetherLiesTogether) {
  const auto [first, at] = birth();
  const auto [second, next] = birth();
  EXPECT_EQ(first, second);
  EXPECT_EQ(next - at, kBlock);
  EXPECT_EQ(small_.live(), 2 * kBlock);
  EXPECT_EQ(small_.held(), kSharedBytes);
}

TEST_F(SmallStoragesTest, AnExtentThatEmptiesWhileItIsFilledIsReusedFromItsStart) {
  const auto [extent, address] = birth();
  EXPECT_FALSE(small_.deallocate(extent, address));
  EXPECT_EQ(birth().second, address);
}

TEST_F(SmallStoragesTest, AnExtentThatLeavesEmptyIsHandedOverForRelease) {
  const auto [extent, address] = birth();
  EXPECT_FALSE(small_.deallocate(extent, address));
  EXPECT_EQ(small_.take_emptied(), kNoExtent);
  evict(extent);
  EXPECT_EQ(small_.take_emptied(), extent);
  EXPECT_EQ(small_.take_emptied(), kNoExtent);
  small_.forget(extent);
  EXPECT_EQ(small_.held(), 0);
  EXPECT_NE(birth().first, extent);
}

TEST_F(SmallStoragesTest, AnExtentForLongLivedBlocksThatLeavesBeforeTheFirstIsHandedOver) {
  const auto [survivor, address] = birth();
  evict(survivor);  // closed, with a block that outlives the next steps
  for (int step = 0; step < 3; ++step) small_.step();
  ExtentId extent = kNoExtent;
  ASSERT_EQ(small_.allocate(kBlock, kSite, extent), nullptr);  // no hole in RAM
  const ExtentId opened = open();
  evict(opened);  // somebody needed the room more
  EXPECT_EQ(small_.take_emptied(), opened);
  EXPECT_EQ(small_.take_emptied(), kNoExtent);
  small_.forget(opened);
  EXPECT_EQ(small_.held(), kSharedBytes);
  evict(survivor);  // with its block it stays
  EXPECT_EQ(small_.take_emptied(), kNoExtent);
  EXPECT_TRUE(small_.deallocate(survivor, address));
}

TEST_F(SmallStoragesTest, AnExtentThatLeavesWithLiveBlocksGoesWithTheLast) {
  const auto [extent, first] = birth();
  const char* second = birth().second;
  evict(extent);
  EXPECT_EQ(small_.take_emptied(), kNoExtent);
  EXPECT_FALSE(small_.deallocate(extent, first));
  EXPECT_TRUE(small_.deallocate(extent, const_cast<char*>(second)));
}

// Between its death and its release an extent may wait for a transfer, its pages in place.
TEST_F(SmallStoragesTest, AnExtentThatWaitsForItsReleaseTakesNoBirths) {
  const auto [extent, only] = birth();
  evict(extent);
  for (int i = 0; i < 3; ++i) small_.step();  // it outlives steps: such sites fill holes from now on
  table_[extent].where = Where::kResident;
  const auto [again, second] = birth();
  ASSERT_EQ(again, extent);
  EXPECT_FALSE(small_.deallocate(extent, second));
  EXPECT_TRUE(small_.deallocate(extent, only));  // dead, and not yet forgotten
  EXPECT_NE(birth().first, extent);
}

}  // namespace
}  // namespace outsize::host
