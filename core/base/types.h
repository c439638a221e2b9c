// The vocabulary every layer shares: ids, units, access modes. Integers only; no clocks, no torch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outsize {

using Bytes = std::int64_t;
using Nanos = std::int64_t;

// An extent is the unit of residency (docs/GLOSSARY.md). Ids are small and recycled, so they index
// arrays; `kNoExtent` is never handed out.
using ExtentId = std::uint32_t;
inline constexpr ExtentId kNoExtent = 0xffffffffU;

// The identity of an op across steps: schema, shapes, dtypes and how we got there. Never an address.
using SiteId = std::uint64_t;
// Its lowest bits say what kind of op it is: the op and how many tensors it is given, whatever their
// sizes, and whether in backward. Where shapes never recur, kinds do.
inline constexpr int kKindBits = 20;
constexpr std::uint64_t kind_of(SiteId site) { return site & ((std::uint64_t{1} << kKindBits) - 1); }
// The next bits say what such an op does with memory (idioms.h); 0: nobody knows.
inline constexpr int kIdiomBits = 6;
inline constexpr SiteId kIdiomMask = ((SiteId{1} << kIdiomBits) - 1) << kKindBits;
constexpr std::uint8_t idiom_class_of(SiteId site) {
  return static_cast<std::uint8_t>((site & kIdiomMask) >> kKindBits);
}
constexpr SiteId with_idiom_class(SiteId site, std::uint8_t number) {
  return (site & ~kIdiomMask) | ((SiteId{number} << kKindBits) & kIdiomMask);
}

// Where an op stands in autograd's graph, which numbers its nodes as they are made. The low half is the number that the
// thread's next node will have: if this op makes one, its own. The high half, in backward, is the number of the node that
// runs: the gradient is made of what the op with that low half made. Numbers count from 1. 0: nobody knows.
using GraphPlace = std::uint64_t;
constexpr GraphPlace graph_place(std::uint64_t next, std::uint64_t running) {
  return (running << 32) | (next & 0xffffffffU);
}
constexpr std::uint32_t next_node(GraphPlace place) { return static_cast<std::uint32_t>(place); }
constexpr std::uint32_t running_node(GraphPlace place) { return static_cast<std::uint32_t>(place >> 32); }

// One per thread that runs ops; assigned in order of first appearance.
using ThreadId = std::uint32_t;

// How an op touches an operand.
enum class Access : std::uint8_t { kRead, kWrite };

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kGiB = 1024 * kMiB;

inline constexpr Bytes kPageBytes = 4 * kKiB;
// Addresses are handed out in chunks; a chunk belongs to exactly one extent.
inline constexpr Bytes kChunkBytes = 2 * kMiB;
// A storage of at least kLargeBytes owns an extent; smaller ones share extents of kSharedBytes
// (docs/adr/0006-small-storage-extents.md).
inline constexpr Bytes kLargeBytes = 64 * kKiB;
inline constexpr Bytes kSharedBytes = 512 * kKiB;

constexpr Bytes round_up(Bytes value, Bytes unit) { return (value + unit - 1) / unit * unit; }

}  // namespace outsize
