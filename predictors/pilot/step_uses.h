// What each op of a step worked on and bore: extents, with the thing (network.h) that each was. A gradient is made of what
// the op has saved whose gradient it is: of what that worked on and bore. So backward's ops are told which of several
// things of one name they will work on, and on which extents that small storages share: who lies in these changes, so
// that names say nothing of it.
//
// Bounded: of a step that uses more than kMax of them the older half is forgotten. Costs: O(1) a use or death; a look
// O(log uses).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/types.h"
#include "predictors/pilot/network.h"

namespace outsize::pilot {

class StepUses {
 public:
  static constexpr std::size_t kMax = 1U << 19;

  struct Use {
    std::uint64_t op = 0;
    ExtentId id = kNoExtent;
    ThingId thing = kNobody;  // of an extent that is shared
  };
  // Ops are told in ascending order.
  void use(std::uint64_t op, ExtentId id, ThingId thing) {
    if (uses_.size() >= kMax) forget(kMax / 2);
    uses_.push_back({op, id, thing});
  }
  // Another of that id may be born.
  void die(ExtentId id) {
    if (id >= died_.size()) died_.resize(id + 1 + id / 2);
    died_[id] = forgotten_ + uses_.size();
  }
  // The step has ended.
  void clear() { forget(uses_.size()); }
  // Of that op; the dead, too.
  std::span<const Use> of(std::uint64_t op) const {
    const auto earlier = [](const Use& use, std::uint64_t than) { return use.op < than; };
    const auto begin = std::lower_bound(uses_.begin(), uses_.end(), op, earlier);
    auto end = begin;
    while (end != uses_.end() && end->op == op) ++end;
    return {begin, end};
  }
  // It is one of uses_.
  bool alive(const Use& use) const {
    return use.id >= died_.size() || died_[use.id] <= forgotten_ + static_cast<std::uint64_t>(&use - uses_.data());
  }
  Bytes bytes() const {
    return static_cast<Bytes>(uses_.capacity() * sizeof(Use) + died_.capacity() * sizeof(died_[0]));
  }

 private:
  void forget(std::size_t oldest) {
    uses_.erase(uses_.begin(), uses_.begin() + static_cast<std::ptrdiff_t>(oldest));
    forgotten_ += oldest;
  }

  std::vector<Use> uses_;
  std::uint64_t forgotten_ = 0;      // before these
  std::vector<std::uint64_t> died_;  // by extent: after so many uses, one of that id last did
};

}  // namespace outsize::pilot
