#include "platforms/host/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "platforms/host/machine_cgroup.h"

namespace outsize::host {
namespace {

namespace fs = std::filesystem;

// Lays out /proc and /sys as a kernel would.
class CgroupTest : public testing::Test {
 protected:
  CgroupTest() {
    std::string path = (fs::temp_directory_path() / "outsize-test-XXXXXX").string();
    root_ = mkdtemp(path.data());
    write("/proc/self/cgroup", "");
    write("/proc/self/mountinfo", "");
  }
  ~CgroupTest() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  CgroupMemory read() const { return cgroup_memory(root_, 16 * kGiB); }
  std::string root_;
};

const std::string kV2Mount = "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
const std::string kV1Mount = "33 20 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

TEST_F(CgroupTest, NoneMeansNoLimit) {
  EXPECT_EQ(read().limit, 0);
  write("/proc/self/cgroup", "0::/a\n");
  write("/proc/self/mountinfo", kV2Mount);
  write("/sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(read().limit, 0);
}

TEST_F(CgroupTest, V2TakesTheTightestOnThePath) {
  write("/proc/self/cgroup", "0::/user/job/step\n");
  write("/proc/self/mountinfo", kV2Mount);
  write("/sys/fs/cgroup/user/memory.max", "8589934592\n");
  write("/sys/fs/cgroup/user/memory.current", "5\n");
  write("/sys/fs/cgroup/user/job/memory.max", "2147483648\n");
  write("/sys/fs/cgroup/user/job/memory.current", "1073741824\n");
  write("/sys/fs/cgroup/user/job/step/memory.max", "max\n");
  EXPECT_EQ(read().limit, 2 * kGiB);
  EXPECT_EQ(read().used, kGiB);
  write("/sys/fs/cgroup/user/job/memory.stat", "anon 5\nfile 9\ninactive_file 73741824\n");
  EXPECT_EQ(read().used, 1'000'000'000);
}

TEST_F(CgroupTest, V1KnowsItsHugeNumber) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n");
  write("/proc/self/mountinfo", kV1Mount + "34 20 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read().limit, 0);
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "4096\n");
  EXPECT_EQ(read().limit, kGiB);
  EXPECT_EQ(read().used, 4096);
}

TEST_F(CgroupTest, ContainerSeesItsGroupAsTheMountsRoot) {
  write("/proc/self/cgroup", "4:memory:/docker/abc/inner\n");
  write("/proc/self/mountinfo", "33 20 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3221225472\n");
  EXPECT_EQ(read().limit, 3 * kGiB);
  write("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(read().limit, kGiB);
}

TEST_F(CgroupTest, PathOutsideTheMountFallsBackToItsRoot) {
  write("/proc/self/mountinfo", kV2Mount);
  write("/sys/fs/cgroup/memory.max", "1073741824\n");
  for (const char* path : {"0::/../other\n", "0::/not/visible\n", "0::/\n"}) {
    write("/proc/self/cgroup", path);
    EXPECT_EQ(read().limit, kGiB) << path;
  }
}

TEST(Machine, MemoryLimitsAgreeWithThePage) {
  const MemoryLimits limits = memory_limits();
  EXPECT_EQ(limits.total / kMiB, static_cast<Bytes>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / kMiB);
  EXPECT_GT(limits.available, 0);
  EXPECT_LE(limits.available, limits.total);
  EXPECT_LT(limits.cgroup, limits.total);
}

TEST(Machine, MeasuresADiskAndRefusesWhatIsNone) {
  auto speed = measure_disk("/var/tmp", 16 * kMiB);
  ASSERT_TRUE(speed.ok()) << speed.error().message();
  EXPECT_EQ(speed->sample, 32 * kMiB) << "less would leave lanes idle";
  for (const Bytes value : {speed->read, speed->write, speed->mixed_read, speed->mixed_write, speed->single_read,
                            speed->single_write}) {
    EXPECT_GT(value, kMiB);
    EXPECT_LT(value, 1000 * kGiB);
  }
  EXPECT_FALSE(measure_disk("/no/such/place", 16 * kMiB).ok());
}

TEST(Machine, MeasuresWhatAPageCosts) {
  auto cost = measure_page_cost(64 * kMiB);
  if (!fault_support().userfaultfd) {
    EXPECT_FALSE(cost.ok());
    GTEST_SKIP() << cost.error().message();
  }
  ASSERT_TRUE(cost.ok()) << cost.error().message();
  EXPECT_GT(cost->page, 5);
  EXPECT_LT(cost->page, 100'000);
  EXPECT_GT(cost->fresh_mib, 0);
  EXPECT_GT(cost->fresh_huge_mib, 0);
  EXPECT_GT(cost->warm_huge_mib, 0);
}

TEST(Machine, MeasuresWhatAMoveCosts) {
  auto cost = measure_move_cost(".", kMiB);
  ASSERT_TRUE(cost.ok()) << cost.error().message();
  EXPECT_GT(cost->command, 0);
  EXPECT_GE(cost->transfer, 0);
  EXPECT_FALSE(measure_move_cost("/no/such/place", kMiB).ok());
}

TEST(Machine, FaultSupportGivesAReasonWhereItLacks) {
  const FaultSupport support = fault_support();
  if (!support.userfaultfd || !support.move || !support.kernel_faults) {
    EXPECT_FALSE(support.reason.empty());
  } else {
    EXPECT_TRUE(support.reason.empty());
    EXPECT_TRUE(support.write_protect);
  }
}

}  // namespace
}  // namespace outsize::host
