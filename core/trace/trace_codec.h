// What encoder and decoder of a trace share: numbers as bytes, and what each block starts with.
// Not for anyone else. docs/TRACE.md describes it.
#pragma once

#include <array>
#include <cstdint>

#include "core/trace/trace_event.h"

namespace outsize::trace {

// Of the format. A reader reads earlier ones too: version 1 knew no places in a graph, and before version 3 sites had
// no idiom class (old_sites.h).
inline constexpr std::uint32_t kFormatVersion = 3;
inline constexpr std::uint32_t kIdiomsSince = 3;

// A block is cut once it holds so many bytes; no event is longer than kEventMax.
inline constexpr std::size_t kBlockBytes = 256 * 1024;
inline constexpr std::size_t kEventMax = 2 * 1024 * 1024;
inline constexpr std::size_t kBlockMax = kBlockBytes + kEventMax;

// No size, time or count of a trace is above it, so that sums of two never overflow.
inline constexpr std::uint64_t kNumberMax = std::uint64_t{1} << 61;

// The first byte of an event: its kind, and three bits.
inline constexpr std::uint8_t kKindMask = 0x1f;
inline constexpr std::uint8_t kFlagBit = 0x20;        // Event::flag; of an op: its flags follow
inline constexpr std::uint8_t kSameThreadBit = 0x40;  // as the event before
inline constexpr std::uint8_t kReservedBit = 0x80;

// Among an op's flags: where it stands in a graph follows.
inline constexpr std::uint8_t kHasPlace = 0x10;

// Small numbers for small differences of either sign.
constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

// Both sides remember the same things about the block so far. Forgotten at each block's start, so
// that a block can be read by itself; and of fixed size, so that a trace of any length can.
struct BlockState {
  static constexpr std::size_t kSites = 1024;

  ThreadId thread = 0;
  Nanos time = 0;
  StorageId next_storage = 0;
  GraphPlace graph = 0;
  std::array<SiteId, kSites> sites{};  // the latest site of each slot; 0: none

  static std::size_t slot(SiteId site) { return (site * 0x9e3779b97f4a7c15ULL) >> 54; }
  void restart(Nanos at, StorageId next) {
    thread = 0;
    time = at;
    next_storage = next;
    graph = 0;
    sites.fill(0);
  }
};

}  // namespace outsize::trace
