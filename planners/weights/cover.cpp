#include "planners/weights/cover.h"

#include <algorithm>
#include <utility>

namespace outsize::weights {

void Cover::select(const Cycle& cycle, Bytes alive, Bytes memory, const CoverOptions& options) {
  cycle_ = &cycle;
  options_ = options;
  lay_out(alive, memory);
  candidates_.clear();
  for (std::uint32_t number = 0; number < cycle.gaps.size(); ++number) {
    if (allowed(number) && rate_at_most(number).covered > 0) candidates_.push_back(rate_at_most(number));
  }
  std::make_heap(candidates_.begin(), candidates_.end(), worse);
  take_best_until_it_fits();
  add_up(alive, memory);
  cycle_ = nullptr;
}

void Cover::lay_out(Bytes alive, Bytes memory) {
  const Cycle& cycle = *cycle_;
  ops_ = static_cast<std::uint32_t>(cycle.more.size());
  slot_count_ = std::min(ops_, kSlots);
  slots_.assign(slot_count_, -memory);
  for (std::uint32_t op = 0; op < ops_; ++op) {
    Bytes& slot = slots_[std::uint64_t{op} * slot_count_ / ops_];
    slot = std::max(slot, alive + cycle.more[op] - memory);
  }
  blocks_.assign((slot_count_ + kBlock - 1) / kBlock, {});
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) look_at(block);
  short_.assign(slot_count_ + 1, 0);
  for (std::uint32_t slot = 0; slot < slot_count_; ++slot) short_[slot + 1] = short_[slot] + (overflow_of(slot) > 0);
  away_.assign(cycle.gaps.size(), 0);
  any_ = false;
  written_.assign(cycle.versions, false);
  leaves_.assign(cycle.gaps.size(), false);
  version_at_.assign(cycle.versions + 1, 0);
  for (const Cycle::Gap& gap : cycle.gaps) ++version_at_[gap.version + 1];
  for (std::uint32_t version = 0; version < cycle.versions; ++version) version_at_[version + 1] += version_at_[version];
  of_version_.resize(cycle.gaps.size());
  std::vector<std::uint32_t> at(version_at_.begin(), version_at_.end());
  for (std::uint32_t number = 0; number < cycle.gaps.size(); ++number) {
    of_version_[at[cycle.gaps[number].version]++] = number;
  }
}

bool Cover::allowed(std::uint32_t number) const {
  const Cycle::Gap& gap = cycle_->gaps[number];
  if (gap.bytes == 0 || away_[number] != 0 || (options_.weights_only && !gap.lasts)) return false;
  if (options_.solver == Solver::kSingle) return !gap.changed;
  return options_.solver == Solver::kGreedyStar || !leaves_[gap.owner];
}

// Slots that lie within the gap as a whole; two ranges where it goes on past the step's end.
std::array<Cover::Range, 2> Cover::slots_of(const Cycle::Gap& gap) const {
  const auto up = [this](std::uint32_t op) {  // the first slot that begins at `op` or later
    return static_cast<std::uint32_t>((std::uint64_t{op} * slot_count_ + ops_ - 1) / ops_);
  };
  const auto down = [this](std::uint32_t op) {  // the first slot that ends after `op`
    return static_cast<std::uint32_t>(std::uint64_t{op} * slot_count_ / ops_);
  };
  const std::uint32_t end = gap.first + gap.count;
  if (end <= ops_) return {Range{up(gap.first), down(end)}, Range{}};
  return {Range{up(gap.first), slot_count_}, Range{0, down(end - ops_)}};
}

Cover::Candidate Cover::rate(std::uint32_t number) const {
  const Cycle::Gap& gap = cycle_->gaps[number];
  Bytes covered = 0;
  for (const Range range : slots_of(gap)) {
    each_block(range, [&](std::uint32_t first, std::uint32_t end) {
      const Block& block = blocks_[first / kBlock];
      if (block.least >= gap.bytes) {
        covered += (end - first) * gap.bytes;
      } else if (block.most > 0) {
        for (std::uint32_t slot = first; slot < end; ++slot) {
          covered += std::min(std::max<Bytes>(overflow_of(slot), 0), gap.bytes);
        }
      }
    });
  }
  return {covered, price(gap), number};
}

void Cover::look_at(std::uint32_t number) {
  Block& block = blocks_[number];
  const auto first = slots_.begin() + number * kBlock;
  const auto [least, most] = std::minmax_element(first, first + std::min(kBlock, slot_count_ - number * kBlock));
  block.least = *least - block.taken;
  block.most = *most - block.taken;
}

// As if what does not fit were more than the gap's bytes wherever something does not.
Cover::Candidate Cover::rate_at_most(std::uint32_t number) const {
  const Cycle::Gap& gap = cycle_->gaps[number];
  Bytes slots = 0;
  for (const Range range : slots_of(gap)) {
    if (range.first < range.end) slots += short_[range.end] - short_[range.first];
  }
  return {slots * gap.bytes, price(gap), number};
}

std::int64_t Cover::price(const Cycle::Gap& gap) const {
  return gap.returns + (gap.version != 0 && !written_[gap.version]);
}

// By covered / price; what costs nothing comes first.
bool Cover::worse(const Candidate& a, const Candidate& b) {
  const Bytes left = a.covered * b.price, right = b.covered * a.price;
  if (left != right) return left < right;
  if (a.covered != b.covered) return a.covered < b.covered;
  return a.gap > b.gap;
}

void Cover::offer(std::uint32_t number) {
  if (!allowed(number)) return;
  const Candidate candidate = rate(number);
  if (candidate.covered == 0) return;
  candidates_.push_back(candidate);
  std::push_heap(candidates_.begin(), candidates_.end(), worse);
}

void Cover::take(std::uint32_t number) {
  const Cycle::Gap& gap = cycle_->gaps[number];
  any_ = true;
  away_[number] = kAway;
  leaves_[gap.owner] = true;
  for (const Range range : slots_of(gap)) {
    each_block(range, [&](std::uint32_t first, std::uint32_t end) {
      Block& block = blocks_[first / kBlock];
      if (end - first == kBlock) {
        block.least -= gap.bytes;
        block.most -= gap.bytes;
        block.taken += gap.bytes;
      } else {
        for (std::uint32_t slot = first; slot < end; ++slot) slots_[slot] -= gap.bytes;
        look_at(first / kBlock);
      }
    });
  }
  if (std::exchange(written_[gap.version], true) || gap.version == 0) return;
  for (std::uint32_t i = version_at_[gap.version]; i < version_at_[gap.version + 1]; ++i) offer(of_version_[i]);
}

// A candidate covers less once others were taken, so what stands in front is looked at again before it is
// taken. It gets cheaper only with the first gap of its version, and is then offered anew.
void Cover::take_best_until_it_fits() {
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), worse);
    const Candidate before = candidates_.back();
    candidates_.pop_back();
    const std::uint32_t number = before.gap;
    if (!allowed(number)) continue;
    const Candidate now = rate(number);
    if (now.covered == 0) continue;
    if (worse(now, before)) {
      candidates_.push_back(now);
      std::push_heap(candidates_.begin(), candidates_.end(), worse);
      continue;
    }
    take(number);
  }
}

void Cover::add_up(Bytes alive, Bytes memory) {
  kept_.assign(ops_ + 1, 0);
  for (std::uint32_t number = 0; number < away_.size(); ++number) {
    const Cycle::Gap& gap = cycle_->gaps[number];
    if (away_[number] == 0) continue;
    const std::uint32_t end = gap.first + gap.count;
    if (gap.first < ops_) kept_[gap.first] -= gap.bytes;
    if (end > ops_) kept_[0] -= gap.bytes;
    if (end != ops_) kept_[end > ops_ ? end - ops_ : end] += gap.bytes;
    if (gap.twin != kNoGap) away_[gap.twin] = kAway;
  }
  kept_.pop_back();
  for (std::uint32_t number = 0; number < away_.size(); ++number) {
    if (written_[cycle_->gaps[number].version]) away_[number] |= kWritten;
  }
  Bytes away = 0;
  overflow_ = 0;
  for (std::uint32_t op = 0; op < ops_; ++op) {
    away += kept_[op];
    kept_[op] = alive + cycle_->more[op] + away;
    overflow_ = std::max(overflow_, kept_[op] - memory);
  }
}

}  // namespace outsize::weights
