#include "sim/caching_allocator.h"

#include <gtest/gtest.h>

namespace outsize::sim {
namespace {

TEST(CachingAllocator, SmallOnesShareSegmentsOf2MiBAndAreRoundedTo512) {
  CachingAllocator a;
  EXPECT_EQ(a.allocate(1), 0);
  EXPECT_EQ(a.allocate(513), 512);
  EXPECT_EQ(a.allocate(kMiB), 1536);
  EXPECT_EQ(a.allocated(), 512 + 1024 + kMiB);
  EXPECT_EQ(a.reserved(), 2 * kMiB);
  EXPECT_EQ(a.allocate(kMiB), 2 * kMiB) << "what is left is too little";
  EXPECT_EQ(a.allocate(512), 1536 + kMiB) << "the smallest that fits: what is left of the first";
  EXPECT_EQ(a.reserved(), 4 * kMiB);
}

TEST(CachingAllocator, LargeOnesShareSegmentsOf20MiBFrom10MiBOnTheyHaveTheirOwn) {
  CachingAllocator a;
  EXPECT_EQ(a.allocate(kMiB + 1), 0);
  EXPECT_EQ(a.allocate(10 * kMiB - 512), kMiB + 512);
  EXPECT_EQ(a.reserved(), 20 * kMiB);
  EXPECT_EQ(a.allocate(10 * kMiB), 20 * kMiB);
  EXPECT_EQ(a.reserved(), 30 * kMiB);
  EXPECT_EQ(a.allocate(11 * kMiB), 30 * kMiB) << "rounded up to 12";
  EXPECT_EQ(a.reserved(), 42 * kMiB);
  EXPECT_EQ(a.piece_bytes(30 * kMiB), 12 * kMiB) << "1 MiB is not split off ...";
  EXPECT_EQ(a.allocate(9 * kMiB), 11 * kMiB) << "what is left of the first segment, 9 MiB";
  EXPECT_EQ(a.piece_bytes(11 * kMiB), 9 * kMiB);
  EXPECT_EQ(a.reserved(), 42 * kMiB);
}

TEST(CachingAllocator, MoreThan1MiBIsSplitOff) {
  CachingAllocator a;
  a.allocate(20 * kMiB);
  a.free(0);
  EXPECT_EQ(a.allocate(19 * kMiB), 0);
  EXPECT_EQ(a.piece_bytes(0), 20 * kMiB);
  a.free(0);
  EXPECT_EQ(a.allocate(19 * kMiB - 512), 0);
  EXPECT_EQ(a.piece_bytes(0), 19 * kMiB - 512);
  EXPECT_EQ(a.allocate(kMiB + 512), 19 * kMiB - 512);
}

TEST(CachingAllocator, TheSmallestThatFitsIsTakenThenTheLowest) {
  CachingAllocator a;
  const Bytes large = a.allocate(32 * kMiB), apart = a.allocate(12 * kMiB), again = a.allocate(12 * kMiB);
  a.free(again);
  a.free(large);
  a.free(apart);
  EXPECT_EQ(a.allocate(12 * kMiB), apart);
  EXPECT_EQ(a.allocate(12 * kMiB), again);
  EXPECT_EQ(a.allocate(12 * kMiB), large) << "now the large one is split";
  EXPECT_EQ(a.reserved(), 56 * kMiB);
}

TEST(CachingAllocator, FreeNeighboursJoinWithinASegmentOnly) {
  CachingAllocator a;
  const Bytes one = a.allocate(4 * kMiB), two = a.allocate(4 * kMiB), three = a.allocate(4 * kMiB);
  a.allocate(8 * kMiB);  // the rest of the first 20 MiB
  const Bytes other = a.allocate(20 * kMiB);
  a.free(one);
  a.free(three);
  EXPECT_EQ(a.allocate(6 * kMiB), 40 * kMiB) << "4 and 4 MiB with one between them";
  a.free(two);
  EXPECT_EQ(a.allocate(12 * kMiB), one) << "joined on both sides";
  a.free(other);
  EXPECT_EQ(a.allocate(24 * kMiB), 60 * kMiB) << "its neighbour is another segment";
}

TEST(CachingAllocator, SegmentsGoBackWhenAskedAndNothingIsInUse) {
  CachingAllocator a;
  const Bytes kept = a.allocate(4 * kMiB), freed = a.allocate(4 * kMiB), own = a.allocate(30 * kMiB);
  const Bytes small = a.allocate(100 * kKiB);
  a.free(freed);
  a.free(own);
  a.free(small);
  EXPECT_EQ(a.reserved(), 52 * kMiB);
  a.empty_cache();
  EXPECT_EQ(a.reserved(), 20 * kMiB);
  EXPECT_EQ(a.allocate(30 * kMiB), 52 * kMiB) << "addresses are not used again";
  EXPECT_EQ(a.allocate(4 * kMiB), freed);
  EXPECT_EQ(a.allocated(), 38 * kMiB);
  a.free(kept);
}

}  // namespace
}  // namespace outsize::sim
