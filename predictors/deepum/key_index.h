// Finds numbered entries by a 64-bit key that is already well mixed. Grows with its entries and
// allocates nothing else. Keys are taken to be distinct: two names with one key cost foresight, never
// correctness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/types.h"

namespace outsize::deepum {

inline constexpr std::uint32_t kNone = 0xffffffffU;

// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
// OOPSLA 2014) over what is known so far and one more value.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t z = hash + 0x9e3779b97f4a7c15ULL + value;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

class KeyIndex {
 public:
  std::uint32_t find(std::uint64_t key) const {
    if (heads_.empty()) return kNone;
    std::uint32_t at = heads_[key & (heads_.size() - 1)];
    while (at != kNone && links_[at].key != key) at = links_[at].next;
    return at;
  }
  void insert(std::uint32_t entry, std::uint64_t key) {
    if (entry >= links_.size()) links_.resize(entry + 1);
    if (++count_ > heads_.size()) grow();
    links_[entry].key = key;
    link(entry);
  }
  void erase(std::uint32_t entry) {
    std::uint32_t* at = &heads_[links_[entry].key & (heads_.size() - 1)];
    while (*at != entry) at = &links_[*at].next;
    *at = links_[entry].next;
    links_[entry].next = kOut;
    --count_;
  }
  Bytes bytes() const {
    return static_cast<Bytes>(heads_.capacity() * sizeof(std::uint32_t) + links_.capacity() * sizeof(Link));
  }

 private:
  static constexpr std::uint32_t kOut = kNone - 1;  // not in the index
  struct Link {
    std::uint64_t key = 0;
    std::uint32_t next = kOut;
  };
  void link(std::uint32_t entry) {
    std::uint32_t& head = heads_[links_[entry].key & (heads_.size() - 1)];
    links_[entry].next = head;
    head = entry;
  }
  void grow() {
    constexpr std::size_t kLeast = 1024;
    heads_.assign(heads_.empty() ? kLeast : 2 * heads_.size(), kNone);
    for (std::uint32_t entry = 0; entry < links_.size(); ++entry) {
      if (links_[entry].next != kOut) link(entry);
    }
  }

  std::vector<std::uint32_t> heads_;  // a power of two of them
  std::vector<Link> links_;           // by entry
  std::size_t count_ = 0;
};

}  // namespace outsize::deepum
