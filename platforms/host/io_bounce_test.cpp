#include "platforms/host/io_bounce.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <set>
#include <vector>

#include "platforms/host/io_pool_rig.h"

namespace outsize::host {
namespace {

constexpr Nanos kMs = 1'000'000;

// So many of `count` transfers were bounced where one takes so long either way.
int bounced(BounceChoice& choice, int count, Nanos direct, Nanos bounce, Kind kind = Kind::kRead, Bytes bytes = kMiB) {
  int sum = 0;
  for (int i = 0; i < count; ++i) {
    const BounceChoice::Way way = choice.way(kind, bytes, true);
    choice.took(kind, bytes, way, way.bounce ? bounce : direct);
    sum += way.bounce ? 1 : 0;
  }
  return sum;
}

TEST(BounceChoice, TakesTheQuickerWayAndSeldomAsksAgain) {
  BounceChoice quicker(IoPool::Bounce::kMeasured), slower(IoPool::Bounce::kMeasured);
  EXPECT_GE(bounced(quicker, 100, 4 * kMs, kMs), 80);
  EXPECT_LE(bounced(slower, 100, kMs, 4 * kMs), 12);
  bounced(quicker, 2000, 4 * kMs, kMs);
  bounced(slower, 2000, kMs, 4 * kMs);
  EXPECT_GE(bounced(quicker, 10000, 4 * kMs, kMs), 9950);
  EXPECT_LE(bounced(slower, 10000, kMs, 4 * kMs), 50);
  EXPECT_GE(bounced(slower, 10000, kMs, 4 * kMs), 10) << "it would never know better";
}

TEST(BounceChoice, ChangesWithTheDisk) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  bounced(choice, 5000, 4 * kMs, kMs);
  EXPECT_LE(bounced(choice, 5000, kMs, 4 * kMs), 600);
  EXPECT_GE(bounced(choice, 5000, 4 * kMs, kMs), 4400);
}

TEST(BounceChoice, OneDisturbedTransferDoesNotTurnIt) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  bounced(choice, 100, 4 * kMs, kMs);
  int late = 0;
  for (int i = 0; i < 1000 && late < 1; ++i) {
    const BounceChoice::Way way = choice.way(Kind::kRead, kMiB, true);
    if (way.measured && way.bounce) ++late;
    choice.took(Kind::kRead, kMiB, way, way.bounce ? (late == 1 ? 1000 : 1) * kMs : 4 * kMs);
  }
  ASSERT_EQ(late, 1);
  EXPECT_GE(bounced(choice, 100, 4 * kMs, kMs), 85);
}

TEST(BounceChoice, AsksAboutReadsAndWritesAndSizesByThemselves) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  for (const Bytes bytes : {64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB}) {
    const bool large = bytes >= kMiB;
    EXPECT_EQ(bounced(choice, 200, 4 * kMs, kMs, Kind::kRead, bytes) > 100, true) << bytes;
    EXPECT_EQ(bounced(choice, 200, large ? 4 * kMs : kMs, 2 * kMs, Kind::kWrite, bytes) > 100, large) << bytes;
  }
  EXPECT_EQ(bounced(choice, 100, 4 * kMs, kMs, Kind::kRead, 16 * kKiB), 0) << "too small to be asked about";
}

TEST(BounceChoice, AFailureTellsNothing) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  int told = 0;
  for (int i = 0; i < 2000; ++i) {
    const BounceChoice::Way way = choice.way(Kind::kRead, kMiB, true);
    const bool fails = way.measured && ++told % 4 == 0;
    choice.took(Kind::kRead, kMiB, way, fails ? -1 : way.bounce ? kMs : 4 * kMs);
  }
  EXPECT_LE(told, 60) << "failures are no reason to ask more often";
  EXPECT_GE(bounced(choice, 2000, 4 * kMs, kMs), 800) << "it is asked at last";
}

TEST(BounceChoice, OneThatIsNotAloneIsNotMeasured) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(choice.overdue(Kind::kRead, kMiB), i >= 16) << i;
    EXPECT_FALSE(choice.overdue(Kind::kWrite, kMiB) || choice.overdue(Kind::kRead, kPageBytes));
    EXPECT_FALSE(choice.way(Kind::kRead, kMiB, false).measured);
  }
  choice.forgo(Kind::kRead, kMiB);
  EXPECT_FALSE(choice.overdue(Kind::kRead, kMiB));
  EXPECT_TRUE(choice.way(Kind::kRead, kMiB, true).measured);
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
    _exit(mincore(lease.memory(), static_cast<std::size_t>(kPageBytes), &present) != 0 && errno == ENOMEM ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// So many transfers of a MiB, two at a time, of which one takes `direct` or `bounce` alone and as long as the slower
// of them beside another; returns how many of the last half were bounced.
int of_pairs(Bouncer& bouncer, int pairs, Nanos direct, Nanos bounce) {
  Nanos now = kMs, wait = 0;
  int sum = 0;
  for (int i = 0; i < pairs; ++i) {
    Bouncer::Turn one = bouncer.begin(Kind::kRead, kMiB, true, now);
    const bool both = bouncer.may_begin(Kind::kRead, kMiB, now, &wait);
    Bouncer::Turn two;
    if (both) two = bouncer.begin(Kind::kRead, kMiB, true, now);
    const Nanos slow = one.way.bounce && (!both || two.way.bounce) ? bounce : direct;
    now += slow;
    if (i >= pairs / 2) sum += one.way.bounce ? 1 : 0;
    bouncer.end(Kind::kRead, kMiB, one, slow);
    if (both) bouncer.end(Kind::kRead, kMiB, two, slow);
  }
  return sum;
}

TEST(Bouncer, MeasuresATransferAlone) {
  Bouncer quicker(IoPool::Bounce::kMeasured), slower(IoPool::Bounce::kMeasured);
  EXPECT_GE(of_pairs(quicker, 2000, 4 * kMs, kMs), 980);
  EXPECT_LE(of_pairs(slower, 2000, kMs, 4 * kMs), 20);
}

TEST(Bouncer, MakesRoomForOneWhereThereAreAlwaysOthers) {
  Bouncer bouncer(IoPool::Bounce::kMeasured);
  Nanos now = kMs, wait = 0;
  Bouncer::Turn first = bouncer.begin(Kind::kWrite, kPageBytes, true, now);
  int went = 0;
  for (; went < 100 && bouncer.may_begin(Kind::kRead, kMiB, now, &wait); ++went) {
    Bouncer::Turn turn = bouncer.begin(Kind::kRead, kMiB, true, now);
    EXPECT_FALSE(turn.way.measured);
    EXPECT_FALSE(bouncer.end(Kind::kRead, kMiB, turn, kMs));
  }
  EXPECT_EQ(went, 16);
  EXPECT_EQ(wait, Bouncer::kHold);
  EXPECT_TRUE(bouncer.end(Kind::kWrite, kPageBytes, first, kMs)) << "who waits is to be woken";
  ASSERT_TRUE(bouncer.may_begin(Kind::kRead, kMiB, now, &wait));
  Bouncer::Turn alone = bouncer.begin(Kind::kRead, kMiB, true, now);
  EXPECT_TRUE(alone.way.measured);
  now += kMs;
  EXPECT_FALSE(bouncer.may_begin(Kind::kWrite, kPageBytes, now, &wait));
  EXPECT_EQ(wait, Bouncer::kHold - kMs);
  EXPECT_TRUE(bouncer.end(Kind::kRead, kMiB, alone, kMs)) << "who waits is to be woken";
  EXPECT_TRUE(bouncer.may_begin(Kind::kWrite, kPageBytes, now, &wait));
}

TEST(Bouncer, HoldsNobodyBackForLong) {
  Bouncer bouncer(IoPool::Bounce::kMeasured);
  Nanos now = kMs, wait = 0;
  Bouncer::Turn stuck = bouncer.begin(Kind::kRead, kMiB, true, now);
  ASSERT_TRUE(stuck.way.measured);
  EXPECT_FALSE(bouncer.may_begin(Kind::kRead, kMiB, now, &wait));
  now += Bouncer::kHold;
  EXPECT_TRUE(bouncer.may_begin(Kind::kRead, kMiB, now, &wait)) << "the one that is measured takes too long";
  Bouncer::Turn other = bouncer.begin(Kind::kRead, kMiB, true, now);
  EXPECT_FALSE(other.way.measured);
  bouncer.end(Kind::kRead, kMiB, stuck, kMs);
  int went = 0;
  for (int held = 0; went < 100 && held == 0; ++went) {  // `other` takes for ever
    if (!bouncer.may_begin(Kind::kRead, kMiB, now, &wait)) ++held;
    else {
      Bouncer::Turn turn = bouncer.begin(Kind::kRead, kMiB, true, now);
      bouncer.end(Kind::kRead, kMiB, turn, kMs);
    }
  }
  EXPECT_LT(went, 100) << "none is held back for one to be measured";
  now += Bouncer::kHold;
  EXPECT_TRUE(bouncer.may_begin(Kind::kRead, kMiB, now, &wait));
  EXPECT_TRUE(bouncer.may_begin(Kind::kRead, kMiB, now, &wait)) << "and not at once again";
}

TEST(Bouncer, OneThatWasDisturbedIsNotCounted) {
  Bouncer bouncer(IoPool::Bounce::kMeasured);
  const Nanos now = kMs;
  for (int i = 0; i < 3000; ++i) {
    Bouncer::Turn one = bouncer.begin(Kind::kRead, kMiB, true, now);
    Bouncer::Turn helper = bouncer.begin(Kind::kRead, kPageBytes, true, now);  // does not ask
    bouncer.end(Kind::kRead, kPageBytes, helper, kMs);
    bouncer.end(Kind::kRead, kMiB, one, one.way.bounce ? kMs : 4 * kMs);
    EXPECT_FALSE(one.way.bounce && !one.way.measured) << i;
  }
  for (int i = 0; i < 3000; ++i) {  // nor one with a fault in it
    Bouncer::Turn one = bouncer.begin(Kind::kWrite, kMiB, false, now);
    EXPECT_FALSE(one.way.measured);
    bouncer.end(Kind::kWrite, kMiB, one, kMs);
  }
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
  Memory out(bytes), in(bytes);
  out.fill(1);
  IoRequest write = request(Kind::kWrite, out.data(), bytes, 0, 1), read = request(Kind::kRead, in.data(), bytes, 0, 2);
  write.pieces = read.pieces = {{20 * kMiB, 3 * kMiB + kPageBytes}, {0, kPageBytes}, {30 * kMiB, 2 * kMiB - 2 * kPageBytes}};
  pool_->submit(write);
  wait_for(1);
  pool_->submit(read);
  wait_for(2);
  ASSERT_TRUE(result(1).status.ok() && result(2).status.ok());
  EXPECT_TRUE(in.equals(out));
  Memory last(kPageBytes);
  ASSERT_EQ(pread(fd_, last.data(), static_cast<std::size_t>(kPageBytes), 32 * kMiB - 3 * kPageBytes), kPageBytes);
  EXPECT_EQ(std::memcmp(last.data(), out.data() + bytes - kPageBytes, static_cast<std::size_t>(kPageBytes)), 0);
}

TEST_F(BouncedPool, WhatTheSystemDoesALittleAtATimeIsWhole) {
  start(2, "every=1,error=PARTS");
  const Bytes bytes = kMiB + kPageBytes;
  Memory out(bytes), in(bytes);
  out.fill(2);
  pool_->submit(request(Kind::kWrite, out.data(), bytes, kPageBytes, 1));
  wait_for(1);
  pool_->submit(request(Kind::kRead, in.data(), bytes, kPageBytes, 2));
  wait_for(2);
  EXPECT_TRUE(result(1).status.ok() && result(2).status.ok());
  EXPECT_TRUE(in.equals(out));
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
  start(1);
  Memory out(kMiB), in(kMiB);
  out.fill(3);
  pool_->submit(request(Kind::kWrite, out.data(), kMiB, 0, 1));
  wait_for(1);
  IoRequest read = request(Kind::kRead, in.data(), kMiB, 0, 2);
  read.helper = this;
  pool_->submit(read);
  while (pool_->help(this)) {}
  wait_for(2);
  EXPECT_TRUE(in.equals(out));
}

}  // namespace
}  // namespace outsize::host
