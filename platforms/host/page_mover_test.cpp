// Every state transition, on every mechanism that this machine has.
#include "platforms/host/page_mover.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "platforms/host/page_mover_internal.h"
#include "platforms/host/page_mover_rig.h"

namespace outsize::host {
namespace {

using namespace std::chrono_literals;

class PageMoverTest : public testing::TestWithParam<Mechanism> {
 protected:
  void SetUp() override {
    rig_ = std::make_unique<MoverRig>(GetParam());
    if (!rig_->available()) GTEST_SKIP() << rig_->why_not();
  }
  PageMover& mover() { return rig_->mover(); }
  char* at(Bytes offset) { return rig_->at(offset); }
  std::unique_ptr<MoverRig> rig_;
};

INSTANTIATE_TEST_SUITE_P(, PageMoverTest, testing::ValuesIn(kAllMechanisms),
                         [](const auto& info) { return mechanism_name(info.param); });

constexpr Bytes kPage = kPageBytes;
constexpr Bytes kChunk = kChunkBytes;

TEST_P(PageMoverTest, NamesItself) {
  const std::string name = mover().name();
  switch (GetParam()) {
    case Mechanism::kUffdMove: EXPECT_EQ(name, "userfaultfd+move"); break;
    case Mechanism::kUffdCopy: EXPECT_EQ(name, "userfaultfd+copy"); break;
    default: EXPECT_EQ(name, "signal");
  }
}

TEST_P(PageMoverTest, ArenaStartsWithoutPages) {
  EXPECT_EQ(MoverRig::resident(at(0), MoverRig::kArena), 0);
}

TEST_P(PageMoverTest, PopulateMakesExactlyTheZeroPagesAskedFor) {
  // Starts and ends inside a chunk, with whole chunks and more than one staging area between.
  const Bytes begin = 3 * kChunk - 5 * kPage;
  const Bytes bytes = 5 * kPage + 7 * kChunk + 11 * kPage;
  ASSERT_DONE(mover().populate(at(begin), bytes));
  EXPECT_EQ(MoverRig::resident(at(0), MoverRig::kArena), bytes);
  for (Bytes i = 0; i < bytes; i += 512) ASSERT_EQ(at(begin)[i], 0) << i;
  fill_pattern(at(begin), bytes, 1);
  EXPECT_EQ(first_difference(at(begin), bytes, 1), -1);
  EXPECT_EQ(MoverRig::resident(at(0), MoverRig::kArena), bytes);
}

TEST_P(PageMoverTest, PopulateOfManySmallTailsHoldsOnlyThem) {
  for (Bytes chunk = 0; chunk < 8; ++chunk) ASSERT_DONE(mover().populate(at(chunk * kChunk), 3 * kPage));
  EXPECT_EQ(MoverRig::resident(at(0), MoverRig::kArena), 8 * 3 * kPage);
  // The rest of a chunk may come later.
  ASSERT_DONE(mover().populate(at(3 * kPage), kChunk - 3 * kPage));
  fill_pattern(at(0), kChunk, 2);
  EXPECT_EQ(first_difference(at(0), kChunk, 2), -1);
}

TEST_P(PageMoverTest, PagesKeepTheirBytesOutAndIn) {
  for (const Bytes bytes : {kPage, 7 * kPage, kChunk, 5 * kChunk, 2 * kChunk + 3 * kPage}) {
    for (const bool guarded : {false, true}) {
      SCOPED_TRACE(testing::Message() << bytes << (guarded ? " guarded" : ""));
      char* tensor = at(0);
      char* pool = at(16 * kChunk);
      ASSERT_DONE(mover().populate(tensor, bytes));
      fill_pattern(tensor, bytes, 3);
      ASSERT_DONE(mover().discard(tensor, bytes));
      EXPECT_EQ(MoverRig::resident(tensor, bytes), 0);

      ASSERT_DONE(mover().populate(pool, bytes));
      fill_pattern(pool, bytes, 4);
      ASSERT_DONE(mover().move_in(pool, tensor, bytes, guarded));
      EXPECT_EQ(MoverRig::resident(pool, bytes), 0);
      EXPECT_EQ(MoverRig::resident(tensor, bytes), bytes);
      ASSERT_EQ(first_difference(tensor, bytes, 4), -1);

      ASSERT_DONE(mover().move_out(tensor, pool, bytes));
      EXPECT_EQ(MoverRig::resident(tensor, bytes), 0);
      EXPECT_EQ(MoverRig::resident(pool, bytes), bytes);
      fill_pattern(pool, bytes, 5);  // writable, whatever it holds
      ASSERT_EQ(first_difference(pool, bytes, 5), -1);
      ASSERT_DONE(mover().discard(pool, bytes));
    }
  }
}

TEST_P(PageMoverTest, PoolMadeOfPiecesFromManyPlacesMovesAsOne) {
  // Every piece comes from elsewhere, at odd sizes, so the kernel sees many mappings or none alike.
  char* pool = at(8 * kChunk);
  Bytes filled = 0;
  for (int i = 0; i < 9; ++i) {
    const Bytes piece = (3 + 37 * i) * kPage;
    char* from = at((20 - 2 * (i % 5)) * kChunk + (i / 5) * kPage);
    ASSERT_DONE(mover().populate(from, piece));
    ASSERT_DONE(mover().move_out(from, pool + filled, piece));
    filled += piece;
  }
  fill_pattern(pool, filled, 6);
  ASSERT_DONE(mover().move_in(pool, at(0), filled, true));
  EXPECT_EQ(first_difference(at(0), filled, 6), -1);
  ASSERT_DONE(mover().move_out(at(0), pool, filled));
  EXPECT_EQ(MoverRig::resident(at(0), MoverRig::kArena), filled);
}

TEST_P(PageMoverTest, TouchOfClosedPageIsReportedAndSeesTheMovedBytes) {
  char* pool = at(8 * kChunk);
  for (const bool write : {false, true}) {
    ASSERT_DONE(mover().populate(pool, 4 * kPage));
    fill_pattern(pool, 4 * kPage, 7);
    std::atomic<bool> passed{false};
    std::uint64_t seen = 0;
    auto* word = reinterpret_cast<std::uint64_t*>(at(0) + 2 * kPage + 128);
    std::thread toucher([&] {
      if (write) poke(word + 1, 42);
      copy_words(&seen, word, 8);
      passed = true;
    });
    const Fault fault = rig_->next_fault();
    EXPECT_EQ(fault.address, at(2 * kPage));
    EXPECT_EQ(fault.write, write);
    EXPECT_FALSE(passed);
    ASSERT_DONE(mover().move_in(pool, at(0), 4 * kPage, false));
    toucher.join();
    EXPECT_EQ(seen, pattern((2 * kPage + 128) / 8, 7));
    if (write) {
      EXPECT_EQ(peek(word + 1), 42);
    }
    ASSERT_DONE(mover().discard(at(0), 4 * kPage));
  }
}

TEST_P(PageMoverTest, ResumeAloneLetsTheTouchFaultAgain) {
  std::thread toucher([&] { (void)peek(at(0)); });
  EXPECT_EQ(rig_->next_fault().address, at(0));
  EXPECT_TRUE(rig_->no_fault_within(20ms));
  mover().resume(at(0), kChunk);
  EXPECT_EQ(rig_->next_fault().address, at(0));
  ASSERT_DONE(mover().populate(at(0), kPage));
  toucher.join();
}

TEST_P(PageMoverTest, EveryThreadWaitingOnARangeWakes) {
  constexpr int kThreads = 8;
  std::atomic<int> sum{0};
  std::vector<std::thread> touchers;
  for (int i = 0; i < kThreads; ++i) {
    touchers.emplace_back([&, i] { sum += peek(at(i % 3 * kPage)); });
  }
  for (int i = 0; i < kThreads; ++i) rig_->next_fault();
  char* pool = at(8 * kChunk);
  ASSERT_DONE(mover().populate(pool, 3 * kPage));
  for (Bytes i = 0; i < 3; ++i) pool[i * kPage] = 1;
  ASSERT_DONE(mover().move_in(pool, at(0), 3 * kPage, true));
  for (std::thread& toucher : touchers) toucher.join();
  EXPECT_EQ(sum, kThreads);
}

TEST_P(PageMoverTest, GuardReportsWritesAndOnlyWrites) {
  ASSERT_DONE(mover().populate(at(0), 2 * kChunk));
  fill_pattern(at(0), 2 * kChunk, 8);
  ASSERT_DONE(mover().guard(at(0), 2 * kChunk));
  EXPECT_EQ(first_difference(at(0), 2 * kChunk, 8), -1);
  EXPECT_TRUE(rig_->no_fault_within(5ms));

  char* byte = at(kChunk + 5 * kPage + 17);
  const char before = peek(byte);
  std::thread writer([&] { poke(byte, static_cast<char>(before + 1)); });
  const Fault fault = rig_->next_fault();
  EXPECT_EQ(fault.address, at(kChunk + 5 * kPage));
  EXPECT_TRUE(fault.write);
  EXPECT_EQ(peek(byte), before);
  ASSERT_DONE(mover().unguard(at(0), 2 * kChunk));
  writer.join();
  EXPECT_EQ(peek(byte), static_cast<char>(before + 1));
  *at(0) = 1;  // the whole range is plain memory again
  EXPECT_TRUE(rig_->no_fault_within(5ms));
}

TEST_P(PageMoverTest, WriterThatWaitedForAGuardedMoveInIsReportedAgain) {
  char* pool = at(8 * kChunk);
  ASSERT_DONE(mover().populate(pool, kChunk));
  fill_pattern(pool, kChunk, 9);
  char* byte = at(kPage);
  const auto changed = static_cast<char>(peek(pool + kPage) + 1);
  std::thread writer([&] { poke(byte, changed); });
  EXPECT_TRUE(rig_->next_fault().write);
  ASSERT_DONE(mover().move_in(pool, at(0), kChunk, true));
  const Fault fault = rig_->next_fault();
  EXPECT_TRUE(fault.write);
  EXPECT_EQ(fault.address, at(kPage));
  EXPECT_EQ(first_difference(at(0), kChunk, 9), -1) << "the write slipped in";
  ASSERT_DONE(mover().unguard(at(0), kChunk));
  writer.join();
  EXPECT_EQ(peek(byte), changed);
}

TEST_P(PageMoverTest, DiscardOfGuardedRangeCloses) {
  ASSERT_DONE(mover().populate(at(0), kChunk));
  fill_pattern(at(0), kChunk, 10);
  ASSERT_DONE(mover().guard(at(0), kChunk));
  ASSERT_DONE(mover().discard(at(0), kChunk));
  EXPECT_EQ(MoverRig::resident(at(0), kChunk), 0);
  ASSERT_DONE(mover().populate(at(0), kChunk));
  for (Bytes i = 0; i < kChunk; i += 256) ASSERT_EQ(at(0)[i], 0);
  at(0)[5] = 1;  // no guard left over from before
  EXPECT_TRUE(rig_->no_fault_within(5ms));
}

TEST_P(PageMoverTest, AttachedMemoryLivesByTheSameRules) {
  const Bytes bytes = kChunk + 6 * kPage;
  void* memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* tensor = static_cast<char*>(memory);
  fill_pattern(tensor, bytes - kPage, 11);  // the last page was never touched
  ASSERT_DONE(mover().attach(tensor, bytes));
  EXPECT_EQ(first_difference(tensor, bytes - kPage, 11), -1);

  char* pool = at(4 * kChunk);
  ASSERT_DONE(mover().move_out(tensor, pool, bytes));
  fill_pattern(pool, bytes, 12);
  Bytes wrong = 0;
  std::thread reader([&] { wrong = first_difference(tensor, bytes, 12); });
  EXPECT_EQ(rig_->next_fault().address, tensor);
  ASSERT_DONE(mover().move_in(pool, tensor, bytes, true));
  reader.join();
  EXPECT_EQ(wrong, -1);
  rig_->forget_faults();
  std::thread writer([&] { poke(tensor + kPage, 5); });
  EXPECT_EQ(rig_->next_fault().address, tensor + kPage);
  ASSERT_DONE(mover().detach(tensor, bytes));  // takes the guard off
  writer.join();
  EXPECT_EQ(tensor[kPage], 5);
  EXPECT_FALSE(mover().detach(tensor, bytes).ok()) << "detached twice";

  ASSERT_DONE(mover().attach(tensor, bytes));
  ASSERT_DONE(mover().discard(tensor, bytes));
  ASSERT_DONE(mover().detach(tensor, bytes));
  for (Bytes i = 0; i < bytes; i += 64) ASSERT_EQ(tensor[i], 0);
  munmap(memory, static_cast<std::size_t>(bytes));
}

TEST_P(PageMoverTest, AttachedPartOfTheHeapMoves) {
  std::vector<char> heap(static_cast<std::size_t>(kChunk));
  const auto start = reinterpret_cast<std::uintptr_t>(heap.data());
  auto* tensor = reinterpret_cast<char*>((start + kPage - 1) / kPage * kPage);
  const Bytes bytes = 40 * kPage;
  ASSERT_DONE(mover().attach(tensor, bytes));
  fill_pattern(tensor, bytes, 13);
  ASSERT_DONE(mover().move_out(tensor, at(0), bytes));
  fill_pattern(at(0), bytes, 14);
  ASSERT_DONE(mover().move_in(at(0), tensor, bytes, false));
  EXPECT_EQ(first_difference(tensor, bytes, 14), -1);
  ASSERT_DONE(mover().detach(tensor, bytes));
}

TEST_P(PageMoverTest, OddRangesAreRefused) {
  EXPECT_EQ(mover().populate(at(1), kPage).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(mover().populate(at(0), kPage + 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(mover().discard(at(0), 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(mover().move_in(at(8), at(kPage), kPage, false).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(mover().move_out(at(0), at(kPage + 8), kPage).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(mover().guard(at(3), kPage).ok());
  EXPECT_FALSE(mover().unguard(at(3), kPage).ok());
  EXPECT_FALSE(mover().attach(at(3), kPage).ok());
}

// Of the mapping that `address` is in.
Bytes huge_bytes(const void* address) {
  std::ifstream file("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    unsigned long long begin = 0, end = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      inside = address_of(address) >= begin && address_of(address) < end;
    } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %llu", &kib) == 1) {
      return static_cast<Bytes>(kib) * kKiB;
    }
  }
  return -1;
}

// Whether this kernel makes a huge page where a small one was given back.
bool tables_go() {
  void* const two = mmap(nullptr, static_cast<std::size_t>(2 * kChunk), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (two == MAP_FAILED) return false;
  char* const chunk = static_cast<char*>(two) + (kChunk - static_cast<Bytes>(address_of(two)) % kChunk) % kChunk;
  const auto bytes = static_cast<std::size_t>(kChunk);
  (void)madvise(chunk, bytes, MADV_NOHUGEPAGE);
  touch_pages(chunk, kPage);
  (void)madvise(chunk, bytes, MADV_DONTNEED);
  (void)madvise(chunk, bytes, MADV_HUGEPAGE);
  touch_pages(chunk, kPage);
  const bool huge = huge_bytes(chunk) == kChunk;
  munmap(two, static_cast<std::size_t>(2 * kChunk));
  return huge;
}

// Where pages have been moved one by one a table of them stays behind: huge ones that come there would be split, and
// split where they come from as well.
TEST(PageMover, HugePagesStayWholeWhereSmallOnesWere) {
  MoverRig rig(Mechanism::kUffdMove);  // only there do huge pages move
  if (!rig.available()) GTEST_SKIP() << rig.why_not();
  if (!tables_go()) GTEST_SKIP() << "this kernel gives no huge pages, or keeps tables of small ones (before 6.14, or built so)";
  PageMover& mover = rig.mover();
  // The staging area has had small ones.
  ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
  const Status small = mover.populate(rig.at(8 * kChunk), kChunk);
  ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
  ASSERT_DONE(small);
  ASSERT_DONE(mover.discard(rig.at(8 * kChunk), kChunk));
  for (const Bytes chunk : {0, 1, 2}) {
    ASSERT_DONE(mover.populate(rig.at(chunk * kChunk), kChunk / 2));
    ASSERT_DONE(mover.move_out(rig.at(chunk * kChunk), rig.at((chunk + 4) * kChunk), kChunk / 2));
  }
  ASSERT_DONE(mover.populate(rig.at(0), kChunk));
  ASSERT_DONE(mover.populate(rig.at(8 * kChunk), kChunk));
  EXPECT_EQ(huge_bytes(rig.at(0)), 2 * kChunk);
  mover.keep_whole(true);
  fill_pattern(rig.at(8 * kChunk), kChunk, 5);
  ASSERT_DONE(mover.move_out(rig.at(8 * kChunk), rig.at(kChunk), kChunk));
  ASSERT_DONE(mover.move_in(rig.at(kChunk), rig.at(2 * kChunk), kChunk, false));
  EXPECT_EQ(huge_bytes(rig.at(0)), 2 * kChunk);
  EXPECT_EQ(first_difference(rig.at(2 * kChunk), kChunk, 5), -1);
  // Two ranges mixed up are told of, and lose nothing.
  fill_pattern(rig.at(0), kChunk, 6);
  EXPECT_FALSE(mover.move_in(rig.at(0), rig.at(2 * kChunk), kChunk, false).ok());
  EXPECT_EQ(first_difference(rig.at(0), kChunk, 6), -1);
  EXPECT_EQ(first_difference(rig.at(2 * kChunk), kChunk, 5), -1);
}

// Of this many pages from `address` on the frames; empty where the system does not tell.
std::vector<std::uint64_t> frames(const void* address, std::size_t pages) {
  std::vector<std::uint64_t> all(pages);
  const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const auto bytes = static_cast<ssize_t>(pages * sizeof all[0]);
  const ssize_t got = pread(file, all.data(), pages * sizeof all[0], static_cast<off_t>(address_of(address) / kPageBytes * sizeof all[0]));
  close(file);
  for (std::uint64_t& frame : all) frame &= (std::uint64_t{1} << 55) - 1;
  const bool told = got == bytes && std::none_of(all.begin(), all.end(), [](std::uint64_t frame) { return frame == 0; });
  return told ? all : std::vector<std::uint64_t>();
}

TEST(PageMover, PartsOfAHugePageStillLieTogether) {
  MoverRig rig(Mechanism::kUffdMove);
  if (!rig.available()) GTEST_SKIP() << rig.why_not();
  PageMover& mover = rig.mover();
  ASSERT_DONE(mover.populate(rig.at(0), kChunk));
  constexpr std::size_t kPart = kChunk / 4 / kPageBytes;
  if (huge_bytes(rig.at(0)) != kChunk) GTEST_SKIP() << "this kernel gives no huge pages now";
  const std::vector<std::uint64_t> before = frames(rig.at(3 * kChunk / 4), kPart), staying = frames(rig.at(0), kPart);
  if (before.empty()) GTEST_SKIP() << "only root is told where pages lie";
  mover.before_split(rig.at(0));
  ASSERT_DONE(mover.move_in(rig.at(3 * kChunk / 4), rig.at(kChunk), kChunk / 4, false));
  touch_pages(rig.at(kChunk), kChunk / 4);
  touch_pages(rig.at(0), kChunk / 4);
  EXPECT_EQ(frames(rig.at(kChunk), kPart), before);
  EXPECT_EQ(frames(rig.at(0), kPart), staying);
}

TEST_P(PageMoverTest, WhatIsSplitIsOneChunk) {
  ASSERT_DONE(mover().populate(at(0), 3 * kChunk));
  fill_pattern(at(0), kChunk, 3);
  fill_pattern(at(2 * kChunk), kChunk, 4);
  mover().before_split(at(kChunk));
  EXPECT_EQ(first_difference(at(0), kChunk, 3), -1);
  EXPECT_EQ(first_difference(at(2 * kChunk), kChunk, 4), -1);
  ASSERT_DONE(mover().move_in(at(kChunk), at(4 * kChunk), kChunk / 2, false));
  touch_pages(at(4 * kChunk), kChunk / 2);
}

TEST(PageMover, TouchedPagesAreThereAndKeepTheirBytes) {
  void* pages = mmap(nullptr, static_cast<std::size_t>(kChunk), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  madvise(pages, static_cast<std::size_t>(kChunk), MADV_NOHUGEPAGE);
  auto* const bytes = static_cast<char*>(pages);
  bytes[0] = 7;
  touch_pages(pages, 5 * kPage);
  EXPECT_EQ(MoverRig::resident(bytes, kChunk), 5 * kPage);
  EXPECT_EQ(bytes[0], 7);
  munmap(pages, static_cast<std::size_t>(kChunk));
}

TEST(PageMover, AutomaticChoiceAlwaysFindsOne) {
  void* arena = mmap(nullptr, static_cast<std::size_t>(kChunk), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto mover = make_page_mover(FaultMechanism::kAuto, arena, kChunk, [](const Fault&) {});
  ASSERT_DONE(mover);
  ASSERT_DONE((*mover)->populate(arena, kChunk));
  mover->reset();
  munmap(arena, static_cast<std::size_t>(kChunk));
}

}  // namespace
}  // namespace outsize::host
