// For the tests of page movers: an arena, a mover of a wanted kind, and a record of what it reports.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "platforms/host/page_mover.h"
#include "platforms/host/runtime.h"

namespace outsize::host {

// The mechanisms as tests name them; the copying ones are what older kernels have.
enum class Mechanism { kUffdMove, kUffdCopy, kSignal, kSignalCopy };

inline std::string mechanism_name(Mechanism mechanism) {
  switch (mechanism) {
    case Mechanism::kUffdMove: return "UserfaultfdMove";
    case Mechanism::kUffdCopy: return "UserfaultfdCopy";
    case Mechanism::kSignal: return "Signal";
    case Mechanism::kSignalCopy: return "SignalCopy";
  }
  return {};
}

inline constexpr Mechanism kAllMechanisms[] = {Mechanism::kUffdMove, Mechanism::kUffdCopy,
                                               Mechanism::kSignal, Mechanism::kSignalCopy};

class MoverRig {
 public:
  static constexpr Bytes kArena = 64 * kMiB;

  // Null handler: faults are queued for next_fault().
  explicit MoverRig(Mechanism mechanism, PageMover::FaultHandler handler = nullptr) {
    const auto size = static_cast<std::size_t>(kArena + kChunkBytes);
    mapping_ = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const auto start = reinterpret_cast<std::uintptr_t>(mapping_);
    arena_ = reinterpret_cast<char*>((start + kChunkBytes - 1) / kChunkBytes * kChunkBytes);
    if (!handler) handler = [this](const Fault& fault) { record(fault); };
    const bool copy = mechanism == Mechanism::kUffdCopy || mechanism == Mechanism::kSignalCopy;
    const bool signal = mechanism == Mechanism::kSignal || mechanism == Mechanism::kSignalCopy;
    if (copy) setenv("OUTSIZE_MOVER", "copy", 1);
    auto made = make_page_mover(signal ? FaultMechanism::kSignal : FaultMechanism::kUserfaultfd, arena_,
                                kArena, std::move(handler));
    unsetenv("OUTSIZE_MOVER");
    if (made.ok()) mover_ = std::move(*made);
    else why_not_ = made.error().message();
    if (mover_ && mechanism == Mechanism::kUffdMove && mover_->kind() != PageMover::Kind::kUserfaultfdMove) {
      mover_.reset();
      why_not_ = "this kernel has no UFFDIO_MOVE";
    }
  }
  ~MoverRig() {
    mover_.reset();
    munmap(mapping_, static_cast<std::size_t>(kArena + kChunkBytes));
  }

  bool available() const { return mover_ != nullptr; }
  const std::string& why_not() const { return why_not_; }
  PageMover& mover() { return *mover_; }
  char* at(Bytes offset) const { return arena_ + offset; }

  void record(const Fault& fault) {
    const std::lock_guard lock(mutex_);
    faults_.push_back(fault);
    arrived_.notify_all();
  }
  // Fails the test where none comes within five seconds.
  Fault next_fault() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::seconds(5), [this] { return !faults_.empty(); })) {
      ADD_FAILURE() << "no fault was reported";
      return {};
    }
    const Fault fault = faults_.front();
    faults_.pop_front();
    return fault;
  }
  Fault wait_fault() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return !faults_.empty(); });
    const Fault fault = faults_.front();
    faults_.pop_front();
    return fault;
  }
  // Pieces of a long move arrive one by one, so its readers may report more than once.
  void forget_faults() {
    const std::lock_guard lock(mutex_);
    faults_.clear();
  }
  bool no_fault_within(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return !arrived_.wait_for(lock, time, [this] { return !faults_.empty(); });
  }

  // Pages that are in memory, as the kernel counts them.
  static Bytes resident(const char* address, Bytes bytes) {
    std::vector<unsigned char> pages(static_cast<std::size_t>(bytes / kPageBytes));
    EXPECT_EQ(mincore(const_cast<char*>(address), static_cast<std::size_t>(bytes), pages.data()), 0);
    Bytes count = 0;
    for (const unsigned char page : pages) count += page & 1;
    return count * kPageBytes;
  }

 private:
  void* mapping_ = nullptr;
  char* arena_ = nullptr;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Fault> faults_;
  std::string why_not_;
  std::unique_ptr<PageMover> mover_;  // last: its thread uses the rest
};

// A value that depends on every bit of the position.
inline std::uint64_t pattern(std::uint64_t position, std::uint64_t seed) {
  std::uint64_t value = position * 0x9e3779b97f4a7c15ULL + seed;
  value ^= value >> 29;
  return value * 0xbf58476d1ce4e5b9ULL;
}

// The kernel orders a touch that waits in a fault after the move that ends it; TSan cannot know, and
// counts the touch from before it waited. These accesses are therefore hidden from it.
#define OUTSIZE_HIDDEN_FROM_TSAN __attribute__((no_sanitize("thread"), noinline))

OUTSIZE_HIDDEN_FROM_TSAN inline char peek(const void* address) {
  return *static_cast<const volatile char*>(address);
}
OUTSIZE_HIDDEN_FROM_TSAN inline void poke(void* address, char value) {
  *static_cast<volatile char*>(address) = value;
}
OUTSIZE_HIDDEN_FROM_TSAN inline void copy_words(void* to, const void* from, Bytes bytes) {
  auto* out = static_cast<volatile std::uint64_t*>(to);
  const auto* in = static_cast<const volatile std::uint64_t*>(from);
  for (Bytes i = 0; i < bytes / 8; ++i) out[i] = in[i];
}
OUTSIZE_HIDDEN_FROM_TSAN inline void fill_pattern(void* address, Bytes bytes, std::uint64_t seed) {
  auto* words = static_cast<std::uint64_t*>(address);
  for (Bytes i = 0; i < bytes / 8; ++i) words[i] = pattern(static_cast<std::uint64_t>(i), seed);
}
// The first word that differs, or -1.
OUTSIZE_HIDDEN_FROM_TSAN inline Bytes first_difference(const void* address, Bytes bytes, std::uint64_t seed) {
  const auto* words = static_cast<const volatile std::uint64_t*>(address);
  for (Bytes i = 0; i < bytes / 8; ++i) {
    if (words[i] != pattern(static_cast<std::uint64_t>(i), seed)) return i;
  }
  return -1;
}

#define ASSERT_DONE(status)                                        \
  do {                                                             \
    const auto& outcome = (status);                                \
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();        \
  } while (false)

}  // namespace outsize::host
