// The runtime's one lock: a few nanoseconds when nobody else holds it, a short spin, then sleep.
// Critical sections are short (a table look-up, sometimes a page move); nobody takes the GIL inside.
#pragma once

#include <atomic>
#include <cstdint>

namespace outsize::host {

class RuntimeLock {
 public:
  void lock() noexcept {
    std::uint32_t free = kFree;
    if (state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire)) return;
    lock_slowly();
  }
  void unlock() noexcept {
    if (state_.exchange(kFree, std::memory_order_release) == kContended) state_.notify_one();
  }
  // In a forked child: whoever held it is not here.
  void reset() noexcept { state_.store(kFree, std::memory_order_release); }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1, kContended = 2;
  static constexpr int kSpins = 200;

  void lock_slowly() noexcept {
    for (int spin = 0; spin < kSpins; ++spin) {
      std::uint32_t free = kFree;
      if (state_.load(std::memory_order_relaxed) == kFree &&
          state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire)) {
        return;
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    while (state_.exchange(kContended, std::memory_order_acquire) != kFree) {
      state_.wait(kContended, std::memory_order_relaxed);
    }
  }

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace outsize::host
