// Forks while ranges are closed, guarded and open: the child sees right bytes, the parent goes on.
#include "platforms/host/fork_child.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "platforms/host/page_mover_rig.h"

#if defined(__SANITIZE_THREAD__)
#define SKIP_UNDER_TSAN() GTEST_SKIP() << "TSan has no threads after a multi-threaded fork"
#else
#define SKIP_UNDER_TSAN() (void)0
#endif

namespace outsize::host {
namespace {

constexpr Bytes kSpilled = kChunkBytes + 4 * kPageBytes;
// It lies in two pieces of the spill file, the first of them behind the second.
constexpr FileRun kRuns[] = {{16 * kPageBytes, kSpilled - 3 * kPageBytes}, {kPageBytes, 3 * kPageBytes}};

// What a runtime has at hand in the child's signal handler.
int spill_fd = -1;
char* spilled = nullptr;
std::atomic<int> fills{0};

bool fill_from_spill(void* address) {
  if (address < spilled || address >= spilled + kSpilled) return false;
  ++fills;
  return child_fill(spilled, spill_fd, kRuns);
}

class ForkChildTest : public testing::TestWithParam<Mechanism> {
 protected:
  void SetUp() override {
    SKIP_UNDER_TSAN();
    rig_ = std::make_unique<MoverRig>(GetParam());
    if (!rig_->available()) GTEST_SKIP() << rig_->why_not();
    spilled = at(0);
    fills = 0;
    file_ = std::tmpfile();
    spill_fd = fileno(file_);
    std::vector<char> bytes(static_cast<std::size_t>(kSpilled));
    fill_pattern(bytes.data(), kSpilled, 1);
    const char* from = bytes.data();
    for (const FileRun& run : kRuns) {
      ASSERT_EQ(pwrite(spill_fd, from, static_cast<std::size_t>(run.bytes), run.offset), run.bytes);
      from += run.bytes;
    }
  }
  void TearDown() override {
    if (file_ != nullptr) std::fclose(file_);
  }
  PageMover& mover() { return rig_->mover(); }
  char* at(Bytes offset) { return rig_->at(offset); }

  // Forks as the runtime does; `work` runs in the child and its result is the exit status.
  template <class Work>
  pid_t fork_with(Work work) {
    mover().before_fork();
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(10);  // a hang is a failure, not a wait
      const PageMover::Range closed{spilled, kSpilled};
      mover().after_fork_child(&closed, 1, fill_from_spill);
      _exit(work());
    }
    mover().after_fork_parent();
    return pid;
  }
  static int status_of(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }
  static int exit_code_of(pid_t pid) {
    const int status = status_of(pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  // A child that returns kSurvived lived to tell; ASan reports the signal and exits instead.
  static constexpr int kSurvived = 42;
  static bool died_of_a_bad_access(int status) {
#if defined(__SANITIZE_ADDRESS__)
    return WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != kSurvived;
#else
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
#endif
  }

  std::unique_ptr<MoverRig> rig_;
  std::FILE* file_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(, ForkChildTest, testing::ValuesIn(kAllMechanisms),
                         [](const auto& info) { return mechanism_name(info.param); });

TEST_P(ForkChildTest, ChildReadsAndWritesEverything) {
  char* guarded = at(4 * kChunkBytes);
  char* open = at(8 * kChunkBytes);
  ASSERT_DONE(mover().populate(guarded, kChunkBytes));
  ASSERT_DONE(mover().populate(open, kChunkBytes));
  fill_pattern(guarded, kChunkBytes, 2);
  fill_pattern(open, kChunkBytes, 3);
  ASSERT_DONE(mover().guard(guarded, kChunkBytes));
  const pid_t pid = fork_with([&] {
    errno = 77;
    if (first_difference(spilled, kSpilled, 1) != -1) return 1;
    if (errno != 77) return 2;
    if (first_difference(guarded, kChunkBytes, 2) != -1) return 3;
    if (first_difference(open, kChunkBytes, 3) != -1) return 4;
    for (char* range : {spilled, guarded, open}) {
      for (Bytes i = 0; i < kChunkBytes; i += kPageBytes) range[i] = 9;
    }
    if (guarded[kPageBytes] != 9 || spilled[0] != 9) return 5;
    return fills == 1 ? 0 : 6;
  });
  EXPECT_EQ(exit_code_of(pid), 0);
  // Nothing of it reached the parent, whose guard and closed range still report.
  EXPECT_EQ(first_difference(guarded, kChunkBytes, 2), -1);
  EXPECT_EQ(first_difference(open, kChunkBytes, 3), -1);
  std::thread writer([&] { guarded[0] = 1; });
  EXPECT_EQ(rig_->next_fault().address, guarded);
  ASSERT_DONE(mover().unguard(guarded, kChunkBytes));
  writer.join();
  EXPECT_EQ(MoverRig::resident(spilled, kSpilled), 0);
}

TEST_P(ForkChildTest, GuardSetByMoveInIsPlainMemoryInTheChild) {
  char* pool = at(8 * kChunkBytes);
  char* tensor = at(4 * kChunkBytes);
  ASSERT_DONE(mover().populate(pool, kChunkBytes));
  ASSERT_DONE(mover().move_in(pool, tensor, kChunkBytes, true));
  const pid_t pid = fork_with([&] {
    for (Bytes i = 0; i < kChunkBytes; i += kPageBytes) tensor[i] = 9;
    return 0;
  });
  EXPECT_EQ(exit_code_of(pid), 0);
}

TEST_P(ForkChildTest, ThreadsOfTheChildFillARangeOnce) {
  const pid_t pid = fork_with([&] {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (Bytes i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        // Each writes a word of its own; a second fill would undo it.
        auto* word = reinterpret_cast<volatile std::uint64_t*>(spilled + i * kPageBytes + 64);
        *word = 123;
        if (reinterpret_cast<volatile std::uint64_t*>(spilled)[0] != pattern(0, 1)) ++wrong;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (*word != 123) ++wrong;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return wrong == 0 && fills == 1 ? 0 : 1;
  });
  EXPECT_EQ(exit_code_of(pid), 0);
}

TEST_P(ForkChildTest, GrandchildInheritsWhatTheChildHas) {
  const pid_t pid = fork_with([&] {
    spilled[0] = 55;  // filled, then changed, by the child
    mover().before_fork();
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      const PageMover::Range closed{spilled, kSpilled};
      mover().after_fork_child(&closed, 1, fill_from_spill);
      if (spilled[0] != 55) _exit(1);
      spilled[0] = static_cast<char>(pattern(0, 1));
      _exit(first_difference(spilled, kSpilled, 1) == -1 ? 0 : 2);
    }
    mover().after_fork_parent();
    int status = 0;
    waitpid(grandchild, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 9;
  });
  EXPECT_EQ(exit_code_of(pid), 0);
}

TEST_P(ForkChildTest, UnreadableSpillFileKillsTheChildRatherThanShowZeros) {
  ASSERT_EQ(ftruncate(spill_fd, kPageBytes), 0);
  const pid_t pid = fork_with([&] {
    (void)peek(spilled + kChunkBytes);
    return kSurvived;
  });
  EXPECT_TRUE(died_of_a_bad_access(status_of(pid)));
}

TEST_P(ForkChildTest, ForeignFaultKillsTheChildAsUsual) {
  const pid_t pid = fork_with([&] {
    *reinterpret_cast<volatile char*>(16) = 1;
    return kSurvived;
  });
  EXPECT_TRUE(died_of_a_bad_access(status_of(pid)));
}

TEST_P(ForkChildTest, PagesSharedWithALivingChildStillComeAndGo) {
  char* tensor = at(4 * kChunkBytes);
  char* pool = at(8 * kChunkBytes);
  char* second = at(12 * kChunkBytes);
  const Bytes bytes = 2 * kChunkBytes + 3 * kPageBytes;
  ASSERT_DONE(mover().populate(tensor, bytes));
  ASSERT_DONE(mover().populate(second, bytes));
  fill_pattern(tensor, bytes, 4);
  fill_pattern(second, bytes, 5);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork_with([&] {
    close(ends[1]);
    char end;
    // Alive, holding every page, until the parent is done.
    if (read(ends[0], &end, 1) != 0) return 1;
    if (first_difference(tensor, bytes, 4) != -1) return 2;
    return first_difference(second, bytes, 5) == -1 ? 0 : 3;
  });
  close(ends[0]);
  ASSERT_DONE(mover().move_out(tensor, pool, bytes));
  EXPECT_EQ(MoverRig::resident(tensor, bytes), 0);
  fill_pattern(pool, bytes, 6);  // would show in the child, were the pages still shared
  for (const bool guarded : {false, true}) {
    ASSERT_DONE(mover().move_in(pool, tensor, bytes, guarded));
    EXPECT_EQ(first_difference(tensor, bytes, 6), -1);
    ASSERT_DONE(mover().move_out(tensor, pool, bytes));
    fill_pattern(pool, bytes, 6);
  }
  // A pool page that the child shares cannot move in either, but its bytes must.
  ASSERT_DONE(mover().move_in(second, tensor, bytes, true));
  EXPECT_EQ(first_difference(tensor, bytes, 5), -1);
  EXPECT_EQ(MoverRig::resident(second, bytes), 0);
  std::thread writer([&] { tensor[kChunkBytes] = 1; });
  EXPECT_EQ(rig_->next_fault().address, tensor + kChunkBytes);
  ASSERT_DONE(mover().unguard(tensor, bytes));
  writer.join();
  close(ends[1]);
  EXPECT_EQ(exit_code_of(pid), 0);
}

TEST_P(ForkChildTest, ForkWhileThreadsWaitOnClosedPages) {
  std::thread toucher([&] { EXPECT_EQ(*static_cast<volatile char*>(at(20 * kChunkBytes)), 0); });
  rig_->next_fault();
  for (int i = 0; i < 10; ++i) {
    const pid_t pid = fork_with([&] { return first_difference(spilled, kSpilled, 1) == -1 ? 0 : 1; });
    EXPECT_EQ(exit_code_of(pid), 0);
  }
  ASSERT_DONE(mover().populate(at(20 * kChunkBytes), kPageBytes));
  toucher.join();
}

TEST(Readable, TellsWhatCanBeRead) {
  void* page = mmap(nullptr, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto address = reinterpret_cast<std::uintptr_t>(page);
  EXPECT_TRUE(readable(address));
  EXPECT_TRUE(readable(address + kPageBytes - 1));
  mprotect(page, kPageBytes, PROT_NONE);
  EXPECT_FALSE(readable(address + 100));
  EXPECT_FALSE(readable(8));
  munmap(page, kPageBytes);
}

}  // namespace
}  // namespace outsize::host
