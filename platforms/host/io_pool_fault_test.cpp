#include "platforms/host/io_pool_fault.h"

#include <gtest/gtest.h>

namespace outsize::host {
namespace {

using Kind = IoRequest::Kind;

TEST(FaultPlan, ReadsItsText) {
  bool valid = false;
  for (const char* good : {"every=1", "every=7,offset=2,kind=read,error=EIO", "every=3,error=SHORT", "every=3,error=FLIP", "every=2,kind=write"}) {
    FaultPlan::parse(good, &valid);
    EXPECT_TRUE(valid) << good;
  }
  for (const char* bad : {"", "every=0", "every=x", "offset=3", "every=2,error=EBADF", "every=2,kind=both", "each=2", "every"}) {
    FaultPlan plan = FaultPlan::parse(bad, &valid);
    EXPECT_FALSE(valid) << bad;
    EXPECT_EQ(plan.next(Kind::kRead).kind, InjectedFault::Kind::kNone);
  }
}

}  // namespace
}  // namespace outsize::host
