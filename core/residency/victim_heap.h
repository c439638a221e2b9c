// An indexed max-heap over resident extents: the next victim is the one with the largest key
// (farthest next use); ties go to the smaller id. Updates are O(log n) without allocation once the
// table has its size; a visit in order looks only at as many nodes as it needs.
#pragma once

#include <algorithm>
#include <vector>

#include "core/residency/extent.h"

namespace outsize {

class VictimHeap {
 public:
  void ensure(ExtentId id);
  bool contains(ExtentId id) const { return id < slot_.size() && slot_[id] != kOut; }
  void put(ExtentId id, Position key);  // insert or change the key
  void remove(ExtentId id);
  Position key(ExtentId id) const { return key_[id]; }
  std::size_t size() const { return heap_.size(); }
  const std::vector<ExtentId>& members() const { return heap_; }
  // Changes every key at once: `key_of(id)`; O(n).
  template <class KeyOf>
  void rebuild(KeyOf key_of) {
    for (ExtentId id : heap_) key_[id] = key_of(id);
    for (std::size_t i = heap_.size(); i-- > 0;) sift_down(i);
  }
  // Calls visit(id) from the best victim on, until it returns false.
  template <class Visit>
  void in_order(Visit visit) {
    if (heap_.empty()) return;
    auto worse = [this](std::uint32_t a, std::uint32_t b) { return before(heap_[b], heap_[a]); };
    scratch_.clear();
    scratch_.push_back(0);
    while (!scratch_.empty()) {
      std::pop_heap(scratch_.begin(), scratch_.end(), worse);
      const std::uint32_t at = scratch_.back();
      scratch_.pop_back();
      const ExtentId id = heap_[at];
      for (std::uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap_.size(); ++child) {
        scratch_.push_back(child);
        std::push_heap(scratch_.begin(), scratch_.end(), worse);
      }
      if (!visit(id)) return;
    }
  }

 private:
  static constexpr std::uint32_t kOut = 0xffffffffU;
  bool before(ExtentId a, ExtentId b) const {
    return key_[a] != key_[b] ? key_[a] > key_[b] : a < b;
  }
  void place(std::size_t at, ExtentId id) {
    heap_[at] = id;
    slot_[id] = static_cast<std::uint32_t>(at);
  }
  void sift_up(std::size_t at);
  void sift_down(std::size_t at);

  std::vector<ExtentId> heap_;
  std::vector<std::uint32_t> slot_;    // by id: place in heap_, or kOut
  std::vector<Position> key_;          // by id
  std::vector<std::uint32_t> scratch_; // heap places still to visit
};

}  // namespace outsize
