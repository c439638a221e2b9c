// The pool over pages that are only counted: every move is checked, and some fail.
#include "platforms/host/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "platforms/host/page_choice_rig.h"
#include "platforms/host/page_pool_rig.h"

namespace outsize::host {
namespace {

constexpr Bytes kLimit = 20 * kChunkBytes;

// What the runtime does with the pool, at random: births, deaths, evictions and fetches.
class Play {
 public:
  explicit Play(std::uint64_t seed) : dice_(seed) {
    pool_.set_limit(kLimit + (seed % 3 == 0 ? kPageBytes / 2 : 0));
    if (seed % 2 == 0) mover_.moves = PageMover::Kind::kSignal;
  }

  void run(int actions, int fail_every) {
    for (int i = 0; i < actions && !testing::Test::HasFailure(); ++i) {
      mover_.fail_every = fail_every;
      switch (dice_() % 4) {
        case 0: birth(); break;
        case 1: death(); break;
        case 2: evict(); break;
        default: fetch(); break;
      }
      mover_.fail_every = 0;
      if (dice_() % 16 == 0) trim();
      check();
    }
  }
  void end() {
    while (!resident_.empty() || !absent_.empty()) death();
    pool_.trim(0);
    EXPECT_EQ(mover_.present(), 0);
    EXPECT_EQ(pool_.present(), 0);
    EXPECT_EQ(space_.used(), 0);
  }
  void keep_small() {
    mover_.may_split = true;
    choose_small(choice_);
  }
  // A trial begins, or goes on.
  void change_sides() {
    mover_.may_split = true;
    const bool before = choice_.small();
    for (int i = 0; i < 10'000 && choice_.small() == before; ++i) {
      TestClock::run(100 * kMilli);
      choice_.remade(10 * kMilli);
      pool_.look(++ops_, 0);
    }
    EXPECT_NE(choice_.small(), before);
    EXPECT_EQ(mover_.whole, before);
    check();
  }
  int births = 0, refusals = 0, fetches = 0;

 private:
  Bytes size() {
    const Bytes whole = static_cast<Bytes>(dice_() % 5) * kChunkBytes;
    const Bytes rest = dice_() % 2 == 0 ? 0 : static_cast<Bytes>(1 + dice_() % (kChunkBytes / kPageBytes - 1)) * kPageBytes;
    return std::max(whole + rest, kPageBytes);
  }
  Bytes taken() const {
    Bytes bytes = 0;
    for (const PageRange& range : resident_) bytes += range.bytes;
    return bytes;
  }
  PageRange draw(std::vector<PageRange>& from) {
    const auto at = from.begin() + static_cast<std::ptrdiff_t>(dice_() % from.size());
    const PageRange range = *at;
    from.erase(at);
    return range;
  }
  void birth() {
    const Bytes bytes = size();
    if (taken() + bytes > kLimit) return;
    if (auto range = pool_.take(bytes)) {
      EXPECT_EQ(range->bytes, bytes);
      EXPECT_TRUE(mover_.all(range->address, bytes, 1));
      resident_.push_back(*range);
      ++births;
    } else {
      ++refusals;
    }
  }
  void death() {
    if (!resident_.empty() && (absent_.empty() || dice_() % 2 == 0)) return pool_.put(draw(resident_));
    if (!absent_.empty()) pool_.give_back(draw(absent_));
  }
  void evict() {
    if (resident_.empty() || space_.used() > 200 * kChunkBytes) return;
    const PageRange range = draw(resident_);
    const auto to = space_.take(range.bytes);
    mover_.fail_every = 0;
    ASSERT_TRUE(to && mover_.move_out(range.address, to->address, range.bytes).ok());
    pool_.put(*to);
    absent_.push_back(range);
  }
  void fetch() {
    if (absent_.empty()) return;
    const PageRange range = draw(absent_);
    auto staging = taken() + range.bytes <= kLimit ? pool_.take(range.bytes) : Result<PageRange>(Error{});
    if (!staging) return absent_.push_back(range);
    mover_.fail_every = 0;
    ASSERT_TRUE(mover_.move_in(staging->address, range.address, range.bytes, false).ok());
    pool_.give_back(*staging);
    resident_.push_back(range);
    ++fetches;
  }
  void trim() {
    const Bytes keep = static_cast<Bytes>(dice_() % static_cast<std::uint64_t>(kLimit)), before = pool_.bytes();
    pool_.trim(keep);
    EXPECT_LE(pool_.bytes(), keep);
    EXPECT_GT(pool_.bytes(), std::min(keep, before) - kChunkBytes) << "no more than has to";
  }
  void check() {
    EXPECT_EQ(pool_.present(), mover_.present());
    EXPECT_EQ(pool_.present(), pool_.bytes() + taken());
    EXPECT_LE(pool_.present(), kLimit);
    for (const PageRange& range : resident_) EXPECT_TRUE(mover_.all(range.address, range.bytes, 1));
    for (const PageRange& range : absent_) EXPECT_TRUE(mover_.all(range.address, range.bytes, 0));
  }

  std::mt19937_64 dice_;
  CountingMover mover_;
  AddressSpace space_{mover_.base(), kChunks};
  PageChoice choice_{true, TestClock::now, TestClock::busy};
  PagePool pool_{space_, mover_, choice_};
  std::vector<PageRange> resident_, absent_;
  std::int64_t ops_ = 0;
};

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t kSeeds = 4;  // one thread plays: nothing to see that is not seen elsewhere
#else
constexpr std::uint64_t kSeeds = 20;
#endif

TEST(PagePool, CountsEveryPageAndKeepsItsLimit) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Play play(seed);
    play.run(600, 0);
    play.end();
    EXPECT_GT(play.births, 100);
    EXPECT_GT(play.fetches, 20);
    EXPECT_EQ(play.refusals, 0);
  }
}

class PoolBelowAChunk : public testing::Test {
 protected:
  PoolBelowAChunk() { mover_.moves = PageMover::Kind::kSignal; }  // fresh ones come by themselves
  PageRange take(Bytes bytes) {
    auto range = pool_.take(bytes);
    EXPECT_TRUE(range.ok());
    EXPECT_TRUE(mover_.all(range->address, bytes, 1));
    return *range;
  }
  Bytes moved() { return std::exchange(mover_.moved, 0); }

  CountingMover mover_;
  AddressSpace space_{mover_.base(), kChunks};
  PageChoice choice_{true, TestClock::now, TestClock::busy};
  PagePool pool_{space_, mover_, choice_};
};

TEST_F(PoolBelowAChunk, WhatIsSmallerTakesTheBeginningAsItLies) {
  const PageRange large = take(1024 * kKiB);
  pool_.put(large);
  const PageRange small = take(256 * kKiB);
  EXPECT_EQ(small.address, large.address);
  EXPECT_EQ(pool_.bytes(), 768 * kKiB);
  pool_.put(small);
  EXPECT_EQ(take(1024 * kKiB).address, large.address) << "whole again";
  EXPECT_EQ(moved(), 0);
  EXPECT_EQ(pool_.present(), 1024 * kKiB);
}

TEST_F(PoolBelowAChunk, ToWhatIsSmallerComesWhatIsMissing) {
  const PageRange other = take(1024 * kKiB), small = take(512 * kKiB);
  pool_.put(other);
  const PageRange begin = take(768 * kKiB);  // leaves 256 KiB behind it
  pool_.put(small);
  const PageRange grown = take(768 * kKiB);
  EXPECT_EQ(grown.address, small.address);
  EXPECT_EQ(moved(), 256 * kKiB);
  EXPECT_EQ(pool_.bytes(), 0);
  EXPECT_EQ(pool_.present(), 1536 * kKiB) << "nothing fresh";
  pool_.put(begin);
  pool_.put(grown);
}

TEST_F(PoolBelowAChunk, WhatIsLeftBehindOutlivesItsOwnersAddresses) {
  const PageRange large = take(1024 * kKiB);
  pool_.put(large);
  const PageRange small = take(256 * kKiB);
  ASSERT_TRUE(mover_.discard(small.address, small.bytes).ok());  // it leaves
  pool_.add_present(-small.bytes);
  pool_.give_back(small);
  EXPECT_EQ(space_.used(), kChunkBytes);
  const PageRange next = take(768 * kKiB);  // takes what was left
  EXPECT_EQ(moved(), 768 * kKiB);
  EXPECT_EQ(space_.used(), kChunkBytes) << "of the first nothing is kept any more";
  pool_.put(next);
  pool_.trim(0);
  EXPECT_EQ(space_.used(), 0);
}

TEST_F(PoolBelowAChunk, AHugePageIsNotSharedWithAnOwner) {
  pool_.put(take(3 * kChunkBytes));
  const PageRange fresh = take(256 * kKiB);
  EXPECT_EQ(pool_.bytes(), 3 * kChunkBytes);
  pool_.set_limit(pool_.present());
  const PageRange broken = take(256 * kKiB);
  EXPECT_EQ(pool_.present(), 3 * kChunkBytes + 256 * kKiB);
  EXPECT_EQ(moved(), 256 * kKiB) << "out of the last of the three";
  pool_.put(broken);
  pool_.put(take(2 * kChunkBytes));
  EXPECT_EQ(moved(), 0) << "the other two are whole";
  pool_.put(fresh);
}

TEST_F(PoolBelowAChunk, OnePlaceIsBetterThanMany) {
  std::vector<PageRange> owners;
  for (int i = 0; i < 3; ++i) owners.push_back(take(1024 * kKiB + i * kPageBytes));
  for (; !owners.empty(); owners.pop_back()) pool_.put(owners.back());
  for (int i = 0; i < 3; ++i) owners.push_back(take(1000 * kKiB));  // small pieces stay behind each
  const PageRange one = take(512 * kKiB);
  pool_.put(one);
  EXPECT_EQ(moved(), 24 * kKiB + 28 * kKiB + 32 * kKiB) << "they are used where nothing else is there";
  owners.push_back(take(1536 * kKiB));
  EXPECT_EQ(owners.back().address, one.address) << "grown";
  for (const PageRange& owner : owners) pool_.put(owner);
}

TEST_F(PoolBelowAChunk, FreshPagesAreOfAHugeOneWhereThereIsRoom) {
  mover_.moves = PageMover::Kind::kUserfaultfdMove;
  pool_.set_limit(kChunkBytes + 512 * kKiB);
  const PageRange first = take(256 * kKiB);
  EXPECT_EQ(moved(), 256 * kKiB);
  EXPECT_EQ(pool_.bytes(), kChunkBytes - 256 * kKiB) << "the rest is the pool's";
  const PageRange second = take(512 * kKiB);
  EXPECT_EQ(moved(), 0) << "as it lies";
  EXPECT_EQ(pool_.made(), kChunkBytes);
  const PageRange third = take(1536 * kKiB);  // 1280 KiB were left
  EXPECT_EQ(pool_.made(), kChunkBytes + 256 * kKiB) << "no room for a second one";
  EXPECT_EQ(pool_.present_peak(), pool_.made());
  for (const PageRange& range : {first, second, third}) pool_.put(range);
  pool_.trim(0);
  EXPECT_EQ(space_.used(), 0);
}

TEST_F(PoolBelowAChunk, AChunksRoomSuffices) {
  mover_.moves = PageMover::Kind::kUserfaultfdMove;
  pool_.set_limit(kChunkBytes);
  pool_.put(take(256 * kKiB));
  EXPECT_EQ(pool_.made(), kChunkBytes);
  EXPECT_EQ(pool_.bytes(), kChunkBytes);
}

TEST_F(PoolBelowAChunk, WhereNoChunkIsToBeHadPagesComeByThemselves) {
  mover_.moves = PageMover::Kind::kUserfaultfdMove;
  mover_.no_chunks = true;
  const PageRange small = take(256 * kKiB);
  EXPECT_EQ(pool_.made(), 256 * kKiB);
  EXPECT_EQ(space_.used(), kChunkBytes) << "one for it, none for a chunk";
  pool_.put(small);
}

TEST_F(PoolBelowAChunk, AWarmChunkIsSplitRatherThanSinglePagesMade) {
  mover_.moves = PageMover::Kind::kUserfaultfdMove;
  pool_.set_limit(2 * kChunkBytes + 1024 * kKiB);
  pool_.put(take(2 * kChunkBytes));
  const PageRange part = take(256 * kKiB);
  EXPECT_EQ(pool_.made(), 2 * kChunkBytes);
  pool_.put(part);
}

TEST_F(PoolBelowAChunk, TrimTakesWhatWasLeftBehindToo) {
  pool_.put(take(1024 * kKiB));
  const PageRange owner = take(256 * kKiB);
  pool_.trim(0);
  EXPECT_EQ(pool_.bytes(), 0);
  EXPECT_EQ(pool_.present(), 256 * kKiB);
  EXPECT_EQ(mover_.present(), 256 * kKiB);
  pool_.put(owner);
  EXPECT_EQ(take(256 * kKiB).address, owner.address);
  EXPECT_EQ(space_.used(), kChunkBytes);
}

TEST_F(PoolBelowAChunk, NoMoreMakesWayThanHasTo) {
  pool_.set_limit(kChunkBytes + 1024 * kKiB);
  pool_.put(take(1536 * kKiB));
  const PageRange chunk = take(kChunkBytes);
  EXPECT_EQ(pool_.present(), kChunkBytes + 1024 * kKiB) << "the budget is full: no single page has to be made for it";
  EXPECT_EQ(pool_.bytes(), 1024 * kKiB);
  const PageRange owner = take(256 * kKiB);  // 768 KiB are left behind it
  pool_.trim(512 * kKiB);
  EXPECT_EQ(pool_.bytes(), 512 * kKiB);
  EXPECT_EQ(mover_.present(), pool_.present());
  pool_.put(owner);
  EXPECT_EQ(take(768 * kKiB).address, owner.address) << "what stayed lies behind its owner";
  pool_.put(chunk);
  pool_.trim(0);
  EXPECT_EQ(pool_.present(), 768 * kKiB);
}

TEST_F(PoolBelowAChunk, PagesMakeWayWhole) {
  pool_.set_limit(kChunkBytes + 1024 * kKiB + 1);  // a share of something
  pool_.put(take(1536 * kKiB));
  const PageRange chunk = take(kChunkBytes);
  EXPECT_EQ(pool_.bytes(), 1024 * kKiB);
  const PageRange owner = take(256 * kKiB);
  pool_.trim(512 * kKiB - 1);
  EXPECT_EQ(pool_.bytes(), 508 * kKiB);
  pool_.put(owner);
  pool_.put(chunk);
  pool_.trim(0);
  EXPECT_EQ(pool_.present(), 0);
  EXPECT_EQ(space_.used(), 0);
}

TEST_F(PoolBelowAChunk, WhatWasBegunMakesWayFirst) {
  std::vector<PageRange> owners;
  for (int i = 0; i < 3; ++i) owners.push_back(take(1024 * kKiB));
  for (; !owners.empty(); owners.pop_back()) pool_.put(owners.back());
  pool_.trim(2816 * kKiB);
  pool_.trim(2560 * kKiB);
  for (int i = 0; i < 2; ++i) owners.push_back(take(1024 * kKiB));
  EXPECT_EQ(moved(), 0) << "two are as they were";
  EXPECT_EQ(pool_.made(), 3 * 1024 * kKiB);
  for (const PageRange& owner : owners) pool_.put(owner);
}

// The addresses behind it live until the last of them has gone.
TEST_F(PoolBelowAChunk, WhatANobodyLeftBehindMakesWayInParts) {
  pool_.put(take(1024 * kKiB));
  const PageRange owner = take(256 * kKiB);
  ASSERT_TRUE(mover_.move_out(owner.address, mover_.base() + (kChunks - 1) * kChunkBytes, owner.bytes));
  pool_.give_back(owner);
  pool_.trim(256 * kKiB);
  EXPECT_EQ(pool_.bytes(), 256 * kKiB);
  EXPECT_EQ(space_.used(), kChunkBytes);
  pool_.trim(0);
  EXPECT_EQ(space_.used(), 0);
}

TEST_F(PoolBelowAChunk, HugePagesMakeWayWhole) {
  pool_.put(take(3 * kChunkBytes + 1024 * kKiB));
  pool_.trim(3 * kChunkBytes + 512 * kKiB);
  EXPECT_EQ(pool_.bytes(), 3 * kChunkBytes + 512 * kKiB);
  pool_.trim(2 * kChunkBytes + kPageBytes);
  EXPECT_EQ(pool_.bytes(), 2 * kChunkBytes);
  EXPECT_EQ(space_.used(), 2 * kChunkBytes);
  pool_.trim(0);
  EXPECT_EQ(space_.used(), 0);
}

// Turn and turn about a whole chunk and the same in small pieces: each time the chunk has to be made anew.
class PoolOfTwoMinds : public PoolBelowAChunk {
 protected:
  PoolOfTwoMinds() {
    mover_.moves = PageMover::Kind::kUserfaultfdMove;  // others have no choice
    pool_.set_limit(kChunkBytes);
  }
  void turns(int count, Nanos each) {
    for (int i = 0; i < count; ++i) {
      TestClock::run(each);
      pool_.look(++ops_, 0);
      pool_.put(take(kChunkBytes));
      const PageRange first = take(768 * kKiB), rest = take(1280 * kKiB);
      pool_.put(first);
      pool_.put(rest);
      EXPECT_EQ(pool_.present(), kChunkBytes);
    }
  }
  // Whether small pages were tried.
  bool tries(int count, Nanos each) {
    for (int i = 0; i < count && !choice_.small(); ++i) turns(1, each);
    return choice_.small();
  }
  std::int64_t ops_ = 0;
};

TEST_F(PoolOfTwoMinds, HugePagesAreMadeAnewWhereThatCostsLittle) {
  mover_.populate_takes = kMilli / 5;
  EXPECT_FALSE(tries(2000, 20 * kMilli));
  EXPECT_EQ(pool_.made(), 2000 * kChunkBytes);
}

TEST_F(PoolOfTwoMinds, WhereItCostsMoreSmallOnesAreTried) {
  mover_.populate_takes = kMilli;
  mover_.may_split = true;
  EXPECT_TRUE(tries(3000, 20 * kMilli));
}

TEST_F(PoolOfTwoMinds, NoneAreMadeAnewOnceSmallOnesAreChosen) {
  choose_small(choice_);
  mover_.may_split = true;
  const Bytes made = pool_.made();
  turns(100, 20 * kMilli);
  EXPECT_EQ(pool_.made() - made, kChunkBytes) << "the first, for there was none";
  EXPECT_EQ(pool_.present_peak(), kChunkBytes) << "the limit holds";
}

TEST_F(PoolOfTwoMinds, HugePagesComeAnewWhereTheyAreChosenAgain) {
  mover_.moves = PageMover::Kind::kSignal;  // a part is no more than that
  pool_.set_limit(8 * kChunkBytes);
  choose_small(choice_);
  const PageRange here = take(3 * kChunkBytes), pooled = take(2 * kChunkBytes), part = take(768 * kKiB);
  pool_.put(pooled);
  pool_.put(part);
  pool_.forget_choice();
  EXPECT_TRUE(mover_.whole);
  EXPECT_EQ(pool_.bytes(), 768 * kKiB) << "what is whole may be of small pages; the part is anyhow";
  pool_.put(here);
  EXPECT_EQ(pool_.bytes(), 768 * kKiB);
  EXPECT_EQ(pool_.present(), 768 * kKiB);
  const Bytes made = pool_.made();
  for (int i = 0; i < 10; ++i) pool_.put(take(kChunkBytes));
  EXPECT_EQ(pool_.made() - made, 2 * kChunkBytes) << "of what was there a part is left to renew, and then none";
}

TEST_F(PoolOfTwoMinds, OnlyWhatTakesTheirPlaceIsCharged) {
  mover_.moves = PageMover::Kind::kSignal;  // a page is no more than that
  pool_.trim(0);
  pool_.set_limit(8 * kChunkBytes);
  for (int i = 0; i < 100; ++i) {
    const PageRange warm = take(kPageBytes);
    pool_.put(warm);
    mover_.populate_takes = 800 * kMilli;
    const PageRange most = take(8 * kChunkBytes);  // of which one page is too much
    mover_.populate_takes = 0;
    pool_.put(most);
    pool_.trim(0);
    TestClock::run(1000 * kMilli);
    pool_.look(++ops_, 0);
    EXPECT_FALSE(choice_.small());
  }
}

TEST(PagePool, CountsEveryPageWhereSmallOnesAreKept) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const int fail_every : {0, 3}) {
      Play play(seed);
      play.keep_small();
      play.run(600, fail_every);
      play.end();
      EXPECT_GT(play.births, 50);
      EXPECT_EQ(play.refusals > 0, fail_every > 0);
    }
  }
}

TEST(PagePool, CountsEveryPageWhileSidesChange) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const int fail_every : {0, 3}) {
      Play play(seed);
      for (int change = 0; change < 8; ++change) {
        play.run(100, fail_every);
        play.change_sides();
      }
      play.end();
      EXPECT_GT(play.births, 50);
    }
  }
}

TEST(PagePool, AFailedFillLosesNoPageAndNoAddress) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Play play(seed);
    play.run(600, 3);
    play.end();
    EXPECT_GT(play.refusals, 5);
  }
}

}  // namespace
}  // namespace outsize::host
