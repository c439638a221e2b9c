// The unit of unified memory: a block of 2 MiB of addresses, with 32 leaves of 64 KiB. What a leaf's bytes are is not
// modelled, where they are is: on the device, on the host, or nowhere, since nobody has touched them yet.
#pragma once

#include <bit>
#include <cstdint>

#include "core/base/types.h"

namespace outsize::sim::uvm {

using BlockId = std::uint32_t;  // its address / kBlockBytes
using Leaves = std::uint32_t;   // one bit each

inline constexpr Bytes kBlockBytes = 2 * kMiB;
inline constexpr Bytes kLeafBytes = 64 * kKiB;
inline constexpr int kLeaves = kBlockBytes / kLeafBytes;
inline constexpr Leaves kAllLeaves = ~Leaves{0};

constexpr BlockId block_of(Bytes address) { return static_cast<BlockId>(address / kBlockBytes); }
constexpr Leaves leaf_of(Bytes address) { return Leaves{1} << (address / kLeafBytes % kLeaves); }
constexpr Bytes bytes_of(Leaves leaves) { return std::popcount(leaves) * kLeafBytes; }
// Those of `block` in which some of the bytes from `begin` to `end` lie; some do.
constexpr Leaves leaves_in(BlockId block, Bytes begin, Bytes end) {
  const Bytes at = block * kBlockBytes;
  const Bytes first = begin > at ? (begin - at) / kLeafBytes : 0;
  const Bytes last = end < at + kBlockBytes ? (end - 1 - at) / kLeafBytes : kLeaves - 1;
  return kAllLeaves << first & kAllLeaves >> (kLeaves - 1 - last);
}

// The tree prefetcher: what is brought when `faulted` are touched and `present` are there (both may overlap). Over the
// leaves of a block stands a binary tree. For each leaf that faulted, the largest subtree around it comes whole of which
// more than 51 % is present or faulted; what comes thereby does not count (uvm_perf_prefetch.c of NVIDIA's open driver).
// Never more than the block; without what is present.
constexpr Leaves brought(Leaves present, Leaves faulted) {
  constexpr int kThresholdPercent = 51;
  const Leaves here = present | faulted;
  Leaves coming = faulted;
  for (int leaf = 0; leaf < kLeaves; ++leaf) {
    if ((faulted >> leaf & 1U) == 0) continue;
    for (int size = 2; size <= kLeaves; size *= 2) {
      const Leaves subtree = kAllLeaves >> (kLeaves - size) << (leaf / size * size);
      if (std::popcount(here & subtree) * 100 > size * kThresholdPercent) coming |= subtree;
    }
  }
  return coming & ~present;
}

}  // namespace outsize::sim::uvm
