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
  if (busy()) advance(now);  // what runs may go on at another rate
  waiting_.push_back(transfer);
  start(write, now);
  foresee();
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
    if (transfer.extent == kNoExtent) continue;
    transfer.ends = transfer.seen + transfer.until_first + scaled(transfer.left, kSecond, std::max<Bytes>(1, rate(write)));
  }
}

Bytes Link::rate(bool write) const {
  Bytes rate = write ? options_.write_rate : options_.read_rate;
  if (running_[!write].extent != kNoExtent) {
    const Bytes mixed = write ? options_.mixed_write_rate : options_.mixed_read_rate;
    rate = mixed > 0 ? mixed : rate * options_.mixed_percent / 100;
  }
  const Bytes single = write ? options_.single_write_rate : options_.single_read_rate;
  return single > 0 && single < rate ? std::min(rate, single * calls(write)) : rate;
}

// That could be under way in this direction.
Bytes Link::calls(bool write) const {
  const auto of = [](Bytes bytes) { return std::max<Bytes>(1, (bytes + kLinkCall - 1) / kLinkCall); };
  Bytes count = of(running_[write].bytes);
  for (const Transfer& transfer : waiting_) {
    if (transfer.write == write) count += of(transfer.bytes);
  }
  return count;
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
