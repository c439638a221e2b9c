#include "platforms/host/disk_probe.h"

#include "platforms/host/io_pool_rig.h"

namespace outsize::host {
namespace {

TEST(DiskLoad, MovesTheSameBytesAgainAndAgain) {
  // Bytes that this process has written or read with calls of the system; -1 where the system keeps no account.
  const auto called = [](bool write) { return number_in("/proc/self/io", write ? "wchar:" : "rchar:"); };
  const bool has_account = called(true) >= 0;
  const long long unwritten = called(true);
  auto load = DiskLoad::create("/var/tmp", DiskLoad::kLeast + 1);
  ASSERT_TRUE(load.ok()) << load.error().message();
  EXPECT_EQ((*load)->bytes(), 2 * DiskLoad::kLeast);
  EXPECT_TRUE(!has_account || called(true) - unwritten >= (*load)->bytes()) << "what is read must have been written";
  for (const bool write : {false, true, false}) {
    const long long before = called(write);
    EXPECT_TRUE((*load)->move(write ? Kind::kWrite : Kind::kRead));
    EXPECT_TRUE(!has_account || called(write) - before >= (*load)->bytes()) << before;
  }
  EXPECT_FALSE(DiskLoad::create("/no/such/place", kMiB).ok());
  if (!has_account) GTEST_SKIP() << "no I/O accounting here: how much was moved is not known";
}

}  // namespace
}  // namespace outsize::host
