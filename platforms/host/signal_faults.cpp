#include "platforms/host/signal_faults.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <climits>
#include <mutex>

#include "platforms/host/fork_child.h"
#include "platforms/host/machine_error.h"

namespace outsize::host {
namespace {

constexpr std::size_t kMaxEnrolled = 4;
struct Enrolled {
  std::atomic<SignalFaults*> faults{nullptr};
  std::atomic<int> inside{0};  // threads between reading `faults` and their last use of it
};
std::array<Enrolled, kMaxEnrolled> enrolled;
// Whom to pass foreign faults to. Replaced, never freed: a handler may be reading it.
std::atomic<const struct sigaction*> previous{nullptr};
std::atomic<bool> passed_on{false};
std::mutex install_mutex;  // never taken in the handler

long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value) noexcept {
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

bool was_write(const ucontext_t* context) noexcept {
#if defined(__x86_64__)
  return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#elif defined(__aarch64__)
  // Records of {magic, size} follow each other; the syndrome's bit 6 is write-not-read.
  const auto* record = reinterpret_cast<const std::uint32_t*>(context->uc_mcontext.__reserved);
  const auto* end = record + sizeof context->uc_mcontext.__reserved / sizeof *record;
  while (record + 4 <= end && record[0] != 0 && record[1] != 0) {
    if (record[0] == 0x45535201U) return (record[2] & (1U << 6)) != 0;
    record += record[1] / sizeof *record;
  }
  return true;
#else
  (void)context;
  return true;  // the safe answer: the bytes count as changed
#endif
}

void die_as_without_us(const siginfo_t* info) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGSEGV, &action, nullptr);
  // A fault happens again when we return. A signal that somebody sent must be sent again; it
  // arrives when we return, because SIGSEGV is blocked until then.
  if (info->si_code <= 0) syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGSEGV);
}

void pass_on(int signal, siginfo_t* info, void* context) noexcept {
  const struct sigaction* to = previous.load();
  // A handler that reports and then raises the signal again to die (Python's faulthandler does)
  // would go round in circles with us: the second time round, die.
  const bool raised_by_us = info->si_code == SI_TKILL && info->si_pid == getpid();
  if (raised_by_us && passed_on.load()) return die_as_without_us(info);
  passed_on.store(true);
  if (to == nullptr) return die_as_without_us(info);
  if ((to->sa_flags & SA_SIGINFO) != 0) return to->sa_sigaction(signal, info, context);
  if (to->sa_handler == SIG_IGN && info->si_code <= 0) return;
  if (to->sa_handler == SIG_DFL || to->sa_handler == SIG_IGN) return die_as_without_us(info);
  to->sa_handler(signal);
}

bool ours(Address address, bool write) noexcept {
  switch (serve_fork_child(address, write)) {
    case ChildAnswer::kRetry: return true;
    case ChildAnswer::kNotOurs: return false;
    case ChildAnswer::kNotAChild: break;
  }
  bool found = false;
  for (Enrolled& entry : enrolled) {
    entry.inside.fetch_add(1);
    SignalFaults* faults = entry.faults.load();
    found = faults != nullptr && faults->park(address, write);
    entry.inside.fetch_sub(1);
    if (found) break;
  }
  return found;
}

void on_sigsegv(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const bool page_fault = info->si_code == SEGV_ACCERR || info->si_code == SEGV_MAPERR;
  const bool write = was_write(static_cast<const ucontext_t*>(context));
  if (!page_fault || !ours(address_of(info->si_addr), write)) pass_on(signal, info, context);
  errno = saved;
}

}  // namespace

Status install_fault_signal_handler() {
  const std::lock_guard lock(install_mutex);
  struct sigaction now {};
  if (sigaction(SIGSEGV, nullptr, &now) != 0) {
    return os_error(ErrorCode::kUnsupported, "sigaction(SIGSEGV)", errno);
  }
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_sigsegv) return {};
  previous.store(new struct sigaction(now));
  struct sigaction action {};
  action.sa_sigaction = on_sigsegv;
  // The alternate stack, where the thread has one, so that a stack overflow still reaches whoever
  // reports it.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGSEGV, &action, nullptr) != 0) {
    return os_error(ErrorCode::kUnsupported, "sigaction(SIGSEGV)", errno);
  }
  return {};
}

void reinstall_fault_signal_handler() {
  if (previous.load() != nullptr) (void)install_fault_signal_handler().ok();
}

Status SignalFaults::enroll() {
  for (Enrolled& entry : enrolled) {
    SignalFaults* expected = nullptr;
    if (!entry.faults.compare_exchange_strong(expected, this)) continue;
    enrolled_ = true;
    return install_fault_signal_handler();
  }
  return Error{ErrorCode::kUnsupported, "Too many page movers in one process.", {},
               "Close one that is no longer needed."};
}

void SignalFaults::unregister() noexcept {
  if (!enrolled_) return;
  enrolled_ = false;
  for (Enrolled& entry : enrolled) {
    SignalFaults* expected = this;
    if (!entry.faults.compare_exchange_strong(expected, nullptr)) continue;
    // Whoever is parked retries; the range must be open by now, or the retry is a plain crash.
    while (entry.inside.load() != 0) {
      resume(0, ~Address{0});
      sched_yield();
    }
  }
}

bool SignalFaults::park(Address address, bool write) noexcept {
  if (!areas_.contains(address)) return false;
  parked_.fetch_add(1);
  for (Slot& slot : slots_) {
    std::uint32_t expected = kFree;
    if (!slot.state.compare_exchange_strong(expected, kClaimed)) continue;
    slot.address.store(address & ~static_cast<Address>(kPageBytes - 1));
    slot.write.store(write);
    slot.state.store(kPosted);
    const std::uint64_t one = 1;
    while (::write(wake_, &one, sizeof one) < 0 && errno == EINTR) {
    }
    for (std::uint32_t state = slot.state.load(); state != kResumed; state = slot.state.load()) {
      futex(&slot.state, FUTEX_WAIT, state);
    }
    slot.state.store(kFree);
    parked_.fetch_sub(1);
    return true;
  }
  parked_.fetch_sub(1);
  // All slots taken: a short nap, then the touch faults again.
  const timespec nap{0, 200'000};
  syscall(SYS_nanosleep, &nap, nullptr);
  return true;
}

bool SignalFaults::take(Address* address, bool* write) noexcept {
  for (Slot& slot : slots_) {
    std::uint32_t expected = kPosted;
    if (!slot.state.compare_exchange_strong(expected, kTaken)) continue;
    // Read only now: should the slot have been resumed and posted anew in between, we report the
    // new fault early, and it is still posted, so it will be reported again.
    *address = slot.address.load();
    *write = slot.write.load();
    return true;
  }
  return false;
}

void SignalFaults::resume(Address begin, Address end) noexcept {
  if (parked_.load() == 0) return;
  for (Slot& slot : slots_) {
    std::uint32_t state = slot.state.load();
    while (state == kPosted || state == kTaken) {
      const Address address = slot.address.load();
      if (address < begin || address >= end) break;
      if (!slot.state.compare_exchange_weak(state, kResumed)) continue;
      futex(&slot.state, FUTEX_WAKE, INT_MAX);
      break;
    }
  }
}

}  // namespace outsize::host
