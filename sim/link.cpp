#include "sim/link.h"

#include <algorithm>
#include <tuple>

namespace outsize::sim {
namespace {

constexpr Bytes kSecond = 1'000'000'000;

// a * b / c, whose product may need more than 64 bits.
Bytes scaled(Bytes a, Bytes b, Bytes c) { return static_cast<Bytes>(static_cast<__int128>(a) * b / c); }

Bytes calls_of(const Transfer& transfer) { return std::max<Bytes>(1, (transfer.bytes + kLinkCall - 1) / kLinkCall); }

// Ties by direction and number.
bool ends_sooner(const Transfer& a, const Transfer& b) {
  return std::tuple(a.ends, a.write, a.order) < std::tuple(b.ends, b.write, b.order);
}

}  // namespace

Bytes mixed_rate(const LinkOptions& options, bool write) {
  const Bytes known = write ? options.mixed_write_rate : options.mixed_read_rate;
  return known > 0 ? known : (write ? options.write_rate : options.read_rate) * options.mixed_percent / 100;
}

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
  advance(now);
  while (calls(write) < (single(write) > 0 ? kLinkCalls : 1) && begin_next(write, now)) {}
  foresee();
}

bool Link::begin_next(bool write, Nanos now) {
  auto best = waiting_.end();
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    if (at->write != write) continue;
    if (best == waiting_.end() || at->urgency < best->urgency ||
        (at->urgency == best->urgency && at->order < best->order)) {
      best = at;
    }
  }
  if (best == waiting_.end()) return false;
  Transfer transfer = *best;
  waiting_.erase(best);
  const Bytes factor = random_.one_in(options_.slow_one_in) ? kSlowFactor : 1;
  transfer.fails = random_.one_in(options_.fail_one_in) || ++started_ == options_.fail_kth;
  transfer.started = transfer.seen = now;
  transfer.until_first = options_.latency * factor;
  transfer.left = transfer.bytes * factor;
  running_.push_back(transfer);
  return true;
}

// What runs has come as far as it can by `now`.
void Link::advance(Nanos now) {
  for (Transfer& transfer : running_) {
    if (now <= transfer.seen) continue;
    const Nanos waited = std::min(transfer.until_first, now - transfer.seen);
    transfer.until_first -= waited;
    transfer.left -= std::min(transfer.left, scaled(now - transfer.seen - waited, rate_of(transfer), kSecond));
    transfer.seen = now;
  }
}

// When what runs will end if nothing begins or ends before.
void Link::foresee() {
  for (Transfer& transfer : running_) {
    transfer.ends =
        transfer.seen + transfer.until_first + scaled(transfer.left, kSecond, std::max<Bytes>(1, rate_of(transfer)));
  }
}

// Of all that runs in a direction.
Bytes Link::rate(bool write) const {
  if (calls(!write) > 0) return mixed_rate(options_, write);
  return write ? options_.write_rate : options_.read_rate;
}

Bytes Link::rate_of(const Transfer& transfer) const {
  const Bytes mine = calls_of(transfer);
  const Bytes share = scaled(rate(transfer.write), mine, calls(transfer.write));
  return single(transfer.write) > 0 ? std::min(share, single(transfer.write) * mine) : share;
}

// Under way.
Bytes Link::calls(bool write) const {
  Bytes count = 0;
  for (const Transfer& transfer : running_) {
    if (transfer.write == write) count += calls_of(transfer);
  }
  return count;
}

void Link::nobody_works(Nanos nanos) {
  for (Transfer& transfer : running_) transfer.idle += std::max<Nanos>(nanos, 0);
}

Nanos Link::next_end() const { return std::min_element(running_.begin(), running_.end(), ends_sooner)->ends; }

Transfer Link::take() {
  const auto first = std::min_element(running_.begin(), running_.end(), ends_sooner);
  const Transfer done = *first;
  advance(done.ends);
  running_.erase(first);
  start(done.write, done.ends);
  return done;
}

}  // namespace outsize::sim
