#include "adapter/gate.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

namespace outsize::adapter {
namespace detail {

constinit thread_local ThreadState* tls_state __attribute__((tls_model("initial-exec"))) = nullptr;
std::atomic<host::Runtime*> open_runtime{nullptr};

namespace {

// Never destroyed: threads may run ops while the process exits.
struct Registry {
  std::mutex mutex;
  std::vector<ThreadState*> threads;
};

Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

struct ThreadStateOwner {
  ThreadState* state = nullptr;
  ~ThreadStateOwner() {
    if (state == nullptr) return;
    {
      Registry& all = registry();
      const std::lock_guard lock(all.mutex);
      std::erase(all.threads, state);
    }
    tls_state = nullptr;
    delete state;
  }
};

}  // namespace

ThreadState& make_thread_state() {
  thread_local ThreadStateOwner owner;
  auto* state = new ThreadState;
  state->operands.resize(64);
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    all.threads.push_back(state);
  }
  owner.state = state;
  tls_state = state;
  return *state;
}

}  // namespace detail

namespace {

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

// Every store that another thread issued before this call is visible after it.
void barrier_in_every_thread() {
  static const bool available = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  if (available && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  // Forbidden by a seccomp filter. A store buffer drains within microseconds.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

bool another_thread_inside() {
  detail::Registry& all = detail::registry();
  const std::lock_guard lock(all.mutex);
  return std::ranges::any_of(all.threads, [](const ThreadState* state) {
    return state != detail::tls_state && state->inside.load(std::memory_order_acquire);
  });
}

// In a forked child only this thread exists, and it goes on without us. The
// others' states are left behind: what they own belongs to threads that are not here.
void forget_in_child() {
  detail::open_runtime.store(nullptr, std::memory_order_relaxed);
  detail::Registry& all = detail::registry();
  all.threads.clear();
  if (detail::tls_state != nullptr) all.threads.push_back(detail::tls_state);
  all.mutex.unlock();
}

void watch_forks() {
  static const int registered = pthread_atfork([] { detail::registry().mutex.lock(); },
                                               [] { detail::registry().mutex.unlock(); },
                                               forget_in_child);
  (void)registered;
}

}  // namespace

void open_gate(host::Runtime* runtime) {
  watch_forks();
  detail::open_runtime.store(runtime, std::memory_order_seq_cst);
}

Status close_gate() {
  if (detail::tls_state != nullptr && detail::tls_state->depth > 0) {
    return Error{ErrorCode::kInvalidArgument, "outsize cannot be turned off from inside an op.",
                 "shutdown", "Call outsize.disable() (or end the session) between ops."};
  }
  host::Runtime* const runtime = detail::open_runtime.exchange(nullptr, std::memory_order_seq_cst);
  barrier_in_every_thread();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (another_thread_inside()) {
    if (std::chrono::steady_clock::now() > give_up) {
      detail::open_runtime.store(runtime, std::memory_order_seq_cst);
      return Error{ErrorCode::kInvalidArgument,
                   "outsize cannot be turned off: another thread has been inside one op for a minute.",
                   "shutdown", "Join your threads first."};
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return {};
}

}  // namespace outsize::adapter
