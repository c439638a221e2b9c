#include "sim/link.h"

#include <algorithm>

namespace outsize::sim {
namespace {

constexpr Bytes kSecond = 1'000'000'000;

// a * b / c, whose product may need more than 64 bits.
Bytes scaled(Bytes a, Bytes b, Bytes c) { return static_cast<Bytes>(static_cast<__int128>(a) * b / c); }

}  // namespace

void Link::submit(ExtentId extent, bool write, Urgency urgency, Bytes bytes, Nanos now) {
  Transfer transfer;
  transfer.extent = extent;
  transfer.write = write;
  transfer.urgency = urgency;
  transfer.bytes = bytes;
  transfer.order = ++order_;
  waiting_.push_back(transfer);
  start(write, now);
}

void Link::promote(ExtentId extent, Urgency urgency) {
  for (Transfer& transfer : waiting_) {
    if (transfer.extent == extent) transfer.urgency = std::min(transfer.urgency, urgency);
  }
}

void Link::start(bool write, Nanos now) {
  if (running_[write].extent != kNoExtent) return;
  auto best = waiting_.end();
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    if (at->write != write) continue;
    if (best == waiting_.end() || at->urgency < best->urgency ||
        (at->urgency == best->urgency && at->order < best->order)) {
      best = at;
    }
  }
  if (best == waiting_.end()) return;
  advance(now);
  Transfer& transfer = running_[write];
  transfer = *best;
  waiting_.erase(best);
  const Bytes factor = random_.one_in(options_.slow_one_in) ? kSlowFactor : 1;
  transfer.fails = random_.one_in(options_.fail_one_in) || ++started_ == options_.fail_kth;
  transfer.started = transfer.seen = now;
  transfer.until_first = options_.latency * factor;
  transfer.left = transfer.bytes * factor;
  foresee();
}

// What runs has come as far as it can by `now`.
void Link::advance(Nanos now) {
  for (const bool write : {false, true}) {
    Transfer& transfer = running_[write];
    if (transfer.extent == kNoExtent || now <= transfer.seen) continue;
    const Nanos waited = std::min(transfer.until_first, now - transfer.seen);
    transfer.until_first -= waited;
    transfer.left -= std::min(transfer.left, scaled(now - transfer.seen - waited, rate(write), kSecond));
    transfer.seen = now;
  }
}

// When what runs will end if nothing begins or ends before.
void Link::foresee() {
  for (const bool write : {false, true}) {
    Transfer& transfer = running_[write];
    transfer.ends = transfer.seen + transfer.until_first + scaled(transfer.left, kSecond, std::max<Bytes>(1, rate(write)));
  }
}

Bytes Link::rate(bool write) const {
  const Bytes alone = write ? options_.write_rate : options_.read_rate;
  if (running_[!write].extent == kNoExtent) return alone;
  const Bytes mixed = write ? options_.mixed_write_rate : options_.mixed_read_rate;
  return mixed > 0 ? mixed : alone * options_.mixed_percent / 100;
}

bool Link::write_ends_first() const {
  if (running_[0].extent == kNoExtent) return true;
  return running_[1].extent != kNoExtent && running_[1].ends < running_[0].ends;
}

Nanos Link::next_end() const { return running_[write_ends_first()].ends; }

Transfer Link::take() {
  const bool write = write_ends_first();
  const Transfer done = running_[write];
  advance(done.ends);
  running_[write] = Transfer{};
  foresee();
  start(write, done.ends);
  return done;
}

}  // namespace outsize::sim
