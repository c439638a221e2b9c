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
}

void VictimHeap::put(ExtentId id, Position key) {
  ensure(id);
  if (slot_[id] == kOut) {
    key_[id] = key;
    heap_.push_back(id);
    slot_[id] = static_cast<std::uint32_t>(heap_.size() - 1);
    sift_up(heap_.size() - 1);
    return;
  }
  const Position old = key_[id];
  if (old == key) return;
  key_[id] = key;
  if (key > old) {
    sift_up(slot_[id]);
  } else {
    sift_down(slot_[id]);
  }
}

void VictimHeap::remove(ExtentId id) {
  if (!contains(id)) return;
  const std::size_t at = slot_[id];
  const ExtentId last = heap_.back();
  heap_.pop_back();
  slot_[id] = kOut;
  if (last == id) return;
  place(at, last);
  sift_up(at);
  sift_down(slot_[last]);
}

void VictimHeap::sift_up(std::size_t at) {
  const ExtentId id = heap_[at];
  while (at > 0) {
    const std::size_t parent = (at - 1) / 2;
    if (!before(id, heap_[parent])) break;
    place(at, heap_[parent]);
    at = parent;
  }
  place(at, id);
}

void VictimHeap::sift_down(std::size_t at) {
  const ExtentId id = heap_[at];
  for (;;) {
    std::size_t child = 2 * at + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], id)) break;
    place(at, heap_[child]);
    at = child;
  }
  place(at, id);
}

}  // namespace outsize
