// Faults that are not ours go where they went before us; a sandboxed ordinary user gets the signal
// mechanism.
#include "platforms/host/signal_faults.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>
#include <thread>

#include "platforms/host/page_mover_rig.h"

namespace outsize::host {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // its own SIGSEGV handler ends the process in its own way
#else
constexpr bool kSanitized = false;
#endif

sigjmp_buf back;
volatile int foreign_calls = 0;
void* foreign_address = nullptr;

void foreign_handler(int, siginfo_t* info, void*) {
  foreign_calls = foreign_calls + 1;
  foreign_address = info->si_addr;
  siglongjmp(back, 1);
}

// SIGSEGV goes to `foreign_handler` while this lives.
class ForeignHandler {
 public:
  ForeignHandler() {
    struct sigaction action {};
    action.sa_sigaction = foreign_handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    foreign_calls = 0;
  }
  // Not whoever was there before: that may be us, still passing faults on to `foreign_handler`.
  // The next mover installs us again.
  ~ForeignHandler() { signal(SIGSEGV, SIG_DFL); }
};

char* const kNowhere = reinterpret_cast<char*>(16);

void touch_nowhere() {
  if (sigsetjmp(back, 1) == 0) *const_cast<volatile char*>(kNowhere) = 1;
}

void expect_ours_still_works(MoverRig& rig) {
  std::thread toucher([&] { (void)peek(rig.at(0)); });
  EXPECT_EQ(rig.next_fault().address, rig.at(0));
  ASSERT_DONE(rig.mover().populate(rig.at(0), kPageBytes));
  toucher.join();
  ASSERT_DONE(rig.mover().discard(rig.at(0), kPageBytes));
}

TEST(SignalFaults, ForeignFaultsReachTheHandlerBeforeUs) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have a SIGSEGV handler of their own";
  const ForeignHandler foreign;
  MoverRig rig(Mechanism::kSignal);
  ASSERT_TRUE(rig.available()) << rig.why_not();
  reinstall_fault_signal_handler();  // an earlier test's mover may have been there first
  touch_nowhere();
  EXPECT_EQ(foreign_calls, 1);
  EXPECT_EQ(foreign_address, kNowhere);
  expect_ours_still_works(rig);
  EXPECT_EQ(foreign_calls, 1);
}

TEST(SignalFaults, ReinstallPutsUsBeforeALaterHandler) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have a SIGSEGV handler of their own";
  MoverRig rig(Mechanism::kSignal);
  ASSERT_TRUE(rig.available()) << rig.why_not();
  const ForeignHandler foreign;  // as faulthandler.enable() would
  reinstall_fault_signal_handler();
  reinstall_fault_signal_handler();  // harmless twice
  expect_ours_still_works(rig);
  EXPECT_EQ(foreign_calls, 0);
  touch_nowhere();
  EXPECT_EQ(foreign_calls, 1);
}

// Python's faulthandler: reports, puts back who was there before it, raises the signal again.
struct sigaction before_reporter;
void reporter(int signal) {
  static const char text[] = "reported\n";
  (void)!write(2, text, sizeof text - 1);
  sigaction(SIGSEGV, &before_reporter, nullptr);
  raise(signal);
}

TEST(SignalFaultsDeathTest, CrashesStillKillWithTheRightSignal) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have a SIGSEGV handler of their own";
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT({
    signal(SIGSEGV, SIG_DFL);
    const MoverRig rig(Mechanism::kSignal);
    *const_cast<volatile char*>(kNowhere) = 1;
  }, testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT({
    signal(SIGSEGV, SIG_DFL);
    const MoverRig rig(Mechanism::kSignal);
    raise(SIGSEGV);
  }, testing::KilledBySignal(SIGSEGV), "");
}

TEST(SignalFaultsDeathTest, AReporterThatRaisesAgainDoesNotGoInCircles) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have a SIGSEGV handler of their own";
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  for (const bool reporter_first : {true, false}) {
    EXPECT_EXIT({
      signal(SIGSEGV, SIG_DFL);
      std::unique_ptr<MoverRig> rig;
      if (!reporter_first) rig = std::make_unique<MoverRig>(Mechanism::kSignal);
      struct sigaction action {};
      action.sa_handler = reporter;
      action.sa_flags = SA_NODEFER;
      sigaction(SIGSEGV, &action, &before_reporter);
      if (reporter_first) rig = std::make_unique<MoverRig>(Mechanism::kSignal);
      else reinstall_fault_signal_handler();
      alarm(5);
      *const_cast<volatile char*>(kNowhere) = 1;
    }, testing::KilledBySignal(SIGSEGV), "reported");
  }
}

TEST(SignalFaults, HandlerOnASmallAlternateStack) {
  MoverRig rig(Mechanism::kSignal);
  ASSERT_TRUE(rig.available()) << rig.why_not();
  std::thread toucher([&] {
    std::vector<char> memory(64 * 1024);
    stack_t stack{};
    stack.ss_sp = memory.data();
    stack.ss_size = memory.size();
    stack_t before{};
    sigaltstack(&stack, &before);
    EXPECT_EQ(peek(rig.at(0)), 0);
    sigaltstack(&before, nullptr);
  });
  rig.next_fault();
  ASSERT_DONE(rig.mover().populate(rig.at(0), kPageBytes));
  toucher.join();
}

TEST(SignalFaults, KeepsErrno) {
  MoverRig rig(Mechanism::kSignal);
  ASSERT_TRUE(rig.available()) << rig.why_not();
  std::thread toucher([&] {
    errno = 1234;
    (void)peek(rig.at(0));
    EXPECT_EQ(errno, 1234);
  });
  rig.next_fault();
  ASSERT_DONE(rig.mover().populate(rig.at(0), kPageBytes));
  toucher.join();
}

// Forbids userfaultfd and io_uring, as containers do.
bool forbid_calls(bool mremap_too) {
  const auto refuse = [](unsigned number) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
  };
  const sock_filter no = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      refuse(SYS_userfaultfd), no, refuse(SYS_io_uring_setup), no,
      refuse(SYS_io_uring_enter), no, refuse(SYS_io_uring_register), no,
      refuse(mremap_too ? SYS_mremap : SYS_userfaultfd), no,
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int sandboxed_round_trip(bool mremap_too) {
  if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 1;
  // Changing the user took this away; a user's own program has it, and /proc/self/mem with it.
  prctl(PR_SET_DUMPABLE, 1);
  if (!forbid_calls(mremap_too)) return 2;
  alarm(10);
  MoverRig refused(Mechanism::kUffdMove);
  if (refused.available()) return 3;
  if (refused.why_not().find("userfaultfd failed") == std::string::npos) return 4;
  const Bytes bytes = 3 * kPageBytes;
  void* arena = mmap(nullptr, 2 * kChunkBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* tensor = static_cast<char*>(arena);
  char* pool = tensor + kChunkBytes;
  PageMover* mover = nullptr;
  auto made = make_page_mover(FaultMechanism::kAuto, arena, 2 * kChunkBytes, [&](const Fault&) {
    if (!mover->move_in(pool, tensor, bytes, true).ok()) _exit(5);
  });
  if (!made.ok() || (*made)->kind() != PageMover::Kind::kSignal) return 6;
  mover = made->get();
  if (!mover->populate(pool, bytes).ok()) return 7;
  fill_pattern(pool, bytes, 1);
  return first_difference(tensor, bytes, 1) == -1 ? 0 : 8;
}

TEST(SignalFaults, OrdinaryUserUnderASeccompFilter) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "TSan has no threads after a multi-threaded fork";
#endif
  for (const bool mremap_too : {false, true}) {
    const pid_t pid = fork();
    if (pid == 0) _exit(sandboxed_round_trip(mremap_too));
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0) << (mremap_too ? "without mremap" : "with mremap");
  }
}

// A process may have 65530 mappings; near that limit mremap refuses and ranges move by copying.
TEST(SignalFaults, RunningOutOfMappingsIsNotTheEnd) {
  MoverRig rig(Mechanism::kSignal);
  ASSERT_TRUE(rig.available()) << rig.why_not();
  const Bytes bytes = 8 * kPageBytes;
  char* pool = rig.at(8 * kChunkBytes);
  ASSERT_DONE(rig.mover().populate(pool, 4 * bytes));
  // Alternating protections: one mapping a page.
  const std::size_t pages = 70000;
  void* filler = mmap(nullptr, pages * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(filler, MAP_FAILED);
  std::size_t page = 0;
  while (page < pages && mprotect(static_cast<char*>(filler) + page * kPageBytes, kPageBytes, PROT_READ) == 0) page += 2;
  const bool reached = page < pages;
  // Room for four more, fewer than mremap insists on.
  for (std::size_t undo = page - 2; undo >= page - 4; undo -= 2) {
    mprotect(static_cast<char*>(filler) + undo * kPageBytes, kPageBytes, PROT_NONE);
  }
  fill_pattern(pool, 4 * bytes, 3);
  const Status in = rig.mover().move_in(pool, rig.at(0), 4 * bytes, false);
  const Bytes wrong = in.ok() ? first_difference(rig.at(0), 4 * bytes, 3) : -1;
  munmap(filler, pages * kPageBytes);
  ASSERT_DONE(in);
  EXPECT_EQ(wrong, -1);
  if (!reached) GTEST_SKIP() << "this machine allows more mappings";
}

}  // namespace
}  // namespace outsize::host
