#include "platforms/host/io_bounce.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "platforms/host/io_pool_rig.h"

namespace outsize::host {
namespace {

constexpr Nanos kMs = 1'000'000;

// So many of `count` transfers were bounced where one takes so long either way.
int bounced(BounceChoice& choice, int count, Nanos direct, Nanos bounce, Kind kind = Kind::kRead, Bytes bytes = kMiB) {
  int sum = 0;
  for (int i = 0; i < count; ++i) {
    const BounceChoice::Way way = choice.choose(kind, bytes);
    choice.took(kind, bytes, way, way.bounce ? bounce : direct);
    sum += way.bounce ? 1 : 0;
  }
  return sum;
}

TEST(BounceChoice, TakesTheQuickerWayAndSeldomAsksAgain) {
  BounceChoice quicker(IoPool::Bounce::kMeasured), slower(IoPool::Bounce::kMeasured);
  EXPECT_EQ(bounced(quicker, BounceChoice::kDuel, 4 * kMs, kMs), BounceChoice::kDuel / 2);
  EXPECT_EQ(bounced(slower, BounceChoice::kDuel, kMs, 4 * kMs), BounceChoice::kDuel / 2);
  EXPECT_EQ(bounced(quicker, 10, 4 * kMs, kMs), 10);
  EXPECT_EQ(bounced(slower, 10, kMs, 4 * kMs), 0);
  bounced(quicker, 4000, 4 * kMs, kMs);
  bounced(slower, 4000, kMs, 4 * kMs);
  EXPECT_GE(bounced(quicker, 10000, 4 * kMs, kMs), 9800);
  EXPECT_LE(bounced(slower, 10000, kMs, 4 * kMs), 200);
  EXPECT_GE(bounced(slower, 10000, kMs, 4 * kMs), 100) << "it would never know better";
}

TEST(BounceChoice, ChangesWithTheDisk) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  bounced(choice, 20000, 4 * kMs, kMs);
  EXPECT_LE(bounced(choice, 10000, kMs, 4 * kMs), 3000);
  EXPECT_GE(bounced(choice, 10000, 4 * kMs, kMs), 7000);
}

TEST(BounceChoice, ADuelThatWasDisturbedDoesNotTurnIt) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  bounced(choice, 4000, 4 * kMs, kMs);
  for (int lost = 1; lost <= 3; ++lost) {
    int told = 0;
    for (int i = 0; i < 5000 && told < BounceChoice::kCounted; ++i) {
      const BounceChoice::Way way = choice.choose(Kind::kRead, kMiB);
      choice.took(Kind::kRead, kMiB, way, way.bounce ? 1000 * kMs : 4 * kMs);
      told += way.duel != 0 ? 1 : 0;
    }
    EXPECT_EQ(choice.choose(Kind::kRead, kMiB).bounce, lost < 3) << lost;
  }
}

TEST(BounceChoice, WhatIsSlowTimeAndAgainDoesDecide) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  for (int i = 0; i < BounceChoice::kDuel; ++i) {
    const BounceChoice::Way way = choice.choose(Kind::kRead, kMiB);
    choice.took(Kind::kRead, kMiB, way, !way.bounce ? 2 * kMs : i % 9 < 4 ? 10 * kMs : kMs);
  }
  EXPECT_FALSE(choice.choose(Kind::kRead, kMiB).bounce);
}

TEST(BounceChoice, APauseOfTheHostDecidesNothing) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  for (int i = 0; i < BounceChoice::kDuel; ++i) {
    const BounceChoice::Way way = choice.choose(Kind::kRead, kMiB);
    const bool pause = way.bounce && i % BounceChoice::kTurn >= BounceChoice::kTurn - 4;
    choice.took(Kind::kRead, kMiB, way, pause ? 500 * kMs : way.bounce ? kMs : 4 * kMs);
  }
  EXPECT_TRUE(choice.choose(Kind::kRead, kMiB).bounce);
}

// Beside others that go the slow way a quick one takes as long: four at a time, and the slowest of them sets the pace.
TEST(BounceChoice, FindsTheQuickerWayWhereOthersAreAlwaysUnderWay) {
  for (const bool quick : {true, false}) {
    BounceChoice choice(IoPool::Bounce::kMeasured);
    int sum = 0;
    for (int i = 0; i < 2000; ++i) {
      std::array<BounceChoice::Way, 4> ways;
      Nanos pace = 0;
      for (auto& way : ways) {
        way = choice.choose(Kind::kRead, kMiB);
        pace = std::max(pace, way.bounce == quick ? kMs : 4 * kMs);
        if (i >= 1000) sum += way.bounce ? 1 : 0;
      }
      for (const auto& way : ways) choice.took(Kind::kRead, kMiB, way, pace);
    }
    if (quick) { EXPECT_GE(sum, 3800); }
    else { EXPECT_LE(sum, 200); }
  }
}

TEST(BounceChoice, AsksAboutReadsAndWritesAndSizesByThemselves) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  for (const Bytes bytes : {64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB}) {
    const bool large = bytes >= kMiB;
    bounced(choice, 200, 4 * kMs, kMs, Kind::kRead, bytes);
    bounced(choice, 200, large ? 4 * kMs : kMs, 2 * kMs, Kind::kWrite, bytes);
  }
  for (const Bytes bytes : {64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB}) {
    choice.keep();
    EXPECT_TRUE(choice.choose(Kind::kRead, bytes).bounce) << bytes;
    EXPECT_EQ(choice.choose(Kind::kWrite, bytes).bounce, bytes >= kMiB) << bytes;
  }
  EXPECT_EQ(bounced(choice, 100, 4 * kMs, kMs, Kind::kRead, 16 * kKiB), 0) << "too small to be asked about";
}

TEST(BounceChoice, WhatAKibibyteTakesCountsNotWhatATransferTakes) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  for (int i = 0; i < BounceChoice::kDuel; ++i) {  // one size is bounced, the other is not, at the same pace but for a little
    const int turn = i / BounceChoice::kTurn;
    const Bytes bytes = turn == 1 || turn == 2 ? 2 * kMiB : kMiB;
    const BounceChoice::Way way = choice.choose(Kind::kRead, bytes);
    choice.took(Kind::kRead, bytes, way, way.bounce ? 19 * kMs : 10 * kMs);
  }
  EXPECT_TRUE(choice.choose(Kind::kRead, kMiB).bounce);
}

TEST(BounceChoice, AFailureIsNotCountedButTheDuelEnds) {
  for (const bool bounce_fails : {false, true}) {
    BounceChoice choice(IoPool::Bounce::kMeasured);
    for (int i = 0; i < BounceChoice::kDuel; ++i) {
      const BounceChoice::Way way = choice.choose(Kind::kRead, kMiB);
      const std::optional<Nanos> took = bounce_fails == way.bounce ? std::nullopt : std::optional(9 * kMs);
      choice.took(Kind::kRead, kMiB, way, took);
    }
    EXPECT_EQ(choice.choose(Kind::kRead, kMiB).bounce, !bounce_fails);
  }
  BounceChoice choice(IoPool::Bounce::kMeasured);
  for (int i = 0; i < 1000; ++i) choice.took(Kind::kRead, kMiB, choice.choose(Kind::kRead, kMiB), std::nullopt);
  choice.keep();
  EXPECT_FALSE(choice.choose(Kind::kRead, kMiB).bounce) << "nothing is known";
}

TEST(BounceChoice, WhoIsLateIsWaitedForAndWhatIsNotOfADuelIsNotCounted) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  std::vector<BounceChoice::Way> ways;
  int of_duel = 0;
  for (int i = 0; i < 2 * BounceChoice::kDuel; ++i) {
    ways.push_back(choice.choose(Kind::kRead, kMiB));
    of_duel += ways.back().duel != 0 ? 1 : 0;
  }
  EXPECT_EQ(of_duel, BounceChoice::kCounted);
  for (std::size_t i = 1; i < ways.size(); ++i) choice.took(Kind::kRead, kMiB, ways[i], ways[i].bounce ? kMs : 4 * kMs);
  choice.took(Kind::kRead, kMiB, ways[BounceChoice::kOthers], 4 * kMs);  // told twice: nobody does
  EXPECT_TRUE(choice.choose(Kind::kRead, kMiB).bounce);
}

TEST(BounceChoice, KeepsItsWay) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  bounced(choice, 500, 4 * kMs, kMs);
  choice.keep();
  EXPECT_EQ(bounced(choice, 20000, kMs, 4 * kMs), 20000);
}

TEST(BounceChoice, CanBeForced) {
  BounceChoice always(IoPool::Bounce::kAlways), never(IoPool::Bounce::kNever);
  EXPECT_EQ(bounced(always, 100, kMs, 9 * kMs), 100);
  EXPECT_EQ(bounced(always, 100, kMs, 9 * kMs, Kind::kWrite, kPageBytes), 100);
  EXPECT_EQ(bounced(never, 100, 9 * kMs, kMs), 0);
}

TEST(BounceBuffers, AreLentOnceEachAndComeBack) {
  BounceBuffers buffers;
  std::vector<BounceBuffers::Lease> leases;
  std::set<std::uintptr_t> chunks;
  std::set<char*> seen;
  for (;;) {
    leases.push_back(buffers.lease());
    char* const memory = leases.back().memory();
    if (memory == nullptr) break;
    ASSERT_TRUE(seen.insert(memory).second);
    ASSERT_LE(seen.size(), 100u);
    std::memset(memory, static_cast<int>(seen.size()), static_cast<std::size_t>(BounceBuffers::kBytes));
    const auto at = reinterpret_cast<std::uintptr_t>(memory), chunk = static_cast<std::uintptr_t>(kChunkBytes);
    chunks.insert(at / chunk);
    EXPECT_EQ(at / chunk, (at + static_cast<std::uintptr_t>(BounceBuffers::kBytes) - 1) / chunk) << "in one huge page";
  }
  EXPECT_GE(seen.size(), 6u) << "four threads and some that help";
  EXPECT_EQ(chunks.size() * static_cast<std::size_t>(kChunkBytes), seen.size() * static_cast<std::size_t>(BounceBuffers::kBytes));
  int value = 0;
  for (const BounceBuffers::Lease& lease : leases) {
    if (lease.memory() != nullptr) { EXPECT_EQ(lease.memory()[BounceBuffers::kBytes - 1], ++value) << "two overlap"; }
  }
  char* const second = leases[1].memory();
  BounceBuffers::Lease moved = std::move(leases[1]);
  EXPECT_EQ(buffers.lease().memory(), nullptr);
  moved.give_back();
  EXPECT_EQ(buffers.lease().memory(), second);
  EXPECT_EQ(buffers.lease().memory(), second) << "what nobody kept is back";
}

TEST(BounceBuffers, AreNotThereInAForkedChild) {
  BounceBuffers buffers;
  const BounceBuffers::Lease lease = buffers.lease();
  ASSERT_NE(lease.memory(), nullptr);
  lease.memory()[0] = 1;
  const pid_t child = fork();
  if (child == 0) {
    unsigned char present = 0;
    const bool none = mincore(lease.memory(), static_cast<std::size_t>(kPageBytes), &present) != 0 && errno == ENOMEM;
    _exit(none || lease.memory()[0] != 1 ? 0 : 1);  // a sanitizer puts something of its own there
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Every way a transfer can go, through the buffers.
class BouncedPool : public IoPoolTest {
 protected:
  void SetUp() override { bounce_ = IoPool::Bounce::kAlways; }
};

TEST_F(BouncedPool, WritesAndReadsBackAnySize) {
  start(4);
  std::uint64_t token = 0;
  Bytes sum = 0;
  for (const Bytes bytes : {kPageBytes, BounceBuffers::kBytes, BounceBuffers::kBytes + kPageBytes, 16 * kMiB + kPageBytes}) {
    Memory out(bytes), in(bytes);
    out.fill(static_cast<std::uint64_t>(bytes));
    pool_->submit(request(Kind::kWrite, out.data(), bytes, 8192, ++token));
    wait_for(token);
    ASSERT_TRUE(result(token).status.ok()) << result(token).status.error().message();
    Memory alone(bytes);
    ASSERT_EQ(pread(fd_, alone.data(), static_cast<std::size_t>(bytes), 8192), bytes);
    EXPECT_TRUE(alone.equals(out)) << "written";
    pool_->submit(request(Kind::kRead, in.data(), bytes, 8192, ++token));
    wait_for(token);
    ASSERT_TRUE(result(token).status.ok());
    EXPECT_TRUE(in.equals(out)) << "read";
    sum += 2 * bytes;
    EXPECT_EQ(pool_->bounced(), sum);
  }
}

TEST_F(BouncedPool, RunsOfTheFileNeedNotEndWhereBuffersDo) {
  start(4);
  const Bytes bytes = 5 * kMiB;
  const auto out = expect_back(bytes, 0, 1, {{20 * kMiB, 3 * kMiB + kPageBytes}, {0, kPageBytes}, {30 * kMiB, 2 * kMiB - 2 * kPageBytes}});
  Memory last(kPageBytes);
  ASSERT_EQ(pread(fd_, last.data(), static_cast<std::size_t>(kPageBytes), 32 * kMiB - 3 * kPageBytes), kPageBytes);
  EXPECT_EQ(std::memcmp(last.data(), out->data() + bytes - kPageBytes, static_cast<std::size_t>(kPageBytes)), 0);
}

TEST_F(BouncedPool, WhatTheSystemDoesALittleAtATimeIsWhole) {
  start(2, "every=1,error=PARTS");
  expect_back(kMiB + kPageBytes, kPageBytes, 2);
}

TEST_F(BouncedPool, FailuresSayWhatAndWhere) {
  start(2);
  Memory memory(kMiB);
  IoRequest beyond = request(Kind::kRead, memory.data(), kMiB, kGiB, 1);  // of an empty file
  IoRequest nowhere = request(Kind::kWrite, memory.data(), kMiB, 0, 2);
  nowhere.fd = -1;
  pool_->submit(beyond);
  pool_->submit(nowhere);
  wait_for(2);
  ASSERT_FALSE(result(1).status.ok());
  EXPECT_NE(result(1).status.error().message().find("stopped after 0 bytes"), std::string::npos);
  EXPECT_EQ(pool_->bounced(), 0);
  ASSERT_FALSE(result(2).status.ok());
  EXPECT_NE(result(2).status.error().message().find("pwrite of 1048576 bytes at offset 0 failed"), std::string::npos);
}

TEST_F(BouncedPool, ManyAtOnceGetTheirOwnBytes) {
  start(4);
  constexpr std::uint64_t kMany = 24;
  std::vector<std::unique_ptr<Memory>> out, in;
  const Bytes bytes = kMiB + kPageBytes;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    out.push_back(std::make_unique<Memory>(bytes));
    in.push_back(std::make_unique<Memory>(bytes));
    out.back()->fill(i);
    pool_->submit(request(Kind::kWrite, out.back()->data(), bytes, static_cast<std::int64_t>(i) * bytes, i));
  }
  wait_for(kMany);
  for (std::uint64_t i = 0; i < kMany; ++i) {
    pool_->submit(request(Kind::kRead, in[i]->data(), bytes, static_cast<std::int64_t>(i) * bytes, kMany + i));
  }
  wait_for(2 * kMany);
  for (std::uint64_t i = 0; i < kMany; ++i) EXPECT_TRUE(in[i]->equals(*out[i])) << i;
}

TEST_F(BouncedPool, WhoHelpsGoesThroughThemToo) {
  Memory out(kMiB), in(kMiB);
  out.fill(3);
  ASSERT_EQ(pwrite(fd_, out.data(), static_cast<std::size_t>(kMiB), 0), kMiB);
  std::mutex mutex;  // the pool's only thread waits for it in its callback
  std::unique_lock held(mutex);
  std::atomic<bool> in_callback{false}, helped{false};
  pool_ = IoPool::create(1, [&](const IoResult& result) {
    if (result.token == 2) {
      helped = result.status.ok();
      return;
    }
    in_callback = true;
    const std::lock_guard until_let_go(mutex);
  }, bounce_);
  Memory page(kPageBytes);
  pool_->submit(request(Kind::kRead, page.data(), kPageBytes, 0, 1));
  while (!in_callback) std::this_thread::yield();
  IoRequest read = request(Kind::kRead, in.data(), kMiB, 0, 2);
  read.helper = this;
  pool_->submit(read);
  EXPECT_TRUE(pool_->help(this));
  EXPECT_TRUE(helped);
  EXPECT_TRUE(in.equals(out));
  EXPECT_EQ(pool_->bounced(), kPageBytes + kMiB);
  held.unlock();
  pool_.reset();  // what it calls is here
}

TEST_F(BouncedPool, ATransferThatStopsHalfWayTouchesNoMore) {
  start(1);
  Memory in(kMiB), as_before(kMiB);
  in.fill(4);
  as_before.fill(4);
  std::memset(as_before.data(), 7, 5000);
  const std::vector<char> file(5000, 7);
  ASSERT_EQ(pwrite(fd_, file.data(), file.size(), 0), 5000);
  pool_->submit(request(Kind::kRead, in.data(), kMiB, 0, 1));  // beyond the file's end
  wait_for(1);
  EXPECT_FALSE(result(1).status.ok());
  EXPECT_TRUE(in.equals(as_before));
}

// Reads and writes of many sizes and urgencies, some raised, some helped, between pauses: every one answers, and a read with
// the bytes of its place and no others. Of this many some duel.
class MixedPool : public IoPoolTest, public testing::WithParamInterface<IoPool::Bounce> {};

TEST_P(MixedPool, EveryTransferHasItsOwnBytes) {
  constexpr std::uint64_t kMany = 600, kPlaces = 8, kAtOnce = 20;
  constexpr Bytes kPlace = 5 * kMiB;
  const std::array<Bytes, 6> sizes = {kPageBytes, 64 * kKiB, 256 * kKiB, kMiB, 3 * kMiB, kPlace};
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  bounce_ = GetParam();
  start(4);
  std::vector<std::unique_ptr<Memory>> out, in;
  std::uint64_t token = 0;
  for (std::uint64_t i = 0; i < kPlaces; ++i) {
    out.push_back(std::make_unique<Memory>(kPlace));
    out.back()->fill(i);
    pool_->submit(request(Kind::kWrite, out[i]->data(), kPlace, static_cast<std::int64_t>(i) * kPlace, ++token));
  }
  for (std::uint64_t i = 0; i < kAtOnce; ++i) in.push_back(std::make_unique<Memory>(kPlace));
  wait_for(token);
  std::atomic<bool> over{false};
  std::thread helper([&] {
    while (!over) {
      if (!pool_->help(this)) std::this_thread::yield();
    }
  });
  while (token < kMany) {
    struct Read { std::uint64_t token, place; const Memory* memory; Bytes bytes; };
    std::vector<Read> reads;
    for (std::uint64_t k = 0; k < kAtOnce; ++k) {
      const std::uint64_t i = random() % kPlaces;
      const Bytes bytes = sizes[random() % sizes.size()];
      IoRequest next = request(random() % 2 == 0 ? Kind::kRead : Kind::kWrite, out[i]->data(), bytes,
                               static_cast<std::int64_t>(i) * kPlace, ++token, static_cast<Urgency>(random() % 4));
      if (next.kind == Kind::kRead) {
        next.memory = in[k]->data();
        std::memset(in[k]->data(), 0, static_cast<std::size_t>(bytes));
        reads.push_back({token, i, in[k].get(), bytes});
        if (next.urgency == Urgency::kDemand && random() % 2 == 0) next.helper = this;
      }
      pool_->submit(next);
      if (random() % 4 == 0) pool_->promote(token - random() % 4, Urgency::kDemand);
    }
    if (random() % 2 == 0) {
      pool_->quiesce();
      pool_->resume();
    }
    wait_for(token);
    for (const Read& read : reads) {
      EXPECT_TRUE(result(read.token).status.ok());
      EXPECT_EQ(std::memcmp(read.memory->data(), out[read.place]->data(), static_cast<std::size_t>(read.bytes)), 0) << read.token;
    }
  }
  over = true;
  helper.join();
  for (std::uint64_t k = 1; k <= token; ++k) EXPECT_TRUE(result(k).status.ok()) << k;
  EXPECT_EQ(pool_->bounced() > 0, bounce_ != IoPool::Bounce::kNever);
}

INSTANTIATE_TEST_SUITE_P(Ways, MixedPool,
                         testing::Values(IoPool::Bounce::kMeasured, IoPool::Bounce::kAlways, IoPool::Bounce::kNever));

}  // namespace
}  // namespace outsize::host
