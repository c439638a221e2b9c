// A file system that is full: how often the kernel is asked for space that is not there.
#include <fcntl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>

#include "platforms/host/runtime_test_rig.h"
#include "platforms/host/spill_file.h"

namespace {

std::atomic<off_t> room{0};  // of a file, in bytes; 0: no limit
std::atomic<int> refused{0};

}  // namespace

// Stands before the C library's for this whole binary.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (mode == 0 && room > 0 && offset + bytes > room) {
    ++refused;
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
}

namespace outsize::host {
namespace {

void change_all(Runtime& runtime, std::vector<Tensor>& tensors, int steps) {
  for (int step = 0; step < steps; ++step) {
    for (Tensor& t : tensors) {
      const Operand write = t.operand(Access::kWrite);
      ASSERT_TRUE(runtime.op_begin(t.seed, {&write, 1}, false).ok());
      t.add(0, 0);
      runtime.op_end();
    }
    runtime.step();
  }
}

TEST_F(RuntimeTest, AFullDiskIsNotAskedAgainAtEveryStep) {
  in_child([](FaultMechanism mechanism) {
    room = 64 * kMiB;  // what must be, not a copy of all
    auto runtime = make(mechanism, 32 * kMiB, "lookahead");
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 46; ++i) tensors.push_back(birth(*runtime, 2 * kMiB, i));
    refused = 0;
    change_all(*runtime, tensors, 12);
    EXPECT_GT(refused.load(), 0) << "the file holds everything";
    EXPECT_LT(refused.load(), 400) << "or several thousand, one for each write";
    room = 0;
    for (const Tensor& t : tensors) EXPECT_TRUE(t.right());
  });
}

TEST_F(RuntimeTest, WhatIsSmallerIsAskedForThoughTheDiskWasFullForMore) {
  in_child([](FaultMechanism) {
    static Nanos time = 0;
    auto file = SpillFile::create({".", 0, [] { return time; }});
    ASSERT_TRUE(file.ok());
    room = 80 * kMiB;
    ASSERT_TRUE((*file)->allocate(64 * kMiB).ok());  // all that the file has grown to
    EXPECT_FALSE((*file)->allocate(20 * kMiB).ok());
    EXPECT_EQ(refused.load(), 2) << "growing by a large step, and by what is missing";
    EXPECT_FALSE((*file)->allocate(20 * kMiB).ok());
    EXPECT_EQ(refused.load(), 2) << "the same again at once";
    EXPECT_TRUE((*file)->allocate(2 * kMiB).ok()) << "less is asked for, and there is room";
    EXPECT_FALSE((*file)->allocate(20 * kMiB).ok());
    EXPECT_EQ(refused.load(), 4) << "what was granted ends the pause";
    time += 1'999'999;
    EXPECT_FALSE((*file)->allocate(20 * kMiB).ok());
    EXPECT_EQ(refused.load(), 4) << "the pause was 1 ms, then 2";
    for (int asked = 5; asked < 20; ++asked) {
      time += 250'000'000;
      EXPECT_FALSE((*file)->allocate(20 * kMiB).ok());
      EXPECT_GE(refused.load(), asked) << "no pause is longer than a quarter of a second";
    }
    room = 256 * kMiB;
    (*file)->ask_again();
    EXPECT_TRUE((*file)->allocate(20 * kMiB).ok());
    room = 0;
  });
}

// Where the gaps would do in sum, slots lie in pieces; the disk is not asked before each.
TEST_F(RuntimeTest, AFullDiskIsNotAskedForTensorsOfAllSizes) {
  in_child([](FaultMechanism mechanism) {
    room = 64 * kMiB;
    auto runtime = make(mechanism, 32 * kMiB, "lookahead");
    std::vector<Tensor> tensors;
    Bytes alive = 0;
    for (std::uint64_t i = 0; alive < 80 * kMiB; ++i) {
      const Bytes bytes = (1 + static_cast<Bytes>(i * 7 % 12)) * 256 * 1024;
      tensors.push_back(birth(*runtime, static_cast<std::size_t>(bytes), i));
      alive += bytes;
    }
    refused = 0;
    change_all(*runtime, tensors, 6);
    EXPECT_LT(refused.load(), 200) << "or one and more for each write";
    room = 0;
    for (const Tensor& t : tensors) EXPECT_TRUE(t.right());
  });
}

}  // namespace
}  // namespace outsize::host
