#include "sim/caching_allocator.h"

#include <iterator>

namespace outsize::sim {
namespace {

constexpr Bytes kRound = 512;
constexpr Bytes kSmallMost = kMiB;              // of the small pool
constexpr Bytes kSmallSegment = 2 * kMiB;
constexpr Bytes kSharedSegment = 20 * kMiB;     // of the large pool
constexpr Bytes kOwnSegmentFrom = 10 * kMiB;
constexpr Bytes kOwnSegmentRound = 2 * kMiB;

Bytes segment_bytes(Bytes bytes) {
  if (bytes <= kSmallMost) return kSmallSegment;
  return bytes < kOwnSegmentFrom ? kSharedSegment : round_up(bytes, kOwnSegmentRound);
}

bool to_split(Bytes left, bool small) { return small ? left >= kRound : left > kSmallMost; }

}  // namespace

CachingAllocator::Address CachingAllocator::allocate(Bytes bytes) {
  bytes = round_up(bytes, kRound);
  const bool small = bytes <= kSmallMost;
  const auto cached = pool(small).lower_bound({bytes, 0});
  Pieces::iterator piece;
  if (cached == pool(small).end()) {
    piece = new_segment(segment_bytes(bytes), small);
  } else {
    piece = pieces_.find(cached->second);
    pool(small).erase(cached);
  }
  if (to_split(piece->second.bytes - bytes, small)) split(piece, bytes);
  piece->second.used = true;
  allocated_ += piece->second.bytes;
  return piece->first;
}

CachingAllocator::Pieces::iterator CachingAllocator::new_segment(Bytes bytes, bool small) {
  const Address address = end_;
  end_ += bytes;
  reserved_ += bytes;
  return pieces_.emplace_hint(pieces_.end(), address, Piece{bytes, small, false, true, true});
}

// Keeps the front; the rest is free.
void CachingAllocator::split(Pieces::iterator piece, Bytes bytes) {
  Piece& front = piece->second;
  const Piece rest{front.bytes - bytes, front.small, false, false, front.last};
  front.bytes = bytes;
  front.last = false;
  pieces_.emplace_hint(std::next(piece), piece->first + bytes, rest);
  pool(rest.small).insert({rest.bytes, piece->first + bytes});
}

void CachingAllocator::free(Address address) {
  auto piece = pieces_.find(address);
  piece->second.used = false;
  allocated_ -= piece->second.bytes;
  if (!piece->second.last) {
    const auto next = std::next(piece);
    if (!next->second.used) {
      pool(next->second.small).erase({next->second.bytes, next->first});
      join(piece, next);
    }
  }
  if (!piece->second.first) {
    const auto before = std::prev(piece);
    if (!before->second.used) {
      pool(before->second.small).erase({before->second.bytes, before->first});
      join(before, piece);
      piece = before;
    }
  }
  pool(piece->second.small).insert({piece->second.bytes, piece->first});
}

void CachingAllocator::join(Pieces::iterator left, Pieces::iterator right) {
  left->second.bytes += right->second.bytes;
  left->second.last = right->second.last;
  pieces_.erase(right);
}

void CachingAllocator::empty_cache() {
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    const Piece& p = piece->second;
    if (p.used || !p.first || !p.last) {
      ++piece;
      continue;
    }
    pool(p.small).erase({p.bytes, piece->first});
    reserved_ -= p.bytes;
    piece = pieces_.erase(piece);
  }
}

}  // namespace outsize::sim
