// Finds the storage to drop: the smallest score among those that may be dropped, in the order in
// which they became droppable.
//
// Of equal scores the last one wins, and a score of exactly 0 ends the search: both are the public
// simulator's, and with them the number of evaluations. A storage of no bytes, or one that was used
// just now, has an infinite score, and is taken where nothing else is left.
#pragma once

#include <span>
#include <vector>

#include "planners/dtr/dropped_classes.h"
#include "planners/dtr/dropped_regions.h"
#include "planners/dtr/policy.h"
#include "planners/dtr/storage_graph.h"

namespace outsize::dtr {

// The storages that may be dropped, oldest first. Constant time, but for the walk.
class VictimList {
 public:
  bool empty() const { return live_ == 0; }
  std::size_t size() const { return live_; }
  bool contains(StorageId storage) const {
    return storage < place_.size() && place_[storage] != kOut;
  }
  // No change where it is in the list already, or not in it.
  void append(StorageId storage);
  void remove(StorageId storage);

  static constexpr StorageId kGap = 0xffffffffU;
  // In order, with kGap where one was removed; until the next change.
  std::span<const StorageId> with_gaps() const {
    return std::span<const StorageId>(order_).subspan(first_);
  }

 private:
  static constexpr std::uint32_t kOut = 0xffffffffU;
  void close_gaps();
  std::vector<StorageId> order_;
  std::size_t first_ = 0;             // in order_; what stands before are gaps
  std::vector<std::uint32_t> place_;  // by storage: its index in order_, or kOut
  std::size_t live_ = 0;
};

class VictimSearch {
 public:
  VictimSearch(const Policy& policy, const StorageGraph& graph)
      : policy_(policy), graph_(&graph), classes_(graph), regions_(graph) {}

  // What the runtime does, so that neighbourhoods are kept up to date.
  void added(StorageId storage);
  void dropped(StorageId storage);
  void computed(const std::vector<StorageId>& made_resident);

  // The list is not empty.
  StorageId choose(const VictimList& candidates, Nanos clock);
  std::int64_t evaluations() const { return evaluations_; }

 private:
  bool has_regions() const {
    return policy_.cost == Cost::kRegions || policy_.cost == Cost::kAncestors;
  }
  template <Cost kCost>
  StorageId scan(const VictimList& candidates, Nanos clock);

  Policy policy_;
  const StorageGraph* graph_;
  DroppedClasses classes_;
  DroppedRegions regions_;
  std::int64_t evaluations_ = 0;
};

}  // namespace outsize::dtr
