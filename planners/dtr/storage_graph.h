// What DTR's heuristics may look at: storages, which storage was computed from which, and which
// are resident. The runtime writes it, the heuristics only read it.
//
// Kirisame et al., "Dynamic Tensor Rematerialization" (ICLR 2021, arxiv.org/abs/2006.09616). Theirs
// is a planner for memory without a tier below: room is made by dropping a storage, whose recipe is
// run again when it is needed.
//
// Units: bytes, and the time unit of the ops (nanoseconds in recorded logs). No errors, no threads.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/types.h"

namespace outsize::dtr {

using StorageId = std::uint32_t;

// What a score is made of.
struct Facts {
  Bytes bytes = 0;
  Nanos compute = 0;   // of all ops that made tensors of this storage, each op once
  Nanos last_use = 0;  // also by recomputations
};

class StorageGraph {
 public:
  // A storage begins absent: its op has been asked for and has not run yet.
  StorageId add(Bytes bytes) {
    facts_.push_back({bytes, 0, 0});
    links_.emplace_back();
    resident_.push_back(0);
    kept_.push_back(0);
    return static_cast<StorageId>(facts_.size() - 1);
  }
  std::size_t size() const { return facts_.size(); }

  // A kept storage stays resident for good, so that no heuristic ever asks for its neighbours or
  // meets it as an absent one: what is computed from it need not be linked to it. Networks have
  // weights with thousands of uses; this is what keeps the graph small.
  void connect(StorageId parent, StorageId child) {
    if (parent == child || kept_[parent]) return;
    links_[parent].children.push_back(child);
    links_[child].parents.push_back(parent);
  }
  void keep(StorageId storage) { kept_[storage] = 1; }
  bool kept(StorageId storage) const { return kept_[storage] != 0; }

  Facts& facts(StorageId storage) { return facts_[storage]; }
  const Facts& facts(StorageId storage) const { return facts_[storage]; }
  bool resident(StorageId storage) const { return resident_[storage] != 0; }
  void set_resident(StorageId storage, bool resident) { resident_[storage] = resident; }

  // A neighbour may be listed twice, where two ops linked the same two storages.
  const std::vector<StorageId>& parents(StorageId storage) const { return links_[storage].parents; }
  const std::vector<StorageId>& children(StorageId storage) const {
    return links_[storage].children;
  }

 private:
  struct Links {
    std::vector<StorageId> parents, children;
  };
  std::vector<Facts> facts_;
  std::vector<Links> links_;
  std::vector<std::uint8_t> resident_, kept_;
};

// A set of ids that is emptied in no time; for walks that must meet each storage once.
class Marks {
 public:
  void clear() { ++round_; }
  // Whether it was new.
  bool insert(std::uint32_t id) {
    if (id >= seen_.size()) seen_.resize(id + id / 2 + 16, 0);
    if (seen_[id] == round_) return false;
    seen_[id] = round_;
    return true;
  }

 private:
  std::vector<std::uint64_t> seen_;
  std::uint64_t round_ = 1;
};

}  // namespace outsize::dtr
