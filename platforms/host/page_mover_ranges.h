// Two small sets of address ranges: one that a signal handler may ask without a lock, and an
// ordinary one that coalesces.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace outsize::host {

using Address = std::uintptr_t;

inline Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }
inline void* pointer_to(Address address) { return reinterpret_cast<void*>(address); }

// The ranges that are ours: the arena and whatever was attached.
//
// Threading: contains() is lock-free and async-signal-safe; insert and erase are serialised by the
// caller. An answer about a range that is just being inserted or erased may be either; no other
// range is affected. Blocks are freed only with the table, so a reader never sees freed memory.
class AreaTable {
 public:
  AreaTable() = default;
  AreaTable(const AreaTable&) = delete;
  AreaTable& operator=(const AreaTable&) = delete;
  ~AreaTable() {
    for (Block* block = first_.next.load(); block != nullptr;) {
      Block* next = block->next.load();
      delete block;
      block = next;
    }
  }

  void insert(Address begin, Address end) {
    for (Block* block = &first_;; block = block->next.load()) {
      for (Entry& entry : block->entries) {
        if (entry.end.load() != 0) continue;
        entry.begin.store(begin);
        entry.end.store(end);
        return;
      }
      if (block->next.load() == nullptr) block->next.store(new Block);
    }
  }

  // False where exactly this range was not inserted.
  bool erase(Address begin, Address end) {
    for (Block* block = &first_; block != nullptr; block = block->next.load()) {
      for (Entry& entry : block->entries) {
        if (entry.begin.load() != begin || entry.end.load() != end) continue;
        entry.end.store(0);
        entry.erased.fetch_add(1);
        return true;
      }
    }
    return false;
  }

  bool contains(Address address) const noexcept {
    for (const Block* block = &first_; block != nullptr; block = block->next.load()) {
      for (const Entry& entry : block->entries) {
        // An entry is emptied (end = 0) before it is filled anew, begin first: where nothing was
        // erased meanwhile, begin and end belong together.
        const std::uint32_t erased = entry.erased.load();
        const Address end = entry.end.load();
        const Address begin = entry.begin.load();
        if (address >= begin && address < end && entry.erased.load() == erased) return true;
      }
    }
    return false;
  }

 private:
  struct Entry {
    std::atomic<Address> begin{0};
    std::atomic<Address> end{0};  // 0: free
    std::atomic<std::uint32_t> erased{0};  // how often
  };
  struct Block {
    Entry entries[64];
    std::atomic<Block*> next{nullptr};
  };
  Block first_;
};

// A set of addresses kept as disjoint, coalesced ranges. Not thread-safe.
template <class Position>
class RangeSet {
 public:
  using Map = std::map<Position, Position>;  // begin -> end

  void insert(Position begin, Position end) {
    if (begin >= end) return;
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin()) {
      auto previous = std::prev(next);
      if (previous->second >= begin) {
        begin = previous->first;
        if (previous->second > end) end = previous->second;
        next = ranges_.erase(previous);
      }
    }
    while (next != ranges_.end() && next->first <= end) {
      if (next->second > end) end = next->second;
      next = ranges_.erase(next);
    }
    ranges_.emplace(begin, end);
  }

  void erase(Position begin, Position end) {
    if (begin >= end) return;
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin()) {
      auto previous = std::prev(at);
      if (previous->second > begin) {
        const Position tail = previous->second;
        if (previous->first == begin) ranges_.erase(previous);
        else previous->second = begin;
        if (tail > end) ranges_.emplace(end, tail);
      }
    }
    while (at != ranges_.end() && at->first < end) {
      const Position tail = at->second;
      at = ranges_.erase(at);
      if (tail > end) ranges_.emplace(end, tail);
    }
  }

  bool intersects(Position begin, Position end) const {
    auto at = ranges_.lower_bound(end);
    return at != ranges_.begin() && std::prev(at)->second > begin;
  }

  // How much of [begin, end) is in the set.
  Position overlap(Position begin, Position end) const {
    Position sum{};
    for_each_in(begin, end, [&sum](Position low, Position high) { sum += high - low; });
    return sum;
  }

  // Calls `visit(low, high)` for each stretch of [begin, end) that is in the set, in order.
  template <class Visit>
  void for_each_in(Position begin, Position end, Visit visit) const {
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin()) --at;
    for (; at != ranges_.end() && at->first < end; ++at) {
      const Position low = at->first > begin ? at->first : begin;
      const Position high = at->second < end ? at->second : end;
      if (high > low) visit(low, high);
    }
  }

  const Map& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  void clear() { ranges_.clear(); }

 private:
  Map ranges_;
};

}  // namespace outsize::host
