#include "platforms/host/io_bounce.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace outsize::host {

BounceChoice::Class& BounceChoice::class_of(IoRequest::Kind kind, Bytes bytes) {
  std::size_t size = 0;
  for (Bytes most = 128 * kKiB; size + 1 < kSizes && bytes > most; most *= 4) ++size;
  return classes_[static_cast<std::size_t>(kind)][size];
}

BounceChoice::Way BounceChoice::choose(IoRequest::Kind kind, Bytes bytes) {
  if (mode_ != IoPool::Bounce::kMeasured) return {mode_ == IoPool::Bounce::kAlways, 0};
  if (bytes < kLeast) return {};
  Class& c = class_of(kind, bytes);
  const bool wins = c.score > 0;
  if (kept_ || c.begun == kDuel) return {wins, 0};  // of some nobody has told yet
  if (c.wait > 0) {
    --c.wait;
    return {wins, 0};
  }
  const int turn = c.begun / kTurn, place = c.begun % kTurn;
  ++c.begun;
  const bool other = turn == 1 || turn == 2;
  return {wins != other, place < kOthers ? 0 : c.duel};
}

void BounceChoice::took(IoRequest::Kind kind, Bytes bytes, Way way, std::optional<Nanos> nanos) {
  if (way.duel == 0) return;
  Class& c = class_of(kind, bytes);
  if (way.duel != c.duel) return;
  Side& side = c.sides[way.bounce ? 1 : 0];
  if (nanos && side.count < side.of_a_kib.size()) {
    side.of_a_kib[side.count++] = *nanos / (bytes / kKiB);
  }
  if (++c.told == kCounted) end(c);
}

Nanos BounceChoice::Side::usual() {
  const std::size_t most = count - count / 3;
  const auto begin = of_a_kib.begin(), end = begin + static_cast<std::ptrdiff_t>(most);
  std::nth_element(begin, end, begin + static_cast<std::ptrdiff_t>(count));
  return std::accumulate(begin, end, Nanos{0}) / static_cast<Nanos>(most);
}

// A side of which nothing is known has lost.
void BounceChoice::end(Class& c) {
  const bool before = c.score > 0;
  const bool won = c.sides[1].count > 0 && (c.sides[0].count == 0 || c.sides[1].usual() < c.sides[0].usual());
  c.score = std::clamp(c.score + (won ? 1 : -1), -kSure, kSure);
  c.gap = c.wait = won == before ? std::clamp(4 * c.gap, kGapMin, kGapMax) : kGapMin;
  if (++c.duel == 0) c.duel = 1;
  c.begun = c.told = 0;
  c.sides = {};
}

BounceBuffers::Lease& BounceBuffers::Lease::operator=(Lease&& other) noexcept {
  give_back();
  owner_ = std::exchange(other.owner_, nullptr);
  memory_ = std::exchange(other.memory_, nullptr);
  return *this;
}

void BounceBuffers::Lease::give_back() {
  if (memory_ != nullptr) owner_->free_.push_back(memory_);  // had room for all from the beginning
  owner_ = nullptr;
  memory_ = nullptr;
}

// A forked child does no transfers, and gets none of them.
void BounceBuffers::make() {
  made_ = true;
  all_ = ChunkMemory(kAll);
  char* const begin = all_.address();
  if (begin == nullptr) return;  // then there is none, and transfers go as they are
  madvise(begin, kAll, MADV_DONTFORK);
  madvise(begin, kAll, MADV_HUGEPAGE);
  for (Bytes at = 0; at < kAll; at += kChunkBytes) begin[at] = 0;  // or the first transfer that is measured made the page
  free_.reserve(kAll / kBytes);
  for (Bytes at = kAll; at > 0; at -= kBytes) free_.push_back(begin + at - kBytes);  // the lowest goes first
}

BounceBuffers::Lease BounceBuffers::lease() {
  if (!made_) make();
  if (free_.empty()) return {};
  char* const memory = free_.back();
  free_.pop_back();
  return {this, memory};
}

}  // namespace outsize::host
