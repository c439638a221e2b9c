// Tables that are large and looked at here and there: by extent, by op, by what followed what. Where 100 000 extents are
// managed a tenth of what a decision takes goes into finding the pages that they lie in; larger pages are found sooner.
//
// The core asks nothing of an operating system. Whoever runs it says how memory is told to be of large pages (Runtime does); until
// then it is as it comes. Tables begin where a large page does, and have whole ones, in either case: it may be said at any time.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "core/base/types.h"

namespace outsize {

inline constexpr std::size_t kLargePage = 2 * kMiB;
using TellLargePages = void (*)(void* memory, std::size_t bytes) noexcept;  // of whole large pages
inline std::atomic<TellLargePages> tell_large_pages{nullptr};

// Small ones are as with std::allocator. Throws std::bad_alloc.
template <class T>
struct LargeTableAllocator {
  using value_type = T;
  LargeTableAllocator() = default;
  template <class U>
  LargeTableAllocator(const LargeTableAllocator<U>&) noexcept {}  // NOLINT: allocators are converted

  static constexpr bool is_large(std::size_t count) { return count >= kLargePage / sizeof(T); }
  T* allocate(std::size_t count) {
    if (!is_large(count)) return std::allocator<T>{}.allocate(count);
    const auto bytes = static_cast<std::size_t>(round_up(static_cast<Bytes>(count * sizeof(T)), kLargePage));
    void* const memory = ::operator new(bytes, std::align_val_t{kLargePage});
    if (const TellLargePages tell = tell_large_pages.load(std::memory_order_relaxed); tell != nullptr) tell(memory, bytes);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    if (!is_large(count)) return std::allocator<T>{}.deallocate(memory, count);
    ::operator delete(memory, std::align_val_t{kLargePage});
  }
  friend bool operator==(const LargeTableAllocator&, const LargeTableAllocator&) { return true; }
};

template <class T>
using LargeTable = std::vector<T, LargeTableAllocator<T>>;

}  // namespace outsize
