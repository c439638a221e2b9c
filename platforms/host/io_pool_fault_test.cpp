#include "platforms/host/io_pool_fault.h"

#include <gtest/gtest.h>

#include "platforms/host/io_pool_rig.h"

namespace outsize::host {
namespace {

TEST(FaultPlan, ReadsItsText) {
  bool valid = false;
  for (const char* good : {"every=1", "every=7,offset=2,kind=read,error=EIO", "every=3,error=SHORT", "every=3,error=FLIP", "every=1,error=LATE", "every=1,error=LATE,late=5", "every=1,error=PARTS", "every=2,kind=write"}) {
    FaultPlan::parse(good, &valid);
    EXPECT_TRUE(valid) << good;
  }
  for (const char* bad : {"", "every=0", "every=x", "offset=3", "every=2,error=EBADF", "every=2,kind=both", "each=2", "every"}) {
    FaultPlan plan = FaultPlan::parse(bad, &valid);
    EXPECT_FALSE(valid) << bad;
    EXPECT_EQ(plan.next(Kind::kRead).kind, InjectedFault::Kind::kNone);
  }
}

TEST_F(IoPoolTest, OthersOvertakeALateTransfer) {
  start(2, "every=3,error=LATE,late=1000");
  const Bytes bytes = 5 * kMiB;
  Memory out(bytes), in(bytes), quick(kPageBytes);
  out.fill(11);
  pool_->submit(request(Kind::kWrite, out.data(), bytes, 0, 1));
  wait_for(1);
  pool_->submit(request(Kind::kRead, in.data(), kPageBytes, 0, 2));
  wait_for(2);
  pool_->submit(request(Kind::kRead, in.data(), bytes, 0, 3));
  pool_->submit(request(Kind::kRead, quick.data(), kPageBytes, 0, 4));
  wait_for(4);
  EXPECT_EQ(order(), (std::vector<std::uint64_t>{1, 2, 4, 3}));
  EXPECT_TRUE(result(3).status.ok());
  EXPECT_TRUE(in.equals(out));
}

TEST_F(IoPoolTest, ATransferOfWhichTheSystemDoesALittleAtATimeIsWhole) {
  start(2, "every=1,error=PARTS");
  expect_back(5 * kMiB + kPageBytes, kPageBytes, 12);
}

}  // namespace
}  // namespace outsize::host
