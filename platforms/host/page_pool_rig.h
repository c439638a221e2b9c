// For the tests of the page pool: pages that are only counted. Every move is checked, and some fail.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "platforms/host/page_choice_rig.h"
#include "platforms/host/page_mover.h"

namespace outsize::host {

inline constexpr std::uint32_t kChunks = 256;

// Remembers which pages are present; nothing is ever touched.
class CountingMover final : public PageMover {
 public:
  CountingMover() : present_(static_cast<std::size_t>(kChunks * kChunkBytes / kPageBytes)) {}
  char* base() const { return reinterpret_cast<char*>(std::uintptr_t{1} << 40); }
  Bytes present() const { return std::count(present_.begin(), present_.end(), 1) * kPageBytes; }
  bool all(const void* address, Bytes bytes, char state) const {
    const std::size_t first = page(address);
    return std::all_of(present_.begin() + static_cast<std::ptrdiff_t>(first),
                       present_.begin() + static_cast<std::ptrdiff_t>(first) + bytes / kPageBytes,
                       [state](char now) { return now == state; });
  }

  Kind kind() const override { return moves; }
  bool serves_kernel() const override { return true; }
  const char* name() const override { return "counting"; }
  Status populate(void* address, Bytes bytes) override {
    EXPECT_TRUE(all(address, bytes, 0));
    if (fails() || (no_chunks && bytes >= kChunkBytes)) return failure();
    set(address, bytes, 1);
    const Bytes begin = offset(address), end = begin + bytes;
    for (Bytes at = round_up(begin, kChunkBytes); at + kChunkBytes <= end; at += kChunkBytes) unsplit_.insert(at);
    if (bytes >= kChunkBytes) TestClock::run(populate_takes);
    return {};
  }
  Status move_in(void* src, void* dst, Bytes bytes, bool, bool = false) override {
    EXPECT_TRUE(all(src, bytes, 1) && all(dst, bytes, 0));
    const bool whole = bytes % kChunkBytes == 0;
    EXPECT_TRUE(may_split || !whole || (offset(src) % kChunkBytes == 0 && offset(dst) % kChunkBytes == 0))
        << "a huge page would be split";
    if (fails()) return failure();
    leave(src, dst, bytes);
    set(src, bytes, 0);
    set(dst, bytes, 1);
    moved += bytes;
    return {};
  }
  Status move_out(void* src, void* dst, Bytes bytes) override { return move_in(src, dst, bytes, false); }
  Status discard(void* address, Bytes bytes) override {
    set(address, bytes, 0);
    for (Bytes at = 0; at < bytes; at += kPageBytes) unsplit_.erase(offset(address) + at);
    return {};
  }
  void forget_small_pages(void* address, Bytes bytes) override {
    EXPECT_TRUE(all(address, bytes, 0)) << "somebody's pages would be lost";
  }
  void before_split(void* chunk) override {
    EXPECT_TRUE(all(chunk, kChunkBytes, 1));
    unsplit_.erase(offset(chunk));
  }
  void keep_whole(bool on) override { whole = on; }
  Status guard(void*, Bytes) override { return {}; }
  Status unguard(void*, Bytes) override { return {}; }
  void resume(void*, Bytes) override {}
  Status attach(void*, Bytes) override { return {}; }
  Status detach(void*, Bytes) override { return {}; }
  void before_fork() override {}
  void after_fork_parent() override {}
  void after_fork_child(const Range*, std::size_t, ChildFault) override {}

  Kind moves = Kind::kUserfaultfdMove;
  int fail_every = 0;
  Bytes moved = 0;
  bool may_split = false;
  bool no_chunks = false;  // the system has only small pages left
  bool whole = false;
  Nanos populate_takes = 0;

 private:
  Bytes offset(const void* address) const { return static_cast<const char*>(address) - base(); }
  std::size_t page(const void* address) const { return static_cast<std::size_t>(offset(address) / kPageBytes); }
  void set(const void* address, Bytes bytes, char state) {
    EXPECT_TRUE(offset(address) % kPageBytes == 0 && bytes % kPageBytes == 0) << "pages move whole";
    const auto first = present_.begin() + static_cast<std::ptrdiff_t>(page(address));
    std::fill(first, first + bytes / kPageBytes, state);
  }
  // Chunks of which all moves to a chunk stay whole.
  void leave(const void* src, const void* dst, Bytes bytes) {
    for (Bytes at = 0; at < bytes; at += kPageBytes) {
      const auto chunk = unsplit_.find((offset(src) + at) / kChunkBytes * kChunkBytes);
      if (chunk == unsplit_.end()) continue;
      EXPECT_TRUE(*chunk == offset(src) + at && at + kChunkBytes <= bytes && (offset(dst) + at) % kChunkBytes == 0)
          << "a huge page is split that nobody told of";
      unsplit_.insert(offset(dst) + at);
      unsplit_.erase(chunk);
    }
  }
  bool fails() { return fail_every > 0 && ++calls_ % fail_every == 0; }
  static Error failure() { return Error{ErrorCode::kOutOfSpace, "no pages", "test", ""}; }

  std::vector<char> present_;
  std::set<Bytes> unsplit_;  // chunks made whole
  int calls_ = 0;
};

}  // namespace outsize::host
