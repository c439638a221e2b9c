// What each op of a step worked on and bore: extents, with the thing (network.h) that each was. A gradient is made of what
// the op has saved whose gradient it is: of what that worked on and bore. So backward's ops are told which of several
// things of one name they will work on, and on which extents that small storages share: who lies in these changes, so
// that names say nothing of it.
//
// Bounded: of a step that uses more than kMax of them, or has more ops, the older half is forgotten. Costs: O(1) a use, a
// death or a look.
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
    ExtentId id = kNoExtent;
    ThingId thing = kNobody;  // of an extent that is shared
  };
  // Ops are told in ascending order.
  void use(std::uint64_t op, ExtentId id, ThingId thing) {
    if (begins_.empty() || op - first_ >= kMax + kMax / 2) begin_at(op);
    while (op - first_ >= begins_.size()) begins_.push_back(forgotten_ + uses_.size());
    uses_.push_back({id, thing});
    if (uses_.size() >= kMax || begins_.size() >= kMax) forget_older_half();
  }
  // Another of that id may be born.
  void die(ExtentId id) {
    if (id >= died_.size()) died_.resize(id + 1 + id / 2);
    died_[id] = forgotten_ + uses_.size();
  }
  // The step has ended.
  void clear() { begin_at(0); }
  // Of that op; the dead, too.
  std::span<const Use> of(std::uint64_t op) const {
    if (op < first_ || op - first_ >= begins_.size()) return {};
    const std::size_t at = op - first_, end = at + 1 < begins_.size() ? begins_[at + 1] - forgotten_ : uses_.size();
    const std::size_t begin = begins_[at] - forgotten_;
    return std::span(uses_).subspan(begin, end - begin);
  }
  // It is one of uses_.
  bool alive(const Use& use) const {
    return use.id >= died_.size() || died_[use.id] <= forgotten_ + static_cast<std::uint64_t>(&use - uses_.data());
  }
  Bytes bytes() const {
    return static_cast<Bytes>(uses_.capacity() * sizeof(Use) + begins_.capacity() * sizeof(begins_[0]) +
                              died_.capacity() * sizeof(died_[0]));
  }

 private:
  // What was used before that op is forgotten.
  void begin_at(std::uint64_t op) {
    forgotten_ += uses_.size();
    uses_.clear();
    begins_.clear();
    first_ = op;
  }
  // Of what there are too many of: ops, or uses, of which the running op may have had nearly all.
  void forget_older_half() {
    auto kept = begins_.begin() + static_cast<std::ptrdiff_t>(begins_.size() / 2);
    std::uint64_t oldest = *kept - forgotten_;
    if (uses_.size() >= kMax) {
      kept = std::lower_bound(begins_.begin(), begins_.end() - 1, forgotten_ + kMax / 2);
      oldest = std::max<std::uint64_t>(*kept - forgotten_, kMax / 2);
    }
    *kept = forgotten_ + oldest;
    first_ += static_cast<std::uint64_t>(kept - begins_.begin());
    begins_.erase(begins_.begin(), kept);
    uses_.erase(uses_.begin(), uses_.begin() + static_cast<std::ptrdiff_t>(oldest));
    forgotten_ += oldest;
  }

  std::vector<Use> uses_;
  std::vector<std::uint64_t> begins_;  // by op from first_ on: how many uses there had been before, forgotten ones among them
  std::uint64_t first_ = 0;
  std::uint64_t forgotten_ = 0;      // before these
  std::vector<std::uint64_t> died_;  // by extent: after so many uses, one of that id last did
};

}  // namespace outsize::pilot
