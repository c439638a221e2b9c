// The limit on writes, as the pool keeps it. What it must let through is bounded by the clock from
// above only: a busy machine writes less.
#include <thread>

#include "platforms/host/io_pool_rig.h"

namespace outsize::host {
namespace {

constexpr std::int64_t kRate = 40'000'000;

class IoPoolLimitTest : public IoPoolTest {
 protected:
  void begin(int threads) {
    memory_.fill(3);
    start(threads);
    begun_ = std::chrono::steady_clock::now();
    pool_->set_write_limit(kRate);
  }
  Bytes allowed() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun_;
    return static_cast<Bytes>(static_cast<double>(kRate) * (passed.count() + 1)) + 4 * kMiB;
  }
  void write(Bytes bytes, std::uint64_t token, Urgency urgency) {
    pool_->submit(request(Kind::kWrite, memory_.data(), bytes, 0, token, urgency));
  }
  Memory memory_{16 * kMiB};
  std::chrono::steady_clock::time_point begun_;
};

TEST_F(IoPoolLimitTest, IsKeptAndSaysWhoWaited) {
  begin(4);
  Bytes written = 0;
  for (std::uint64_t i = 0; i < 6; ++i) {
    write(16 * kMiB, i, Urgency::kPressedWrite);
    wait_for(i + 1);
    written += 16 * kMiB;
    ASSERT_LE(written, allowed());
    ASSERT_TRUE(result(i).status.ok());
  }
  EXPECT_GT(pool_->held_back(), 0);
}

TEST_F(IoPoolLimitTest, NobodyWaitsForAWriteAhead) {
  begin(2);
  for (std::uint64_t i = 0; i < 5; ++i) write(16 * kMiB, i, Urgency::kWriteAhead);
  wait_for(5);
  EXPECT_EQ(pool_->held_back(), 0);
}

TEST_F(IoPoolLimitTest, ReadsAreNotHeldBack) {
  begin(1);
  for (std::uint64_t i = 0; i < 40; ++i) write(16 * kMiB, i, Urgency::kWriteAhead);
  wait_for(1);  // there is something to read
  Memory in(16 * kMiB);
  pool_->submit(request(Kind::kRead, in.data(), 16 * kMiB, 0, 100, Urgency::kDemand));
  while (order().back() != 100) {
    ASSERT_LT(order().size(), 40U) << "the read came after all writes";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  pool_->set_write_limit(0);
  wait_for(41);
}

TEST_F(IoPoolLimitTest, AForkAndTheEndDoNotWaitForThePace) {
  begin(2);
  pool_->set_write_limit(1000);  // the writes below would take a day
  for (std::uint64_t i = 0; i < 6; ++i) write(16 * kMiB, i, Urgency::kPressedWrite);
  pool_->quiesce();
  EXPECT_EQ(order().size(), 6U);
  pool_->resume();
  for (std::uint64_t i = 6; i < 9; ++i) write(16 * kMiB, i, Urgency::kWriteAhead);
  pool_.reset();
  EXPECT_EQ(order().size(), 9U);
}

TEST_F(IoPoolLimitTest, LiftedItHoldsNothingBack) {
  begin(2);
  pool_->set_write_limit(1000);
  for (std::uint64_t i = 0; i < 4; ++i) write(16 * kMiB, i, Urgency::kPressedWrite);
  pool_->set_write_limit(0);
  wait_for(4);
  const Nanos held = pool_->held_back();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(pool_->held_back(), held) << "the clock still runs";
}

TEST_F(IoPoolTest, AFlippedBitIsNoErrorButAnotherByte) {
  Memory out(kMiB), in(kMiB);
  out.fill(9);
  for (const char* fault : {"every=2,kind=write,error=FLIP", "every=2,kind=read,error=FLIP"}) {
    SCOPED_TRACE(fault);
    pool_.reset();
    start(2, fault);
    const std::size_t before = order().size();
    for (std::uint64_t round = 1; round <= 4; ++round) {
      pool_->submit(request(Kind::kWrite, out.data(), kMiB, 0, 1));
      wait_for(before + 2 * round - 1);
      pool_->submit(request(Kind::kRead, in.data(), kMiB, 0, 2));
      wait_for(before + 2 * round);
      EXPECT_TRUE(result(2).status.ok());
      int bits = 0;
      for (Bytes i = 0; i < kMiB; ++i) {
        bits += __builtin_popcount(static_cast<unsigned char>(in.data()[i] ^ out.data()[i]));
      }
      EXPECT_EQ(bits, round % 2 == 0 ? 1 : 0) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace outsize::host
