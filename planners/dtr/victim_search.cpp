#include "planners/dtr/victim_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planners/dtr/score.h"

namespace outsize::dtr {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A quotient of doubles made from the integers is off by at most five roundings of 2^-53.
constexpr double kMargin = 0x1p-49;

}  // namespace

void VictimList::append(StorageId storage) {
  if (storage >= place_.size()) place_.resize(storage + storage / 2 + 16, kOut);
  if (place_[storage] != kOut) return;
  if (first_ > live_ + 64) close_gaps();
  place_[storage] = static_cast<std::uint32_t>(order_.size());
  order_.push_back(storage);
  ++live_;
}

void VictimList::remove(StorageId storage) {
  if (!contains(storage)) return;
  order_[place_[storage]] = kGap;
  place_[storage] = kOut;
  --live_;
  while (first_ < order_.size() && order_[first_] == kGap) ++first_;
  if (order_.size() - first_ > 2 * live_ + 64) close_gaps();
}

void VictimList::close_gaps() {
  std::erase(order_, kGap);
  first_ = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = static_cast<std::uint32_t>(i);
}

void VictimSearch::added(StorageId storage) {
  if (policy_.cost == Cost::kClasses) classes_.add(storage);
  if (has_regions()) regions_.add(storage);
}

void VictimSearch::dropped(StorageId storage) {
  if (policy_.cost == Cost::kClasses) classes_.dropped(storage);
  if (has_regions()) regions_.dropped(storage);
}

void VictimSearch::computed(const std::vector<StorageId>& made_resident) {
  if (has_regions()) regions_.computed(made_resident);
  if (policy_.cost == Cost::kClasses) {
    for (StorageId storage : made_resident) classes_.computed(storage);
  }
}

template <Cost kCost>
StorageId VictimSearch::scan(const VictimList& candidates, Nanos clock) {
  double best = kInfinity;
  StorageId victim = VictimList::kGap;
  for (StorageId storage : candidates.with_gaps()) {
    if (storage == VictimList::kGap) continue;
    ++evaluations_;
    const Facts& facts = graph_->facts(storage);
    Nanos cost = facts.compute, last_use = facts.last_use;
    if constexpr (kCost == Cost::kRegions) cost += regions_.both(storage);
    if constexpr (kCost == Cost::kAncestors) cost += regions_.ancestors(storage);
    if constexpr (kCost == Cost::kClasses) cost += classes_.around(storage);
    if constexpr (kCost == Cost::kOne) cost = 1;
    if constexpr (kCost == Cost::kLastUse) cost = facts.last_use;
    if constexpr (kCost == Cost::kFresh) {
      const auto around = regions_.search(storage);
      cost += around.compute;
      last_use = std::max(last_use, around.last_use);
    }
    const Bytes bytes = policy_.by_bytes ? facts.bytes : 1;
    const Nanos staleness = policy_.by_staleness ? clock - last_use : 1;
    double score = kInfinity;
    if (bytes > 0 && staleness > 0) {
      // Most candidates are worse by far: only those near the best are divided exactly. A score of
      // 0 may be worse too (classes can fall below zero), and ends the search all the same.
      score =
          static_cast<double>(cost) / (static_cast<double>(bytes) * static_cast<double>(staleness));
      if (cost != 0 && score > best + std::fabs(best) * kMargin) continue;
      const Wide divisor = static_cast<Wide>(bytes) * static_cast<Wide>(staleness);
      score = nearest_quotient(cost, divisor);
    }
    if (score <= best) {
      best = score;
      victim = storage;
    }
    if (score == 0.0) break;
  }
  return victim;
}

StorageId VictimSearch::choose(const VictimList& candidates, Nanos clock) {
  switch (policy_.cost) {
    case Cost::kRegions:
      return scan<Cost::kRegions>(candidates, clock);
    case Cost::kFresh:
      return scan<Cost::kFresh>(candidates, clock);
    case Cost::kAncestors:
      return scan<Cost::kAncestors>(candidates, clock);
    case Cost::kClasses:
      return scan<Cost::kClasses>(candidates, clock);
    case Cost::kOwn:
      return scan<Cost::kOwn>(candidates, clock);
    case Cost::kOne:
      return scan<Cost::kOne>(candidates, clock);
    case Cost::kLastUse:
      return scan<Cost::kLastUse>(candidates, clock);
  }
  return VictimList::kGap;
}

}  // namespace outsize::dtr
