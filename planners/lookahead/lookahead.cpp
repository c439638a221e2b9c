#include "planners/lookahead/lookahead.h"

#include <algorithm>

namespace outsize::lookahead {

struct LookaheadPlanner::Draft {
  const PlanState& state;
  std::vector<Decision>& out;
  Bytes free = 0, reading = 0, writing = 0;
  std::size_t next_victim = 0;  // in order_
  Bytes demand = 0;             // births shortly ahead

  bool can_write(Bytes bytes) const {
    return writing == 0 || writing + bytes <= state.writing_max;
  }
  bool can_read(Bytes bytes) const {
    return reading == 0 || reading + bytes <= state.reading_max;
  }
};

void LookaheadPlanner::on_rekey() {
  heap_.rebuild([this](ExtentId id) { return predictor_.next_use(id); });
}

void LookaheadPlanner::victims(bool last_choice, std::size_t limit, std::vector<ExtentId>& out) {
  heap_.in_order([&](ExtentId id) {
    const Extent& e = table_[id];
    if (last_choice ? may_leave(e) : evictable(e)) out.push_back(id);
    return out.size() < limit;
  });
}

bool LookaheadPlanner::needed_soon(ExtentId id) const {
  return heap_.contains(id) && heap_.key(id) < predictor_.position() + kSoonOps;
}

void LookaheadPlanner::plan(const PlanState& state, std::vector<Decision>& out) {
  Draft draft{state, out, state.free, state.reading, state.writing, 0, 0};
  gather(draft);
  make_headroom(draft);
  prefetch(draft);
  write_ahead(draft);
}

void LookaheadPlanner::gather(Draft& draft) {
  constexpr std::size_t kVictims = 96;
  order_.clear();
  victims(false, kVictims, order_);
  draft.demand = predictor_.demand_within(kHeadroom);
}

// Evicts clean victims whose next use lies beyond `beyond`; starts writing dirty ones. True once
// `need` bytes are free.
bool LookaheadPlanner::free_up(Draft& draft, Bytes need, Position beyond) {
  while (draft.free < need && draft.next_victim < order_.size()) {
    const ExtentId id = order_[draft.next_victim];
    const Extent& e = table_[id];
    if (heap_.key(id) <= beyond) return false;
    ++draft.next_victim;
    if (clean(e)) {
      draft.out.push_back({Decision::Kind::kEvict, Decision::Reason::kFarthestUse, id});
      draft.free += e.bytes;
    } else if (e.below == Below::kNone && e.write_pins == 0 && draft.can_write(e.bytes)) {
      draft.out.push_back({Decision::Kind::kClean, Decision::Reason::kFarthestUse, id});
      draft.writing += e.bytes;
    }
  }
  return draft.free >= need;
}

void LookaheadPlanner::make_headroom(Draft& draft) {
  if (draft.free >= draft.demand) return;
  free_up(draft, draft.demand, predictor_.position() + kSoonOps);
}

void LookaheadPlanner::prefetch(Draft& draft) {
  const std::size_t count = predictor_.upcoming(upcoming_);
  for (std::size_t i = 0; i < count; ++i) {
    const Upcoming& next = upcoming_[i];
    const Extent& e = table_[next.extent];
    if (e.where != Where::kAbsent || e.wanted || e.dying) continue;
    if (!draft.can_read(e.bytes)) return;
    // Births before its use come first; what the prefetch may take is what they leave.
    const Bytes need = e.bytes + std::min(draft.demand, draft.state.budget / 4);
    if (!free_up(draft, need, next.position + kSoonOps)) return;
    draft.out.push_back({Decision::Kind::kPrefetch, Decision::Reason::kForeseenUse, next.extent});
    draft.free -= e.bytes;
    draft.reading += e.bytes;
  }
}

// Writes what will have to leave within kWriteAhead before it has to.
void LookaheadPlanner::write_ahead(Draft& draft) {
  const Bytes wanted = predictor_.demand_within(kWriteAhead);
  Bytes covered = draft.free;
  for (std::size_t i = draft.next_victim; i < order_.size() && covered < wanted; ++i) {
    const ExtentId id = order_[i];
    const Extent& e = table_[id];
    covered += e.bytes;
    if (e.below != Below::kNone || e.write_pins != 0) continue;
    if (!draft.can_write(e.bytes)) return;
    draft.out.push_back({Decision::Kind::kClean, Decision::Reason::kRoomForBirths, id});
    draft.writing += e.bytes;
  }
}

}  // namespace outsize::lookahead
