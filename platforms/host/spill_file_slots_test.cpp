#include "platforms/host/spill_file_slots.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace outsize::host {
namespace {

constexpr Bytes kPage = kPageBytes;

TEST(SlotMap, TakesTheSmallestRunThatFitsAndTheLowestAmongEquals) {
  SlotMap map;
  map.grow(20 * kPage);
  std::vector<std::int64_t> offsets;
  for (int i = 0; i < 10; ++i) offsets.push_back(map.take(2 * kPage));
  EXPECT_EQ(map.take(kPage), -1);
  EXPECT_TRUE(map.release(offsets[1], 2 * kPage));
  EXPECT_TRUE(map.release(offsets[5], 2 * kPage));
  EXPECT_TRUE(map.release(offsets[6], 2 * kPage));
  EXPECT_TRUE(map.release(offsets[8], 2 * kPage));
  EXPECT_EQ(map.take(2 * kPage), offsets[1]);
  EXPECT_EQ(map.take(2 * kPage), offsets[8]);
  EXPECT_EQ(map.take(3 * kPage), offsets[5]);
  EXPECT_EQ(map.take(kPage), offsets[6] + kPage);
  EXPECT_FALSE(map.release(offsets[0], kPage)) << "a slot is released as it was taken";
  EXPECT_FALSE(map.release(offsets[0] + kPage, kPage));
}

TEST(SlotMap, PiecesAreTheLargestRunsOutsideHoles) {
  SlotMap map;
  map.grow(20 * kPage);
  for (const auto& [bytes, offset] : {std::pair{3, 0}, {1, 3}, {5, 4}, {1, 9}, {2, 10}, {1, 12}, {7, 13}}) {
    ASSERT_EQ(map.take(bytes * kPage), offset * kPage);
  }
  RangeSet<std::int64_t> holes;
  EXPECT_TRUE(map.take_pieces(kPage, holes).empty());
  EXPECT_TRUE(map.release(0, 3 * kPage));
  EXPECT_TRUE(map.release(4 * kPage, 5 * kPage));
  EXPECT_TRUE(map.release(10 * kPage, 2 * kPage));
  EXPECT_TRUE(map.release(13 * kPage, 7 * kPage));
  EXPECT_TRUE(map.take_pieces(18 * kPage, holes).empty());
  EXPECT_EQ(map.used(), 3 * kPage) << "what was not enough is not taken";
  holes.insert(14 * kPage, 16 * kPage);  // of the largest run one page before and four behind are left
  EXPECT_TRUE(map.take_pieces(16 * kPage, holes).empty());
  const std::vector<FileRun> pieces = map.take_pieces(11 * kPage, holes);
  EXPECT_EQ(pieces, (std::vector<FileRun>{{4 * kPage, 5 * kPage}, {16 * kPage, 4 * kPage}, {0, 2 * kPage}}));
  EXPECT_EQ(map.used(), 14 * kPage);
  EXPECT_EQ(map.free_runs(), (std::map<std::int64_t, Bytes>{{2 * kPage, kPage}, {10 * kPage, 2 * kPage}, {13 * kPage, 3 * kPage}}));
  for (const FileRun& piece : pieces) EXPECT_TRUE(map.release(piece.offset, piece.bytes));
  EXPECT_EQ(map.used(), 3 * kPage);
}

TEST(SlotMap, TailGrowsAndShrinks) {
  SlotMap map;
  EXPECT_EQ(map.missing_at_end(3 * kPage), 3 * kPage);
  map.grow(4 * kPage);
  const auto first = map.take(3 * kPage);
  EXPECT_EQ(map.missing_at_end(5 * kPage), 4 * kPage);
  EXPECT_EQ(map.free_tail(), std::pair(3 * kPage, kPage));
  map.shrink(2 * kPage);  // in use: refused
  EXPECT_EQ(map.end(), 4 * kPage);
  map.shrink(3 * kPage);
  EXPECT_EQ(map.end(), 3 * kPage);
  EXPECT_EQ(map.free_tail(), std::pair(3 * kPage, Bytes{0}));
  EXPECT_TRUE(map.release(first, 3 * kPage));
  map.shrink(0);
  EXPECT_EQ(map.end(), 0);
  EXPECT_TRUE(map.free_runs().empty());
}

TEST(SlotMap, SlotsSeenByALivingChildStayAsTheyAre) {
  SlotMap map;
  map.grow(4 * kPage);
  const auto old = map.take(kPage);
  map.fork(0);
  const auto young = map.take(kPage);
  map.fork(1);
  EXPECT_TRUE(map.release(old, kPage));    // seen by 0 and 1
  EXPECT_TRUE(map.release(young, kPage));  // seen by 1 only
  EXPECT_EQ(map.used(), 0);
  EXPECT_EQ(map.quarantined(), 2 * kPage);
  EXPECT_EQ(map.take(kPage), 2 * kPage);
  map.child_gone(1);
  EXPECT_EQ(map.quarantined(), kPage);
  EXPECT_EQ(map.take(kPage), young);
  EXPECT_TRUE(map.release(young, kPage));  // taken after both forks: free at once
  EXPECT_EQ(map.quarantined(), kPage);
  map.child_gone(0);
  EXPECT_EQ(map.quarantined(), 0);
  EXPECT_EQ(map.take(2 * kPage), old);
}

// Against a page-by-page model: nothing overlaps, nothing is lost, neighbours are merged.
TEST(SlotMap, AgreesWithAPageModel) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  SlotMap map;
  std::vector<char> taken;  // a page: 0 free, 1 taken, 2 quarantined
  struct Slot {
    std::int64_t offset;
    Bytes pages;
    std::uint64_t born;
  };
  struct Kept {
    Slot slot;
    std::uint64_t died;
  };
  std::vector<Slot> slots;
  std::vector<Kept> kept;
  std::vector<std::uint64_t> children;
  std::uint64_t forks = 0;
  const auto fill = [&](const Slot& slot, char value) {
    for (Bytes page = 0; page < slot.pages; ++page) taken[static_cast<std::size_t>(slot.offset / kPage + page)] = value;
  };
  const auto seen = [&](std::uint64_t born, std::uint64_t died) {
    for (const std::uint64_t child : children) {
      if (child >= born && child < died) return true;
    }
    return false;
  };
  for (int i = 0; i < 4000; ++i) {
    switch (random() % 12) {
      case 0:
        map.fork(forks);
        children.push_back(forks++);
        break;
      case 1:
        if (!children.empty()) {
          const auto index = random() % children.size();
          const std::uint64_t child = children[index];
          children.erase(children.begin() + static_cast<std::ptrdiff_t>(index));
          map.child_gone(child);
          std::erase_if(kept, [&](const Kept& one) {
            if (seen(one.slot.born, one.died)) return false;
            fill(one.slot, 0);
            return true;
          });
        }
        break;
      case 2: case 3: case 4: case 5: case 6: {
        const Bytes pages = 1 + static_cast<Bytes>(random() % 9);
        std::int64_t offset = map.take(pages * kPage);
        if (offset < 0 && random() % 2 == 0) {
          for (const FileRun& run : map.take_pieces(pages * kPage, {})) {
            slots.push_back({run.offset, run.bytes / kPage, forks});
            for (Bytes page = 0; page < run.bytes / kPage; ++page) {
              ASSERT_EQ(taken[static_cast<std::size_t>(run.offset / kPage + page)], 0) << "handed out twice";
            }
            fill(slots.back(), 1);
          }
          break;
        }
        if (offset < 0) {
          const Bytes missing = map.missing_at_end(pages * kPage);
          map.grow(missing);
          taken.resize(taken.size() + static_cast<std::size_t>(missing / kPage));
          offset = map.take(pages * kPage);
        }
        ASSERT_GE(offset, 0);
        const Slot slot{offset, pages, forks};
        for (Bytes page = 0; page < pages; ++page) {
          ASSERT_EQ(taken[static_cast<std::size_t>(offset / kPage + page)], 0) << "handed out twice";
        }
        fill(slot, 1);
        slots.push_back(slot);
        break;
      }
      default:
        if (!slots.empty()) {
          const auto index = random() % slots.size();
          const Slot slot = slots[index];
          slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(index));
          ASSERT_TRUE(map.release(slot.offset, slot.pages * kPage));
          const bool keep = seen(slot.born, forks);
          fill(slot, keep ? 2 : 0);
          if (keep) kept.push_back({slot, forks});
        }
    }
    Bytes used = 0, quarantined = 0, free = 0;
    for (const char page : taken) (page == 0 ? free : page == 1 ? used : quarantined) += kPage;
    ASSERT_EQ(map.used(), used);
    ASSERT_EQ(map.quarantined(), quarantined);
    Bytes in_runs = 0;
    std::int64_t last_end = -1;
    for (const auto& [offset, bytes] : map.free_runs()) {
      ASSERT_GT(offset, last_end) << "neighbours not merged";
      last_end = offset + bytes;
      in_runs += bytes;
    }
    ASSERT_EQ(in_runs, free);
  }
}

}  // namespace
}  // namespace outsize::host
