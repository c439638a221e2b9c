// An indexed max-heap over resident extents: the next victim is the one with the largest key
// (farthest next use); ties go to the smaller id. Updates are O(log n) without allocation once the
// table has its size.
//
// Those who look for victims look at some tens or hundreds from the best on, again and again, while few
// of them change: the best of the heap, kFrontMax at most, are kept in order beside it. They are found
// anew, O(kFrontMax log kFrontMax), once so many have left that a visit runs out of them, and after a rebuild.
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
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Node& node : heap_) visit(node.id);
  }
  // Changes every key at once: `key_of(id)`; O(n).
  template <class KeyOf>
  void rebuild(KeyOf key_of) {
    front_.clear();
    for (Node& node : heap_) node.key = key_[node.id] = key_of(node.id);
    for (std::size_t i = heap_.size(); i-- > 0;) sift_down(i);
  }
  // Calls visit(id) from the best victim on, until it returns false. It must not change the heap.
  template <class Visit>
  void in_order(Visit visit) {
    std::size_t seen = 0;
    for (; seen < front_.size(); ++seen) {
      if (!visit(front_[seen])) return;
    }
    if (seen < std::min(kFrontMax, heap_.size())) find_front();
    for (; seen < front_.size(); ++seen) {
      if (!visit(front_[seen])) return;
    }
    if (seen == heap_.size()) return;
    walk([&, at = std::size_t{0}](ExtentId id) mutable { return at++ < seen || visit(id); });
  }

 private:
  static constexpr std::uint32_t kOut = 0xffffffffU;
  static constexpr std::size_t kArity = 4;  // of the heap: as deep as half a binary one's
  struct Node {
    Position key;
    ExtentId id;
    bool before(const Node& other) const { return key != other.key ? key > other.key : id < other.id; }
  };
  bool before(ExtentId a, ExtentId b) const { return Node{key_[a], a}.before({key_[b], b}); }
  void place(std::size_t at, const Node& node) {
    heap_[at] = node;
    slot_[node.id] = static_cast<std::uint32_t>(at);
  }
  // Best first, over the heap itself.
  template <class Visit>
  void walk(Visit visit) {
    if (heap_.empty()) return;
    auto worse = [this](std::uint32_t a, std::uint32_t b) { return heap_[b].before(heap_[a]); };
    scratch_.clear();
    scratch_.push_back(0);
    while (!scratch_.empty()) {
      std::pop_heap(scratch_.begin(), scratch_.end(), worse);
      const std::size_t at = scratch_.back();
      scratch_.pop_back();
      const ExtentId id = heap_[at].id;
      for (std::size_t child = kArity * at + 1; child <= kArity * (at + 1) && child < heap_.size(); ++child) {
        scratch_.push_back(static_cast<std::uint32_t>(child));
        std::push_heap(scratch_.begin(), scratch_.end(), worse);
      }
      if (!visit(id)) return;
    }
  }
  void find_front();
  void enter_front(ExtentId id);
  void leave_front(ExtentId id);
  std::vector<ExtentId>::iterator place_in_front(ExtentId id);
  void sift_up(std::size_t at);
  void sift_down(std::size_t at);

  static constexpr std::size_t kFrontMax = 1024;
  std::vector<ExtentId> front_;        // the best of heap_, best first
  std::vector<Node> heap_;
  std::vector<std::uint32_t> slot_;    // by id: place in heap_, or kOut
  std::vector<Position> key_;          // by id
  std::vector<std::uint32_t> scratch_; // heap places still to visit
};

}  // namespace outsize
