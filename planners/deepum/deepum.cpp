#include "planners/deepum/deepum.h"

#include <algorithm>
#include <utility>

namespace outsize::deepum {

struct DeepumPlanner::Draft {
  const PlanState& state;
  std::vector<Decision>& out;
  Bytes free = 0, reading = 0, writing = 0;
  std::size_t coming = 0;       // entries of upcoming_
  bool gathered = false;        // order_ is of this plan
  std::size_t next_victim = 0;  // in order_

  bool can_write(Bytes bytes) const {
    return writing == 0 || writing + bytes <= state.writing_max;
  }
  bool can_read(Bytes bytes) const {
    return reading == 0 || reading + bytes <= state.reading_max;
  }
};

Position DeepumPlanner::key_of(ExtentId id) const {
  const Position otherwise = expected(id) ? predictor_.next_use(id) : kNever - 2 - migrated_[id];
  return hinted_use(table_[id], predictor_.position(), otherwise);
}

void DeepumPlanner::on_resident(ExtentId id) {
  if (!leaving_.contains(id)) {  // it came; otherwise only its next use changed
    if (id >= migrated_.size()) {
      migrated_.resize(id + 1 + id / 2);
      is_kept_.resize(migrated_.size());
    }
    migrated_[id] = migrations_++;
    leaving_.put(id, kNever - 2 - migrated_[id]);
    if (table_[id].hint == Hint::kNone) return;
  }
  // Those of the order of migration that became expected are found when victims are looked for.
  const bool in_order = leaving_.key(id) == kNever - 2 - migrated_[id];
  if (!in_order || table_[id].hint != Hint::kNone) leaving_.put(id, key_of(id));
}

void DeepumPlanner::keep(ExtentId id) {
  leaving_.put(id, key_of(id));
  if (!std::exchange(is_kept_[id], true)) kept_.push_back(id);
}

// Back to the order of migration with those that are no longer expected.
void DeepumPlanner::release() {
  std::erase_if(kept_, [this](ExtentId id) {
    if (expected(id)) return false;
    if (leaving_.contains(id)) leaving_.put(id, key_of(id));
    is_kept_[id] = false;
    return true;
  });
}

void DeepumPlanner::victims(bool last_choice, std::size_t limit, std::vector<ExtentId>& out) {
  found_.clear();
  late_.clear();
  leaving_.in_order([&](ExtentId id) {
    const Extent& e = table_[id];
    const bool unexpected = leaving_.key(id) >= kUnexpected;
    const bool late = !unexpected || (e.hint == Hint::kNone && expected(id));
    if (late && unexpected) found_.push_back(id);
    if (last_choice ? may_leave(e) : evictable(e)) (late ? late_ : out).push_back(id);
    return out.size() < limit;
  });
  for (const ExtentId id : found_) keep(id);
  if (out.size() >= limit) return;
  std::sort(late_.begin(), late_.end(), [this](ExtentId a, ExtentId b) {
    return leaving_.key(a) != leaving_.key(b) ? leaving_.key(a) > leaving_.key(b) : a < b;
  });
  for (std::size_t i = 0; i < late_.size() && out.size() < limit; ++i) out.push_back(late_[i]);
}

void DeepumPlanner::plan(const PlanState& state, std::vector<Decision>& out) {
  Draft draft{state, out, state.free, state.reading, state.writing, predictor_.upcoming(upcoming_), false, 0};
  cut_reach(draft);
  release();
  if (options_.pre_eviction) pre_evict(draft);
  prefetch(draft);
}

// N ops may need more than the budget holds. Then to keep what all of them need would leave no victim,
// and nothing could come ahead: N is cut to what fits.
void DeepumPlanner::cut_reach(Draft& draft) {
  const Position now = predictor_.position();
  reach_ = options_.degree;
  Bytes needed = 0;
  for (std::size_t i = 0; i < draft.coming; ++i) {
    const Position ahead = upcoming_[i].position - now;
    needed += table_[upcoming_[i].extent].bytes;
    if (ahead < reach_ && needed + upcoming_[i].demand <= draft.state.budget) continue;
    reach_ = std::min(ahead, reach_);
    draft.coming = i;
    while (draft.coming > 0 && upcoming_[draft.coming - 1].position - now >= reach_) --draft.coming;
  }
}

// Only what nothing within N ops needs: those that `victims` gives first.
void DeepumPlanner::gather(Draft& draft) {
  draft.gathered = true;
  order_.clear();
  victims(false, kVictims, order_);
  while (!order_.empty() && leaving_.key(order_.back()) < kUnexpected) order_.pop_back();
}

// Evicts clean victims and starts writing changed ones; true once `need` bytes are free.
bool DeepumPlanner::free_up(Draft& draft, Bytes need) {
  if (draft.free >= need) return true;
  if (!draft.gathered) gather(draft);
  Bytes coming = 0;  // once it is written
  for (; draft.free + coming < need && draft.next_victim < order_.size(); ++draft.next_victim) {
    const ExtentId id = order_[draft.next_victim];
    const Extent& e = table_[id];
    if (clean(e)) {
      draft.out.push_back({Decision::Kind::kEvict, Decision::Reason::kLeastRecent, id});
      draft.free += e.bytes;
    } else if (e.below == Below::kWriting) {
      coming += e.bytes;
    } else if (e.write_pins == 0) {
      if (!draft.can_write(e.bytes)) break;
      draft.out.push_back({Decision::Kind::kClean, Decision::Reason::kLeastRecent, id});
      draft.writing += e.bytes;
      coming += e.bytes;
    }
  }
  return draft.free >= need;
}

// Room for everything that comes back and is born within the next N ops.
void DeepumPlanner::pre_evict(Draft& draft) {
  Bytes wanted = 0, absent = 0;
  for (std::size_t i = 0; i < draft.coming; ++i) {
    const Extent& e = table_[upcoming_[i].extent];
    if (e.where == Where::kAbsent) absent += e.bytes;
    wanted = std::max(wanted, absent + upcoming_[i].demand);
  }
  free_up(draft, wanted);
}

// Soonest use first, each only if the births before its use find room as well: they would push it
// out again. Without pre-eviction nobody makes room for births before they come.
void DeepumPlanner::prefetch(Draft& draft) {
  for (std::size_t i = 0; i < draft.coming; ++i) {
    const Upcoming& next = upcoming_[i];
    const Extent& e = table_[next.extent];
    if (e.where != Where::kAbsent || e.wanted || e.dying || e.hint == Hint::kLater) continue;
    if (!draft.can_read(e.bytes)) return;
    if (!free_up(draft, e.bytes + (options_.pre_eviction ? next.demand : 0))) return;
    draft.out.push_back({Decision::Kind::kPrefetch, Decision::Reason::kForeseenUse, next.extent});
    draft.free -= e.bytes;
    draft.reading += e.bytes;
  }
}

}  // namespace outsize::deepum
