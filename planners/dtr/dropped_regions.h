// e*, the absent neighbourhood of a resident storage: what can be reached from it through absent
// storages only, towards children and towards parents. Each of these two regions keeps its members
// (interior), the resident storages at its edge (frontier) and the sum of its members' compute.
//
// The rules of upkeep are those of DTR's public simulator. They are not quite the definition: a sum
// is as old as the region's last change, though the compute of a member may have grown since. In
// one case theirs stops on an assertion and ours goes on: an op that returns a view of one operand
// links the others to it and builds no region, so that a storage can be dropped of which a region
// behind it has not heard. It joins that region all the same.
#pragma once

#include <array>
#include <vector>

#include "planners/dtr/storage_graph.h"

namespace outsize::dtr {

class DroppedRegions {
 public:
  explicit DroppedRegions(const StorageGraph& graph) : graph_(&graph) {}

  void add(StorageId storage);
  // Regions that ended at the storage reach through it from now on.
  void dropped(StorageId storage);
  // After an op ran, with the storages that it made resident: theirs are built anew, and so are
  // those that reached through them.
  void computed(const std::vector<StorageId>& storages);

  Nanos ancestors(StorageId storage) const { return regions_[storage][kUp].compute; }
  Nanos both(StorageId storage) const {
    return regions_[storage][kDown].compute + regions_[storage][kUp].compute;
  }

  // The same neighbourhood by one search: each storage counts once, even where it is both an
  // ancestor and a descendant. Returns its compute and the latest use in it.
  struct Neighbourhood {
    Nanos compute = 0;
    Nanos last_use = 0;
  };
  Neighbourhood search(StorageId storage);

 private:
  enum Way : unsigned { kDown, kUp };  // towards children, towards parents
  struct Region {
    std::vector<StorageId> interior, frontier;
    Nanos compute = 0;
  };
  static Way back(Way way) { return way == kDown ? kUp : kDown; }
  const std::vector<StorageId>& next(StorageId storage, Way way) const {
    return way == kDown ? graph_->children(storage) : graph_->parents(storage);
  }
  void build(StorageId base, Way way);
  void absorb(StorageId base, StorageId dropped, Way way);

  const StorageGraph* graph_;
  std::vector<std::array<Region, 2>> regions_;  // by storage; empty while it is absent
  Marks inside_, edge_;
  std::vector<StorageId> stack_;
  std::array<std::vector<StorageId>, 2> affected_;
};

}  // namespace outsize::dtr
