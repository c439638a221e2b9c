#include "planners/ahead/ahead.h"

#include <algorithm>

namespace outsize::ahead {
void AheadPlanner::Draft::evict(ExtentId id, const Extent& e) {
  out.push_back({Decision::Kind::kEvict, Decision::Reason::kFarthestUse, id});
  free += e.bytes;
  evicted += e.bytes;
}

void AheadPlanner::Draft::clean(ExtentId id, const Extent& e, Decision::Reason reason) {
  const auto same = [id](const Decision& d) { return d.kind == Decision::Kind::kClean && d.extent == id; };
  if (std::any_of(out.begin(), out.end(), same)) return;  // this plan writes it already
  out.push_back({Decision::Kind::kClean, reason, id});
  writing += e.bytes;
}

void AheadPlanner::Draft::prefetch(ExtentId id, const Extent& e) {
  out.push_back({Decision::Kind::kPrefetch, Decision::Reason::kForeseenUse, id});
  free -= e.bytes;
  trust -= e.bytes;
  reading += e.bytes;
}

void AheadPlanner::on_rekey() {
  leaving_.rebuild([this](ExtentId id) { return key_of(id); });
}

void AheadPlanner::victims(bool last_choice, std::size_t limit, std::vector<ExtentId>& out) {
  leaving_.in_order([&](ExtentId id) {
    const Extent& e = table_[id];
    if (last_choice ? may_leave(e) : evictable(e)) out.push_back(id);
    return out.size() < limit;
  });
}

bool AheadPlanner::needed_soon(ExtentId id) const {
  return leaving_.contains(id) && leaving_.key(id) < predictor_.position() + kSoonOps;
}

void AheadPlanner::plan(const PlanState& state, std::vector<Decision>& out) {
  Draft draft(state, out);
  foresee(draft);
  draft.bound = link_bound(draft);
  keep_pace(draft);
  weigh_trust(draft);
  prefetch(draft);
  write_ahead(draft);
}

// A margin is for what the transfers in flight hold up: little on a fast link, or where the slots are small.
void AheadPlanner::keep_pace(Draft& draft) const {
  if (draft.bound) draft.pace = kPressed;
  Pace& pace = draft.pace;
  const Nanos up = time_of(draft.state.reading_max, draft.read_rate);
  const Nanos down = time_of(draft.state.writing_max, draft.write_rate);
  pace.headroom = std::min(pace.headroom, down);
  pace.read_margin = std::min(pace.read_margin, up);
  pace.write_margin = std::min(pace.write_margin, down);
}

void AheadPlanner::weigh_trust(Draft& draft) {
  const PlanState& now = draft.state;
  if (trust_ < 0) trust_ = now.budget;
  trust_ += now.foreseen.hit - judged_.foreseen.hit;
  trust_ += (now.demanded - judged_.demanded) / kTrustRegained;
  trust_ -= (now.foreseen.missed - judged_.foreseen.missed) * kTrustLost;
  trust_ = std::clamp<Bytes>(trust_, 0, now.budget);
  judged_ = now;
  draft.trust = trust_ - now.foreseen.open;
}

// Whether order_ has a victim there. They are looked for only as far as a plan asks: most have nothing to do.
bool AheadPlanner::reaches(Draft& draft, std::size_t at) {
  while (draft.sought == 0 || at >= order_.size()) {
    if (draft.sought == kVictims) return false;
    draft.sought = draft.sought == 0 ? kVictimsFirst : kVictims;
    order_.clear();
    victims(false, draft.sought, order_);
    if (order_.size() < draft.sought) draft.sought = kVictims;  // there are no more
  }
  return true;
}

void AheadPlanner::foresee(Draft& draft, std::size_t most) {
  const std::span<Upcoming> out = std::span(upcoming_).first(most);
  draft.coming = predictor_.to_bring(out.first(predictor_.upcoming(out)));
  std::size_t gone = 0;
  for (std::size_t i = 0; i < draft.coming; ++i) {
    absent_[gone] = static_cast<std::uint16_t>(i);  // nobody can guess: better than a branch
    gone += !leaving_.contains(upcoming_[i].extent);
  }
  for (std::size_t i = 0; i < gone; ++i) {
    const Extent& e = table_[upcoming_[absent_[i]].extent];
    if (e.where != Where::kAbsent) continue;  // it is on its way, or dead
    absent_[draft.absent++] = absent_[i];
    draft.absent_bytes += e.bytes;
  }
  if (draft.state.read_rate > 0) draft.read_rate = draft.state.read_rate;
  if (draft.state.write_rate > 0) draft.write_rate = draft.state.write_rate;
}

// Whether what is foreseen to come, or to make way for it, keeps the link busy for most of that time.
bool AheadPlanner::link_bound(const Draft& draft) const {
  if (draft.coming == 0) return false;
  const Upcoming& last = upcoming_[draft.coming - 1];
  const Bytes leaving = std::max<Bytes>(last.demand + draft.absent_bytes - draft.free, 0);
  const Nanos busy = std::max(time_of(draft.absent_bytes, draft.read_rate), time_of(leaving, draft.write_rate));
  return busy > last.in / 100 * kBusyPercent;
}

// Begins to write what is used farthest ahead, as far as it would make `need` bytes free.
void AheadPlanner::write_victims(Draft& draft, Bytes need, Position beyond) {
  Bytes freed = draft.free;
  for (std::size_t i = draft.next_victim; freed < need && reaches(draft, i); ++i) {
    const Extent& e = table_[order_[i]];
    if (leaving_.key(order_[i]) <= beyond) return;
    freed += e.bytes;
    if (e.below != Below::kNone || e.write_pins != 0 || !draft.can_write(e.bytes)) continue;
    draft.clean(order_[i], e, Decision::Reason::kFarthestUse);
  }
}

// Evicts clean victims whose next use lies beyond `beyond`; starts writing dirty ones. True once
// `need` bytes are free.
bool AheadPlanner::free_up(Draft& draft, Bytes need, Position beyond, bool for_prefetch) {
  while (draft.free < need && reaches(draft, draft.next_victim)) {
    const ExtentId id = order_[draft.next_victim];
    const Extent& e = table_[id];
    if (leaving_.key(id) <= beyond) return false;
    if (for_prefetch && e.prefetched != Prefetched::kNo) return false;
    if (draft.bound && !clean(e)) {
      write_victims(draft, need, beyond);
      return false;
    }
    ++draft.next_victim;
    if (clean(e)) {
      draft.evict(id, e);
    } else if (e.below == Below::kNone && e.write_pins == 0 && draft.can_write(e.bytes)) {
      draft.clean(id, e, Decision::Reason::kFarthestUse);
    }
  }
  return draft.free >= need;
}

// Soonest use first. An extent comes only if it can stay until then: the births before its use must
// find room among what is free and what is used later than it, and of that the changed part only as
// far as it can be written by then. Otherwise it would be brought twice.
void AheadPlanner::prefetch(Draft& draft) {
  std::size_t farther = 0;  // order_[0, farther) is used later than the candidate, and counted
  Bytes clean_bytes = 0, changed_bytes = 0;
  Bytes headroom = -1;  // not asked for yet
  const auto count = [&](ExtentId id, int sign) {
    (clean(table_[id]) ? clean_bytes : changed_bytes) += sign * table_[id].bytes;
  };
  Bytes absent = draft.reading;
  for (std::size_t i = 0; i < draft.absent; ++i) {
    const Upcoming& next = upcoming_[absent_[i]];
    const Extent& e = table_[next.extent];
    if (!awaited(e)) continue;
    absent += e.bytes;
    const Nanos early = next.in - draft.pace.read_margin;
    if (early > 0 && early > draft.pace.read_factor * time_of(absent, draft.read_rate)) return;
    if (draft.trust <= 0 || !draft.can_read(e.bytes)) return;
    if (e.bytes > draft.trust) continue;  // what is smaller may come on trial
    while (farther > 0 && leaving_.key(order_[farther - 1]) <= next.position) count(order_[--farther], -1);
    const auto in = static_cast<std::uint64_t>(next.in);
    const auto writable = static_cast<Bytes>(draft.write_rate / 1'000 * in / 1'000'000);
    const auto room = [&] {
      return draft.free + clean_bytes - draft.evicted + std::min(changed_bytes, writable);
    };
    while (room() < e.bytes + next.demand && reaches(draft, farther) && leaving_.key(order_[farther]) > next.position) {
      count(order_[farther++], 1);
    }
    if (room() < e.bytes + next.demand) return;
    if (next.demand > 0 && headroom < 0) headroom = predictor_.demand_within(draft.pace.headroom);
    const Bytes need = e.bytes + (next.demand > 0 ? std::min(headroom, next.demand) : 0);
    if (!free_up(draft, need, next.position, true)) return;
    draft.prefetch(next.extent, e);
  }
}

// When writing begins so that `by_then` bytes are free in time: so long before they are needed.
Nanos AheadPlanner::write_begin(const Draft& draft, Bytes by_then) const {
  return draft.pace.write_margin + draft.pace.write_factor * time_of(by_then - draft.free, draft.write_rate);
}

// Room for the births up to some time, and for what comes until then.
Bytes AheadPlanner::room_wanted(const Draft& draft, Bytes absent, Bytes births) {
  return births + std::min(absent, draft.state.reading_max / kOnTheWay);
}

// Writes what will have to leave soon before it has to: room for the births and the returns of
// kWriteAhead, taken from what is used farthest ahead.
void AheadPlanner::write_ahead(Draft& draft) {
  // None begins longer before than the last one, as none needs more.
  const Bytes most =
      draft.coming == 0 ? 0 : room_wanted(draft, draft.absent_bytes, upcoming_[draft.coming - 1].demand);
  const Nanos horizon = std::min(kWriteAhead - 1, write_begin(draft, most));
  // The later, the more: so the latest for which writing begins now tells.
  Bytes wanted = std::max<Bytes>(draft.free, 0), absent = draft.absent_bytes;
  std::size_t absents = draft.absent;
  for (std::size_t i = draft.coming; i-- > 0;) {
    const Bytes by_then = room_wanted(draft, absent, upcoming_[i].demand);
    if (by_then <= wanted) break;
    if (upcoming_[i].in <= horizon && upcoming_[i].in <= write_begin(draft, by_then)) {
      wanted = by_then;
      break;
    }
    if (absents == 0 || absent_[absents - 1] != i) continue;
    absent -= table_[upcoming_[i].extent].bytes;
    --absents;
  }
  if (wanted <= draft.free) return;
  Bytes covered = draft.free;
  for (std::size_t i = 0; covered < wanted && reaches(draft, i); ++i) {
    const ExtentId id = order_[i];
    const Extent& e = table_[id];
    covered += e.bytes;
    if (e.below != Below::kNone || e.write_pins != 0) continue;
    if (!draft.can_write(e.bytes)) return;
    draft.clean(id, e, Decision::Reason::kRoomForBirths);
  }
}

}  // namespace outsize::ahead
