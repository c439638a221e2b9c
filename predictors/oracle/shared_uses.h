// The next uses of extents that small storages share: of each extent, those of the storages in it, soonest first. It
// follows the place when it is asked: O(log storages) for a use that was passed.
#pragma once

#include <algorithm>
#include <vector>

#include "predictors/steps/outlook.h"

namespace outsize::oracle {

class SharedUses {
 public:
  // `object` lies in `id` from now on, and is used next at or after `place`.
  void add(const steps::StepRecord& run, ExtentId id, std::uint32_t object, std::uint32_t place) {
    if (id >= extents_.size()) extents_.resize(id + 1 + id / 2);
    Extent& extent = extents_[id];
    extent.any = true;
    const std::uint32_t death = run.objects[object].death_op;
    extent.death = std::max(extent.death, death == steps::kNone ? kNever : Position{death});
    push(run, extent, object, place);
  }
  // The next use of what lies in `id` still, as `holders` say; where there is none, when the last of it dies.
  // False where nothing is known to lie there.
  bool next(const steps::StepRecord& run, const std::vector<ExtentId>& holders, ExtentId id, std::uint32_t place,
            Position& use) {
    if (id >= extents_.size() || !extents_[id].any) return false;
    Extent& extent = extents_[id];
    while (!extent.due.empty()) {
      const Due first = extent.due.front();
      const bool here = holders[first.object] == id;
      if (here && first.use >= place) {
        use = first.use;
        return true;
      }
      std::pop_heap(extent.due.begin(), extent.due.end(), later);
      extent.due.pop_back();
      if (here) push(run, extent, first.object, place);
    }
    use = extent.death == kNever ? kNever : std::max(extent.death, Position{place});
    return true;
  }
  // Shows each object whose uses are listed, and lists none any more.
  template <class See>
  void remove(ExtentId id, See see) {
    if (id >= extents_.size()) return;
    for (const Due& due : extents_[id].due) see(due.object);
    extents_[id].due.clear();
    extents_[id].death = 0;
    extents_[id].any = false;
  }

 private:
  struct Due {
    std::uint32_t use = 0, object = 0;
  };
  struct Extent {
    std::vector<Due> due;  // a heap
    Position death = 0;    // of the last to die of those that ever lay here
    bool any = false;
  };
  static bool later(const Due& a, const Due& b) { return a.use != b.use ? a.use > b.use : a.object > b.object; }
  static void push(const steps::StepRecord& run, Extent& extent, std::uint32_t object, std::uint32_t place) {
    const std::uint32_t use = run.use_from(object, place);
    if (use == steps::kNone) return;
    extent.due.push_back({use, object});
    std::push_heap(extent.due.begin(), extent.due.end(), later);
  }

  std::vector<Extent> extents_;
};

}  // namespace outsize::oracle
