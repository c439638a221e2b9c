#include "core/residency/victim_heap.h"

#include <algorithm>

namespace outsize {

void VictimHeap::ensure(ExtentId id) {
  if (id < slot_.size()) return;
  const std::size_t size = id + 1 + id / 2;
  slot_.resize(size, kOut);
  key_.resize(size, 0);
  heap_.reserve(size);
  scratch_.reserve(size);
  front_.reserve(kFrontMax + 1);
}

void VictimHeap::put(ExtentId id, Position key) {
  ensure(id);
  if (slot_[id] == kOut) {
    key_[id] = key;
    enter_front(id);
    heap_.push_back({key, id});
    slot_[id] = static_cast<std::uint32_t>(heap_.size() - 1);
    sift_up(heap_.size() - 1);
    return;
  }
  const Position old = key_[id];
  if (old == key) return;
  leave_front(id);
  key_[id] = key;
  enter_front(id);
  heap_[slot_[id]].key = key;
  if (key > old) {
    sift_up(slot_[id]);
  } else {
    sift_down(slot_[id]);
  }
}

std::vector<ExtentId>::iterator VictimHeap::place_in_front(ExtentId id) {
  return std::lower_bound(front_.begin(), front_.end(), id, [this](ExtentId a, ExtentId b) { return before(a, b); });
}

// `id` is not in it, and has its key. What is worse than all of it enters only where it held everybody else.
void VictimHeap::enter_front(ExtentId id) {
  const std::size_t others = heap_.size() - (contains(id) ? 1 : 0);
  const bool holds_all = front_.size() == others;
  if (!holds_all && (front_.empty() || before(front_.back(), id))) return;
  front_.insert(place_in_front(id), id);
  if (front_.size() > kFrontMax) front_.pop_back();
}

void VictimHeap::leave_front(ExtentId id) {
  if (front_.empty() || before(front_.back(), id)) return;
  front_.erase(place_in_front(id));
}

void VictimHeap::find_front() {
  front_.clear();
  walk([this](ExtentId id) {
    front_.push_back(id);
    return front_.size() < kFrontMax;
  });
}

void VictimHeap::remove(ExtentId id) {
  if (!contains(id)) return;
  leave_front(id);
  const std::size_t at = slot_[id];
  const Node last = heap_.back();
  heap_.pop_back();
  slot_[id] = kOut;
  if (last.id == id) return;
  place(at, last);
  sift_up(at);
  sift_down(slot_[last.id]);
}

void VictimHeap::sift_up(std::size_t at) {
  const Node node = heap_[at];
  while (at > 0) {
    const std::size_t parent = (at - 1) / kArity;
    if (!node.before(heap_[parent])) break;
    place(at, heap_[parent]);
    at = parent;
  }
  place(at, node);
}

void VictimHeap::sift_down(std::size_t at) {
  const Node node = heap_[at];
  for (;;) {
    const std::size_t first = kArity * at + 1;
    if (first >= heap_.size()) break;
    std::size_t child = first;
    const std::size_t end = std::min(first + kArity, heap_.size());
    for (std::size_t other = first + 1; other < end; ++other) {
      if (heap_[other].before(heap_[child])) child = other;
    }
    if (!heap_[child].before(node)) break;
    place(at, heap_[child]);
    at = child;
  }
  place(at, node);
}

}  // namespace outsize
