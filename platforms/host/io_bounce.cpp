#include "platforms/host/io_bounce.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace outsize::host {

BounceChoice::Class& BounceChoice::class_of(IoRequest::Kind kind, Bytes bytes) {
  std::size_t size = 0;
  for (Bytes most = 128 * kKiB; size + 1 < kSizes && bytes > most; most *= 4) ++size;
  return classes_[static_cast<std::size_t>(kind)][size];
}

BounceChoice::Way BounceChoice::choose(IoRequest::Kind kind, Bytes bytes, bool alone) {
  if (mode_ != IoPool::Bounce::kMeasured) return {mode_ == IoPool::Bounce::kAlways, false};
  if (bytes < kLeast) return {};
  Class& c = class_of(kind, bytes);
  const bool wins = c.score > 0;
  if (c.wait > 0) {
    --c.wait;
    return {wins, false};
  }
  if (!alone) {
    ++c.missed;
    return {wins, false};
  }
  c.missed = 0;
  const bool other = c.told == 1 || c.told == 2;  // a b b a, as a disk gets faster or slower meanwhile
  return {wins != other, true};
}

bool BounceChoice::overdue(IoRequest::Kind kind, Bytes bytes) {
  return mode_ == IoPool::Bounce::kMeasured && bytes >= kLeast && class_of(kind, bytes).missed >= kPatience;
}

// As the others take so long, it is not to be tried soon.
void BounceChoice::forgo(IoRequest::Kind kind, Bytes bytes) {
  Class& c = class_of(kind, bytes);
  c.missed = 0;
  pause(c, 4 * c.gap);
}

void BounceChoice::took(IoRequest::Kind kind, Bytes bytes, Way way, Nanos nanos) {
  if (!way.measured) return;
  Class& c = class_of(kind, bytes);
  if (nanos < 0) return pause(c, 4 * c.gap);
  c.cost[way.bounce ? 1 : 0] += nanos * kMiB / bytes;
  if (++c.told == kDuel) end(c);
}

void BounceChoice::end(Class& c) {
  const bool won = c.cost[1] < c.cost[0], before = c.score > 0;
  c.score = std::clamp(c.score + (won ? 1 : -1), -kSure, kSure);
  pause(c, won == before ? 4 * c.gap : 0);
}

void BounceChoice::pause(Class& c, int gap) {
  c.gap = c.wait = std::clamp(gap, kGapMin, kGapMax);
  c.told = 0;
  c.cost = {0, 0};
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

BounceBuffers::~BounceBuffers() {
  if (mapping_ != nullptr) munmap(mapping_, kAll + kChunkBytes);
}

// A forked child does no transfers, and gets none of them.
void BounceBuffers::make() {
  made_ = true;
  void* memory = mmap(nullptr, kAll + kChunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;  // then there is none, and transfers go as they are
  mapping_ = static_cast<char*>(memory);
  madvise(mapping_, kAll + kChunkBytes, MADV_DONTFORK);
  char* const begin = reinterpret_cast<char*>(round_up(reinterpret_cast<Bytes>(mapping_), kChunkBytes));
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

bool Bouncer::may_begin(IoRequest::Kind kind, Bytes bytes, bool pressing, Nanos now, Nanos* wait) {
  if (pressing) return true;
  const bool due = alone_since_ == 0 && moving_ > 0 && choice_.overdue(kind, bytes);
  if (due && held_since_ == 0) held_since_ = now;
  const Nanos since = alone_since_ > 0 ? alone_since_ : due ? held_since_ : 0;
  if (since == 0) return true;
  *wait = std::max<Nanos>(since + kHold - now, 0);
  if (*wait > 0) {
    held_ = true;
    return false;
  }
  if (due) {
    choice_.forgo(kind, bytes);
    held_since_ = 0;
  }
  return true;
}

Bouncer::Turn Bouncer::begin(IoRequest::Kind kind, Bytes bytes, bool plain, Nanos now) {
  const bool alone = moving_ == 0 && plain && !rest_;
  ++moving_;
  rest_ = false;
  Turn turn{choice_.choose(kind, bytes, alone), {}};
  if (turn.way.bounce) turn.buffer = buffers_.lease();
  if (turn.way.measured) {
    alone_since_ = now;
    disturbed_ = false;
  } else {
    disturbed_ = true;
  }
  return turn;
}

bool Bouncer::end(IoRequest::Kind kind, Bytes bytes, Turn& turn, Nanos took) {
  const bool went_there = !turn.way.bounce || turn.memory() != nullptr;
  if (turn.memory() != nullptr && took >= 0) bounced_ += bytes;
  turn.buffer.give_back();
  --moving_;
  if (moving_ == 0) held_since_ = 0;
  if (turn.way.measured) {
    if (!went_there || took < 0) choice_.took(kind, bytes, turn.way, -1);
    else if (!disturbed_) choice_.took(kind, bytes, turn.way, took);
    alone_since_ = 0;
    rest_ = true;
  }
  if (!turn.way.measured && moving_ > 0) return false;
  return std::exchange(held_, false);
}

}  // namespace outsize::host
