#include "sim/link.h"

#include <algorithm>

namespace outsize::sim {

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
  Transfer& transfer = running_[write];
  transfer = *best;
  waiting_.erase(best);
  Nanos takes = options_.latency + transfer.bytes * 1000 / std::max<Bytes>(1, rate(write) / 1'000'000);
  if (random_.one_in(options_.slow_one_in)) takes *= kSlowFactor;
  transfer.fails = random_.one_in(options_.fail_one_in) || ++started_ == options_.fail_kth;
  transfer.started = now;
  transfer.ends = now + takes;
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
  running_[write] = Transfer{};
  start(write, done.ends);
  return done;
}

}  // namespace outsize::sim
