#include "sim/move_work.h"

#include <algorithm>
#include <iterator>

namespace outsize::sim {

void MoveWork::remove(std::map<Bytes, int>::iterator at) {
  pooled_ -= at->first;
  if (--at->second == 0) ranges_.erase(at);
}

void MoveWork::transferred(const Transfer& transfer) {
  const Nanos took = transfer.ends - transfer.started, worked = std::max<Nanos>(took - transfer.idle, 0);
  const auto of_bytes = static_cast<__int128>(costs_.mebibyte) * transfer.bytes / kMiB;
  owed_ += costs_.transfer + static_cast<Nanos>(took > 0 ? of_bytes * worked / took : of_bytes);
}

void MoveWork::put(Bytes bytes) {
  if (free_of_charge() || bytes == 0) return;
  ++ranges_[bytes];
  pooled_ += bytes;
}

void MoveWork::take(Bytes bytes, Bytes most) {
  if (free_of_charge()) return;
  most_ = std::max<Bytes>(most, 0);
  if (const auto same = ranges_.find(bytes); same != ranges_.end()) {
    remove(same);
  } else if (bytes >= kChunkBytes) {
    Bytes whole = bytes / kChunkBytes * kChunkBytes;
    while (whole > 0 && !ranges_.empty() && std::prev(ranges_.end())->first >= kChunkBytes) {
      const auto from = std::prev(ranges_.end());
      const Bytes range = from->first, used = std::min(range / kChunkBytes * kChunkBytes, whole);
      remove(from);
      put(range - used);
      whole -= used;
    }
    fresh(whole, true);
    fill(bytes % kChunkBytes);
  } else if (const auto larger = ranges_.upper_bound(bytes); larger != ranges_.end() && larger->first < kChunkBytes) {
    left_ += larger->first - bytes;
    remove(larger);
  } else {
    Bytes there = 0;
    if (const auto next = ranges_.lower_bound(bytes); next != ranges_.begin()) {
      there = std::prev(next)->first;
      remove(std::prev(next));
    }
    fill(bytes - there);
  }
}

void MoveWork::fresh(Bytes bytes, bool huge) {
  if (bytes == 0) return;
  made_ += bytes;
  const Bytes before = pooled();
  while (pooled() > most_) {
    const Bytes over = round_up(pooled() - most_, kPageBytes);
    if (left_ >= over || ranges_.empty()) {
      left_ = std::max<Bytes>(left_ - over, 0);
      continue;
    }
    auto from = ranges_.lower_bound(over);  // its end, and huge pages whole
    if (from == ranges_.end() || from->first >= kChunkBytes) from = std::prev(ranges_.end());
    const Bytes range = from->first, rest = range % kChunkBytes;
    const Bytes end = rest > 0 ? std::min(over, rest) : round_up(over, kChunkBytes);
    remove(from);
    put(std::max<Bytes>(range - end, 0));
  }
  given_back_ += before - pooled();
  if (huge) {
    owed_ += price_of_huge(bytes);
    return;
  }
  given_back_ -= std::min(bytes, given_back_);
  owed_ += costs_.fresh * bytes / kMiB;
}

// What is given back is small pages here and there, of which huge ones are not whole again at once.
Nanos MoveWork::price_of_huge(Bytes bytes) {
  const bool comes_again = costs_.cold > 0 && costs_.warm_huge > 0;
  const Bytes later = comes_again ? std::clamp<Bytes>(huge_ + bytes - costs_.cold, 0, bytes) : 0;
  const Bytes warm = std::min(later, given_back_);
  huge_ += bytes;
  given_back_ -= warm;
  return costs_.fresh_huge * (bytes - warm) / kMiB + costs_.warm_huge * warm / kMiB;
}

// Small pages from wherever there are some.
void MoveWork::fill(Bytes bytes) {
  const Bytes behind = std::min(left_, bytes);
  left_ -= behind;
  owed_ += of(behind);
  bytes -= behind;
  while (bytes > 0) {
    auto from = ranges_.upper_bound(bytes);
    if (from != ranges_.begin()) from = std::prev(from);
    // A whole chunk is broken up only where there is no room for others.
    const bool whole = from != ranges_.end() && from->first >= kChunkBytes;
    if (from == ranges_.end() || (whole && pooled() <= most_)) return fresh(bytes, false);
    const Bytes range = from->first, used = std::min(range, bytes);
    remove(from);
    put(range - used);
    owed_ += of(used);
    bytes -= used;
  }
}

}  // namespace outsize::sim
