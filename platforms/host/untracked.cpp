#include "platforms/host/untracked.h"

#include <algorithm>

namespace outsize::host {

void UntrackedLedger::note(Run& run, Bytes outside) {
  run.rise = std::max(run.rise, outside - run.base);
  if (run.rise < kNoise) return;
  if (rises_.size() >= kSitesMax && !rises_.contains(run.site)) forget_smaller_half();
  Bytes& largest = rises_[run.site].most;
  largest = std::max(largest, run.rise);
}

void UntrackedLedger::forget_smaller_half() {
  const std::vector<Untracked> kept = largest(kSitesMax / 2);
  std::unordered_map<SiteId, Rise> rises;
  for (const Untracked& one : kept) rises.emplace(one.site, rises_[one.site]);
  rises_.swap(rises);
}

// A run ended before this look.
void UntrackedLedger::end(ThreadId thread, Run& run, Bytes outside) {
  run.over = true;
  tell_of(thread, run);
  const Bytes back = std::min(run.peak - run.base, run.peak - outside);
  if (back < kNoise) return;
  Bytes& scratch = rises_[run.site].scratch;
  scratch = std::max(scratch, back);
}

void UntrackedLedger::tell_of(ThreadId thread, const Run& run) const {
  if (risen_ && run.rise >= kNoise) risen_(thread, run.site, run.rise);
}

void UntrackedLedger::look(Bytes outside, std::span<const Running> running) {
  const Bytes before = looked_ ? outside_ : outside;
  for (Run& run : runs_) {
    const auto thread = static_cast<ThreadId>(&run - runs_.data());
    const bool goes_on = std::any_of(running.begin(), running.end(), [&](const Running& op) {
      return op.thread == thread && op.site == run.site && op.serial == run.serial;
    });
    if (!run.over && !goes_on) end(thread, run, outside);
  }
  for (const Running& op : running) {
    if (op.thread >= runs_.size()) runs_.resize(op.thread + 1);
    Run& run = runs_[op.thread];
    if (run.over) run = {op.site, op.serial, before, before, 0, false};
    run.base = std::min(run.base, outside);
    run.peak = std::max(run.peak, outside);
    note(run, outside);
  }
  if (running.empty()) {
    if (op_ran_) between_ = {0, 0, before, before, 0, false};
    between_.base = std::min(between_.base, outside);
    note(between_, outside);
  } else if (!op_ran_) {
    tell_of(trace::kUnknownThread, between_);
  }
  op_ran_ = !running.empty();
  outside_ = outside;
  looked_ = true;
}

Bytes UntrackedLedger::seen(SiteId site) const {
  const auto at = rises_.find(site);
  return at == rises_.end() ? 0 : at->second.scratch;
}

void UntrackedLedger::expect(ThreadId thread, Bytes bytes) {
  ended(thread);
  expecting_.push_back({thread, outside_, bytes});
}

void UntrackedLedger::ended(ThreadId thread) {
  std::erase_if(expecting_, [thread](const Expecting& one) { return one.thread == thread; });
}

Bytes UntrackedLedger::expected() const {
  Bytes sum = 0;
  for (const Expecting& one : expecting_) sum += one.bytes;
  return sum;
}

Bytes UntrackedLedger::level() const {
  Bytes level = outside_;
  if (!expecting_.empty()) {
    Bytes base = outside_;
    for (const Expecting& one : expecting_) base = std::min(base, one.base);
    level = std::max(level, base + expected());
  }
  return level;
}

Bytes UntrackedLedger::tensors_in(Bytes whole) const { return whole - margin(whole) - level(); }

Bytes UntrackedLedger::whole_for(Bytes tensors) const {
  const Bytes least = tensors + level() + 16 * kMiB;  // margin() also takes a share of the whole
  return round_up((least + least / 32) * 64 / 63, kMiB);
}

std::vector<Untracked> UntrackedLedger::largest(std::size_t most) const {
  std::vector<Untracked> all;
  for (const auto& [site, rise] : rises_) all.push_back({site, rise.most});
  std::sort(all.begin(), all.end(), [](const Untracked& a, const Untracked& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.site < b.site;
  });
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace outsize::host
