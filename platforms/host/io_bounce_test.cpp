#include "platforms/host/io_bounce.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
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
    const BounceChoice::Way way = choice.choose(kind, bytes, true);
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
    const BounceChoice::Way way = choice.choose(Kind::kRead, kMiB, true);
    if (way.measured && way.bounce) ++late;
    choice.took(Kind::kRead, kMiB, way, way.bounce ? (late == 1 ? 1000 : 1) * kMs : 4 * kMs);
  }
  ASSERT_EQ(late, 1);
  BounceChoice::Way next;
  for (int i = 0; i < 10; ++i) {
    next = choice.choose(Kind::kRead, kMiB, true);
    if (!next.measured) break;
    choice.took(Kind::kRead, kMiB, next, next.bounce ? kMs : 4 * kMs);
  }
  ASSERT_FALSE(next.measured);
  EXPECT_TRUE(next.bounce);
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
    const BounceChoice::Way way = choice.choose(Kind::kRead, kMiB, true);
    EXPECT_FALSE(!way.measured && way.bounce) << "no duel came to its end";
    const bool fails = way.measured && ++told % 2 == 0;  // of the first two, that which is bounced
    choice.took(Kind::kRead, kMiB, way, fails ? -1 : 4 * kMs);
  }
  EXPECT_LE(told, 30) << "failures are no reason to ask more often";
  EXPECT_GE(told, 10);
  EXPECT_GE(bounced(choice, 2000, 4 * kMs, kMs), 800) << "it is asked at last";
}

TEST(BounceChoice, OneOfWhichNothingIsSaidIsMeasuredAgain) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  for (int i = 0; i < 4; ++i) {
    const BounceChoice::Way first = choice.choose(Kind::kRead, kMiB, true);
    for (int again = 0; again < 100; ++again) {
      const BounceChoice::Way way = choice.choose(Kind::kRead, kMiB, true);
      EXPECT_TRUE(way.measured && way.bounce == first.bounce) << i;
    }
    choice.took(Kind::kRead, kMiB, first, first.bounce ? kMs : 4 * kMs);
  }
  EXPECT_TRUE(choice.choose(Kind::kRead, kMiB, true).bounce);
}

TEST(BounceChoice, OneThatIsNotAloneIsNotMeasured) {
  BounceChoice choice(IoPool::Bounce::kMeasured);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(choice.overdue(Kind::kRead, kMiB), i >= 16) << i;
    EXPECT_FALSE(choice.overdue(Kind::kWrite, kMiB) || choice.overdue(Kind::kRead, kPageBytes));
    EXPECT_FALSE(choice.choose(Kind::kRead, kMiB, false).measured);
  }
  choice.forgo(Kind::kRead, kMiB);
  EXPECT_FALSE(choice.overdue(Kind::kRead, kMiB));
  EXPECT_FALSE(choice.choose(Kind::kRead, kMiB, true).measured) << "not at once";
  EXPECT_FALSE(choice.choose(Kind::kRead, kMiB, true).measured);
  EXPECT_TRUE(choice.choose(Kind::kRead, kMiB, true).measured);
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

class BouncerTest : public testing::Test {
 protected:
  bool may(Kind kind, Bytes bytes, bool pressing = false) { return bouncer_.may_begin(kind, bytes, pressing, now_, &wait_); }
  Bouncer::Turn begin(Kind kind = Kind::kRead, Bytes bytes = kMiB) { return bouncer_.begin(kind, bytes, true, now_); }
  bool end(Bouncer::Turn& turn, Kind kind = Kind::kRead, Bytes bytes = kMiB) {
    return bouncer_.end(kind, bytes, turn, turn.way.bounce ? kMs : 4 * kMs);
  }
  // Reads go by until one is held back; how many did.
  int until_held() {
    int went = 0;
    for (; went < 100 && may(Kind::kRead, kMiB); ++went) {
      Bouncer::Turn turn = begin();
      EXPECT_FALSE(turn.way.measured);
      end(turn);
    }
    return went;
  }

  Bouncer bouncer_{IoPool::Bounce::kMeasured};
  Nanos now_ = kMs, wait_ = 0;
};

// Of so many transfers of a MiB, two at a time, how many of the last half were bounced, where one takes `direct` or `bounce`,
// and as long as the slower of two beside another.
int of_pairs(int pairs, Nanos direct, Nanos bounce) {
  Bouncer bouncer(IoPool::Bounce::kMeasured);
  Nanos now = kMs, wait = 0;
  int sum = 0;
  for (int i = 0; i < pairs; ++i) {
    Bouncer::Turn one = bouncer.begin(Kind::kRead, kMiB, true, now);
    const bool both = bouncer.may_begin(Kind::kRead, kMiB, false, now, &wait);
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
  EXPECT_GE(of_pairs(2000, 4 * kMs, kMs), 980);
  EXPECT_LE(of_pairs(2000, kMs, 4 * kMs), 20);
}

TEST_F(BouncerTest, MakesRoomForOneWhereThereAreAlwaysOthers) {
  Bouncer::Turn first = begin(Kind::kWrite, kPageBytes);
  EXPECT_EQ(until_held(), 16);
  EXPECT_EQ(wait_, Bouncer::kHold);
  EXPECT_TRUE(bouncer_.holds());
  EXPECT_TRUE(end(first, Kind::kWrite, kPageBytes)) << "who waits is to be woken";
  EXPECT_FALSE(bouncer_.holds());
  ASSERT_TRUE(may(Kind::kRead, kMiB));
  Bouncer::Turn alone = begin();
  EXPECT_TRUE(alone.way.measured);
  now_ += kMs;
  EXPECT_FALSE(may(Kind::kWrite, kPageBytes));
  EXPECT_EQ(wait_, Bouncer::kHold - kMs);
  EXPECT_TRUE(end(alone)) << "who waits is to be woken";
  EXPECT_TRUE(may(Kind::kWrite, kPageBytes));
}

TEST_F(BouncerTest, WhoIsWaitedForMayBeginAndSpoilsIt) {
  for (int i = 0; i < 1000; ++i) {
    Bouncer::Turn alone = begin();
    EXPECT_FALSE(may(Kind::kRead, kMiB) && alone.way.measured);
    ASSERT_TRUE(may(Kind::kRead, kMiB, true));
    Bouncer::Turn demanded = begin();
    EXPECT_FALSE(demanded.way.measured);
    end(demanded);
    end(alone);
    EXPECT_FALSE(alone.way.bounce) << "no duel came to its end";
  }
  for (int i = 0; i < 8; ++i) {  // and it was not put off: every second one is measured, four are a duel
    Bouncer::Turn alone = begin();
    end(alone);
  }
  EXPECT_TRUE(begin().way.bounce);
}

TEST_F(BouncerTest, AfterOneThatIsMeasuredOthersHaveTheirTurn) {
  for (int i = 0; i < 100; ++i) {
    Bouncer::Turn turn = begin();
    const bool measured = turn.way.measured;
    end(turn);
    Bouncer::Turn next = begin();
    EXPECT_FALSE(measured && next.way.measured);
    end(next);
  }
}

TEST_F(BouncerTest, HoldsNobodyBackForLong) {
  Bouncer::Turn stuck = begin();
  ASSERT_TRUE(stuck.way.measured);
  EXPECT_FALSE(may(Kind::kRead, kMiB));
  now_ += Bouncer::kHold;
  EXPECT_TRUE(may(Kind::kRead, kMiB)) << "the one that is measured takes too long";
  Bouncer::Turn other = begin();
  EXPECT_FALSE(other.way.measured);
  end(stuck);
  EXPECT_LT(until_held(), 100) << "none is held back for one to be measured";  // `other` takes for ever
  now_ += Bouncer::kHold;
  EXPECT_TRUE(may(Kind::kRead, kMiB));
  const int soon = until_held();
  now_ += Bouncer::kHold;
  EXPECT_TRUE(may(Kind::kRead, kMiB));
  EXPECT_GT(until_held(), soon) << "it is tried ever more seldom";
}

TEST_F(BouncerTest, WhatIsHeldBackAndBeginsAllTheSameIsForgotten) {
  Bouncer::Turn first = begin(Kind::kWrite, kPageBytes);
  until_held();
  Bouncer::Turn helped = begin();  // by one who does not ask
  end(helped);
  EXPECT_TRUE(end(first, Kind::kWrite, kPageBytes));
  now_ += 10 * Bouncer::kHold;
  Bouncer::Turn small = begin(Kind::kWrite, kPageBytes);
  EXPECT_FALSE(may(Kind::kRead, kMiB)) << "its time begins now";
  EXPECT_EQ(wait_, Bouncer::kHold);
  EXPECT_TRUE(end(small, Kind::kWrite, kPageBytes));
  small = begin(Kind::kWrite, kPageBytes);
  EXPECT_FALSE(end(small, Kind::kWrite, kPageBytes)) << "nobody waits any more";
}

TEST_F(BouncerTest, OneWithAFaultInItIsNotMeasured) {
  for (int i = 0; i < 100; ++i) {
    Bouncer::Turn one = bouncer_.begin(Kind::kWrite, kMiB, false, now_);
    EXPECT_FALSE(one.way.measured);
    bouncer_.end(Kind::kWrite, kMiB, one, kMs);
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
  Memory out(kMiB), in(kMiB), none(kPageBytes);
  out.fill(3);
  ASSERT_EQ(pwrite(fd_, out.data(), static_cast<std::size_t>(kMiB), 0), kMiB);
  start(1);  // whose only thread sleeps
  IoRequest read = request(Kind::kRead, in.data(), kMiB, 0, 2);
  read.helper = this;
  pool_->submit(read);
  EXPECT_TRUE(pool_->help(this)) << "somebody else began it";
  wait_for(1);
  EXPECT_TRUE(in.equals(out));
  EXPECT_EQ(pool_->bounced(), kMiB);
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

// Reads and writes of many sizes and urgencies, some raised, some helped, between pauses; every one answers, and with its
// own bytes. Which are measured and who is held back depends on the machine.
TEST_F(IoPoolTest, MeasuringLosesNothing) {
  constexpr std::uint64_t kMany = 400;
  constexpr Bytes kPlace = 5 * kMiB;
  const std::array<Bytes, 6> sizes = {kPageBytes, 64 * kKiB, 256 * kKiB, kMiB, 3 * kMiB, 5 * kMiB};
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr std::uint64_t kPlaces = 8;
  std::vector<std::unique_ptr<Memory>> out, in;
  start(4);
  std::uint64_t token = 0;
  for (std::uint64_t i = 0; i < kPlaces; ++i) {
    out.push_back(std::make_unique<Memory>(kPlace));
    in.push_back(std::make_unique<Memory>(kPlace));
    out.back()->fill(i);
    pool_->submit(request(Kind::kWrite, out[i]->data(), kPlace, static_cast<std::int64_t>(i) * kPlace, ++token));
  }
  wait_for(token);
  std::atomic<bool> over{false};
  std::thread helper([&] {
    while (!over) {
      if (!pool_->help(this)) std::this_thread::yield();
    }
  });
  while (token < kMany) {
    const std::uint64_t i = random() % kPlaces;
    const Bytes bytes = sizes[random() % sizes.size()];
    IoRequest next = request(random() % 2 == 0 ? Kind::kRead : Kind::kWrite, nullptr, bytes,
                             static_cast<std::int64_t>(i) * kPlace, ++token, static_cast<Urgency>(random() % 4));
    next.memory = next.kind == Kind::kRead ? in[i]->data() : out[i]->data();
    if (next.kind == Kind::kRead && next.urgency == Urgency::kDemand && random() % 2 == 0) next.helper = this;
    pool_->submit(next);
    if (random() % 4 == 0) pool_->promote(token - random() % 4, Urgency::kDemand);
    if (random() % 40 == 0) {
      pool_->quiesce();
      pool_->resume();
    }
    if (token > 20) wait_for(token - 20);
  }
  wait_for(token);
  over = true;
  helper.join();
  for (std::uint64_t k = 1; k <= token; ++k) EXPECT_TRUE(result(k).status.ok()) << k;
  for (std::uint64_t i = 0; i < kPlaces; ++i) {
    pool_->submit(request(Kind::kRead, in[i]->data(), kPlace, static_cast<std::int64_t>(i) * kPlace, ++token));
    wait_for(token);
    EXPECT_TRUE(in[i]->equals(*out[i])) << i;
  }
}

}  // namespace
}  // namespace outsize::host
