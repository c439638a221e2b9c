#include "platforms/host/spill_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace outsize::host {
namespace {

namespace fs = std::filesystem;

// A scratch directory on a disk: TMPDIR may be RAM.
class SpillFileTest : public testing::Test {
 protected:
  SpillFileTest() {
    std::string path = "/var/tmp/outsize-test-XXXXXX";
    directory_ = mkdtemp(path.data());
  }
  ~SpillFileTest() override { fs::remove_all(directory_); }

  void open(Bytes limit = 0) {
    auto made = SpillFile::create({directory_, limit});
    ASSERT_TRUE(made.ok()) << made.error().message();
    file_ = std::move(*made);
  }
  Slot take(Bytes bytes) {
    auto slot = file_->allocate(bytes);
    EXPECT_TRUE(slot.ok()) << slot.error().message();
    return slot.ok() ? *slot : Slot{};
  }
  // What the file system has set aside for the file.
  Bytes on_disk() const {
    struct stat info {};
    fstat(file_->fd(), &info);
    return static_cast<Bytes>(info.st_blocks) * 512;
  }
  void reclaim_often() {
    for (int i = 0; i < 6; ++i) file_->reclaim();
  }

  std::string directory_;
  std::unique_ptr<SpillFile> file_;
};

TEST_F(SpillFileTest, HasNoNameAndIsPrivate) {
  open();
  EXPECT_TRUE(fs::is_empty(directory_));
  struct stat info {};
  ASSERT_EQ(fstat(file_->fd(), &info), 0);
  EXPECT_EQ(info.st_nlink, 0U);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_EQ(info.st_uid, getuid());
  EXPECT_EQ(fcntl(file_->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  const std::string link = "/proc/self/fd/" + std::to_string(file_->fd());
  EXPECT_NE(linkat(AT_FDCWD, link.c_str(), AT_FDCWD, (directory_ + "/name").c_str(), AT_SYMLINK_FOLLOW), 0)
      << "nobody can give it a name later";
  EXPECT_EQ(file_->directory(), directory_);
}

TEST_F(SpillFileTest, ReservesBeforeUse) {
  open();
  const Slot slot = take(3 * kPageBytes);
  EXPECT_EQ(slot.offset % kPageBytes, 0);
  EXPECT_EQ(slot.bytes, 3 * kPageBytes);
  EXPECT_EQ(file_->used(), 3 * kPageBytes);
  EXPECT_GE(file_->size(), slot.offset + slot.bytes);
  EXPECT_GE(on_disk(), file_->size());
  EXPECT_EQ(take(1).bytes, kPageBytes) << "rounded up to pages";
  EXPECT_EQ(file_->allocate(0).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(SpillFileTest, LimitIsObeyedToTheByteAndExplained) {
  open(80 * kMiB);
  const Slot first = take(70 * kMiB);
  auto more = file_->allocate(11 * kMiB);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, ErrorCode::kOutOfSpace);
  EXPECT_NE(more.error().message().find("limit is 80.0 MiB"), std::string::npos) << more.error().message();
  EXPECT_NE(more.error().message().find("--spill-limit"), std::string::npos);
  take(10 * kMiB);
  EXPECT_EQ(file_->size(), 80 * kMiB);
  EXPECT_FALSE(file_->allocate(kPageBytes).ok());
  file_->release(first);
  take(70 * kMiB);
}

TEST_F(SpillFileTest, WhereNoRunIsLargeEnoughSeveralAreTaken) {
  open(80 * kMiB);
  std::vector<Slot> slots;
  for (int i = 0; i < 78; ++i) slots.push_back(take(kMiB));  // two are left at the end
  for (std::size_t i = 0; i < 78; i += 2) file_->release(slots[i]);
  const Slot large = take(40 * kMiB);
  EXPECT_EQ(large.bytes, 40 * kMiB);
  ASSERT_EQ(large.pieces.size(), 39U);
  EXPECT_EQ(large.pieces.front(), (FileRun{78 * kMiB, 2 * kMiB})) << "the largest first";
  EXPECT_EQ(large.offset, 78 * kMiB);
  EXPECT_EQ(file_->used(), 79 * kMiB);
  EXPECT_EQ(take(kMiB).pieces.size(), 0U);
  EXPECT_EQ(file_->allocate(kPageBytes).error().code, ErrorCode::kOutOfSpace);
  file_->release(large);
  EXPECT_EQ(file_->used(), 40 * kMiB);
  for (std::size_t i = 1; i < 78; i += 2) file_->release(slots[i]);
  EXPECT_EQ(take(60 * kMiB).pieces.size(), 0U) << "whole again";
}

TEST_F(SpillFileTest, PiecesLieOutsideOfHolesThatCannotBeFilled) {
  open(200 * kMiB);
  const Slot low = take(20 * kMiB), rest = take(180 * kMiB);
  file_->release(low);
  reclaim_often();
  EXPECT_EQ(file_->size(), 180 * kMiB);
  EXPECT_LT(on_disk(), 181 * kMiB);
  ASSERT_TRUE(file_->hold(180 * kMiB, 5 * kMiB).ok());
  EXPECT_EQ(file_->size(), 185 * kMiB) << "of a hole as much as is missing";
  EXPECT_GE(on_disk(), 185 * kMiB);
  take(20 * kMiB);
  EXPECT_GE(on_disk(), 200 * kMiB);
  file_->release(rest);
}

TEST_F(SpillFileTest, FreedSpaceGoesBackFromTheTailAndTheMiddle) {
  open();
  const Slot low = take(40 * kMiB);
  const Slot middle = take(40 * kMiB);
  const Slot high = take(40 * kMiB);
  file_->release(low);
  file_->release(high);
  reclaim_often();
  EXPECT_EQ(file_->used(), 40 * kMiB);
  EXPECT_LT(file_->size(), 40 * kMiB + 16 * kMiB);
  EXPECT_LT(on_disk(), file_->size() + kMiB);
  // What was a hole is reserved again before it is used.
  const Slot again = take(40 * kMiB);
  EXPECT_GE(on_disk(), 80 * kMiB);
  EXPECT_EQ(file_->used(), 80 * kMiB);
  file_->release(again);
  file_->release(middle);
  reclaim_often();
  EXPECT_LT(file_->size(), 16 * kMiB);
}

TEST_F(SpillFileTest, SpaceThatEveryStepUsesAgainStays) {
  open();
  for (int step = 0; step < 20; ++step) {
    const Slot slot = take(100 * kMiB);
    if (step > 0) {
      EXPECT_GE(on_disk(), 100 * kMiB);
    }
    file_->release(slot);
    file_->reclaim();
    EXPECT_GE(file_->size(), 100 * kMiB);
    EXPECT_LE(file_->size(), 164 * kMiB);
  }
}

TEST_F(SpillFileTest, WhatIsHeldIsReservedAndStays) {
  open(400 * kMiB);
  ASSERT_TRUE(file_->hold(150 * kMiB, 20 * kMiB).ok());
  EXPECT_GE(on_disk(), 170 * kMiB);
  std::vector<Slot> slots;
  for (int i = 0; i < 7; ++i) slots.push_back(take(20 * kMiB));
  for (int step = 0; step < 8; ++step) {
    ASSERT_TRUE(file_->hold(150 * kMiB, 20 * kMiB).ok());
    file_->reclaim();
    EXPECT_GE(on_disk(), 170 * kMiB);
  }
  for (int i = 0; i < 7; i += 2) file_->release(slots[static_cast<std::size_t>(i)]);
  reclaim_often();
  ASSERT_LT(on_disk(), 150 * kMiB) << "holes to fill again";
  ASSERT_TRUE(file_->hold(150 * kMiB, 20 * kMiB).ok());
  EXPECT_GE(on_disk(), 170 * kMiB);
  EXPECT_LE(file_->size(), 170 * kMiB + 64 * kMiB);
}

TEST_F(SpillFileTest, WhatCannotBeHeldIsExplained) {
  open(80 * kMiB);
  EXPECT_TRUE(file_->hold(60 * kMiB, 20 * kMiB).ok());
  const Status more = file_->hold(61 * kMiB, 20 * kMiB);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, ErrorCode::kOutOfSpace);
  EXPECT_NE(more.error().message().find("cannot hold 61.0 MiB and, to exchange tensors"), std::string::npos)
      << more.error().message();
  EXPECT_NE(more.error().message().find("Raise --spill-limit to 81.0 MiB or more"), std::string::npos)
      << more.error().message();
  open(81 * kMiB);
  EXPECT_TRUE(file_->hold(61 * kMiB, 20 * kMiB).ok()) << "what was named is enough";
}

TEST_F(SpillFileTest, ALimitWithoutItsUnitIsNotTakenForAFullDisk) {
  const auto made = SpillFile::create({directory_, 512});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(made.error().message().find("512 bytes holds no tensor. Give --spill-limit with a unit"), std::string::npos);
}

TEST_F(SpillFileTest, RamIsRefused) {
  struct statfs system {};
  if (statfs("/dev/shm", &system) != 0 || system.f_type != 0x01021994) GTEST_SKIP() << "/dev/shm is no tmpfs";
  auto made = SpillFile::create({"/dev/shm", 0});
  ASSERT_FALSE(made.ok());
  const std::string text = made.error().message();
  EXPECT_NE(text.find("is on tmpfs, which is RAM"), std::string::npos) << text;
  EXPECT_NE(text.find("--spill-dir"), std::string::npos);
  EXPECT_NE(text.find("TMPDIR"), std::string::npos);
}

TEST_F(SpillFileTest, NetworkFileSystemsAreKnownByNumber) {  // those of statfs(2)
  EXPECT_STREQ(network_file_system(0x6969), "NFS");
  EXPECT_STREQ(network_file_system(0xFF534D42), "CIFS");
  EXPECT_STREQ(network_file_system(0x65735546), "FUSE");
  EXPECT_EQ(network_file_system(0xEF53), nullptr) << "ext4";
  EXPECT_EQ(network_file_system(0x58465342), nullptr) << "XFS";
}

TEST_F(SpillFileTest, ALimitBeyondTheDiskIsWarnedOf) {
  auto modest = SpillFile::create({directory_, 16 * kMiB});
  ASSERT_TRUE(modest.ok());
  EXPECT_EQ((*modest)->warning(), "");
  EXPECT_GT((*modest)->disk_size(), 16 * kMiB);
  auto greedy = SpillFile::create({directory_, Bytes{1} << 60});
  ASSERT_TRUE(greedy.ok());
  EXPECT_NE((*greedy)->warning().find("is more than the"), std::string::npos) << (*greedy)->warning();
}

TEST_F(SpillFileTest, WrongDirectoriesAreExplained) {
  auto missing = SpillFile::create({directory_ + "/none", 0});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message().find("No such file or directory"), std::string::npos);
  const std::string plain = directory_ + "/plain";
  close(::open(plain.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  auto file = SpillFile::create({plain, 0});
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message().find("is not a directory"), std::string::npos);
}

TEST_F(SpillFileTest, ForbiddenDirectoryIsExplained) {
  if (getuid() == 0) GTEST_SKIP() << "root may write everywhere";
  ASSERT_EQ(chmod(directory_.c_str(), 0500), 0);
  auto made = SpillFile::create({directory_, 0});
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message().find("You may not write there"), std::string::npos) << made.error().message();
}

TEST_F(SpillFileTest, KillLeavesNothing) {
  const pid_t pid = fork();
  if (pid == 0) {
    auto made = SpillFile::create({directory_, 0});
    if (!made.ok() || !(*made)->allocate(kMiB).ok()) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(fs::is_empty(directory_));
}

// A child that waits until told to end.
class Child {
 public:
  explicit Child(SpillFile& file) {
    EXPECT_EQ(pipe2(go_, O_CLOEXEC), 0);
    file.before_fork();
    pid_ = fork();
    if (pid_ == 0) {
      file.after_fork_child();
      close(go_[1]);
      char end;
      (void)!read(go_[0], &end, 1);
      const bool refuses = !file.allocate(kPageBytes).ok();
      _exit(refuses ? 0 : 1);
    }
    file.after_fork_parent();
    close(go_[0]);
  }
  int end() {
    // A byte, not the end of the file: a later child may hold our end of the pipe too.
    EXPECT_EQ(write(go_[1], "", 1), 1);
    close(go_[1]);
    int status = 0;
    waitpid(pid_, &status, 0);
    return status;
  }

 private:
  int go_[2];
  pid_t pid_;
};

TEST_F(SpillFileTest, SlotsOfALivingChildAreNotReused) {
  open();
  const Slot before = take(kMiB);
  Child child(*file_);
  const Slot after = take(kMiB);
  file_->release(before);
  EXPECT_NE(take(kMiB).offset, before.offset);
  file_->release(after);
  EXPECT_EQ(take(kMiB).offset, after.offset) << "the child never saw this one";
  EXPECT_EQ(child.end(), 0);
  EXPECT_EQ(take(kMiB).offset, before.offset);
}

TEST_F(SpillFileTest, TwoChildrenBothCount) {
  open();
  const Slot slot = take(kMiB);
  Child first(*file_);
  Child second(*file_);
  file_->release(slot);
  EXPECT_EQ(first.end(), 0);
  EXPECT_NE(take(kMiB).offset, slot.offset);
  EXPECT_EQ(second.end(), 0);
  EXPECT_EQ(take(kMiB).offset, slot.offset);
}

TEST_F(SpillFileTest, AFailedForkHoldsNothing) {
  open();
  const Slot slot = take(kMiB);
  file_->before_fork();
  file_->after_fork_parent();  // what pthread_atfork calls where fork failed
  file_->release(slot);
  EXPECT_EQ(take(kMiB).offset, slot.offset);
}

// Small file systems of our own; needs root.
class SpillFileMountTest : public SpillFileTest {
 protected:
  ~SpillFileMountTest() override {
    file_.reset();
    if (mounted_) umount2((directory_ + "/mount").c_str(), MNT_DETACH);
  }
  bool mount_small(const std::string& megabytes) {
    const std::string image = directory_ + "/image";
    const std::string point = directory_ + "/mount";
    fs::create_directory(point);
    const std::string command = "truncate -s " + megabytes + "M " + image + " && mkfs.ext4 -q -m 0 " + image +
                                " 2>/dev/null && mount -o loop " + image + " " + point + " 2>/dev/null";
    mounted_ = getuid() == 0 && std::system(command.c_str()) == 0;
    return mounted_;
  }
  bool mounted_ = false;
};

TEST_F(SpillFileMountTest, FullDiskIsAClearErrorBeforeAndDuringTheRun) {
  if (!mount_small("128")) GTEST_SKIP() << "cannot mount a small file system here";
  auto none = SpillFile::create({directory_ + "/mount", 0});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kOutOfSpace);
  EXPECT_NE(none.error().message().find("is full"), std::string::npos);

  auto made = SpillFile::create({directory_ + "/mount", 10 * kGiB});
  ASSERT_TRUE(made.ok()) << made.error().message();
  file_ = std::move(*made);
  Bytes taken = 0;
  for (;;) {
    auto slot = file_->allocate(4 * kMiB);
    if (!slot.ok()) {
      EXPECT_EQ(slot.error().code, ErrorCode::kOutOfSpace);
      EXPECT_NE(slot.error().message().find("No space left"), std::string::npos) << slot.error().message();
      break;
    }
    taken += slot->bytes;
    ASSERT_LT(taken, 256 * kMiB);
  }
  EXPECT_GT(taken, 64 * kMiB) << "steps shrink to what is asked for when the disk is nearly full";
  EXPECT_EQ(file_->used(), taken);
  EXPECT_LE(file_->size(), taken + 4 * kMiB);
}

TEST_F(SpillFileMountTest, ReadOnlyFileSystemIsExplained) {
  if (!mount_small("16")) GTEST_SKIP() << "cannot mount a small file system here";
  ASSERT_EQ(mount(nullptr, (directory_ + "/mount").c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  auto made = SpillFile::create({directory_ + "/mount", kMiB});
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message().find("It is read-only"), std::string::npos) << made.error().message();
}

}  // namespace
}  // namespace outsize::host
