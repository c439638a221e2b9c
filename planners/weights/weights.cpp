#include "planners/weights/weights.h"

#include <algorithm>
#include <limits>

namespace outsize::weights {

Position WeightsPlanner::key_of(ExtentId id) const {
  return key_in(id, planned() ? predictor_.gap_of(id) : kNoGap);
}

Position WeightsPlanner::key_in(ExtentId id, std::uint32_t gap) const {
  const Position use = next_use(id);  // without a hint, what the predictor says, as far as it matters here
  if (table_[id].hint != Hint::kNone) return use;
  if (gap == kNoGap) return planned() && idle(id) ? use | kLeavesFirst : use;  // what was never used has no use to add to
  return cover_.away(gap) && !stays(id, use) ? use + kLeavesFirst : use;
}

void WeightsPlanner::on_resident(ExtentId id) {
  if (idle(id)) idle_[id] = false;  // it is used, or another was born in its place
  if (!planned()) return AheadPlanner::on_resident(id);
  if (came_to_stay(id)) return leaving_.put(id, stays_[id].until);
  const std::uint32_t gap = predictor_.gap_of(id);
  const Position key = key_in(id, gap);
  leaving_.put(id, key);
  if (key >= kLeavesFirst) look_before(key);
  produced(id, gap);
}

void WeightsPlanner::on_gone(ExtentId id) {
  const bool left = leaving_.contains(id) && table_[id].where == Where::kAbsent;  // and did not die
  if (left && planned()) {
    if (leaving_.key(id) < kLeavesFirst) look_at_ = 0;  // it was to be here
    else look_before(leaving_.key(id));
  }
  if (!left && id < stays_.size()) stays_[id].until = 0;
  AheadPlanner::on_gone(id);
}

// It has just come for the use until which it stays, and no op changes it: nobody has to be asked about it.
bool WeightsPlanner::came_to_stay(ExtentId id) const {
  if (leaving_.contains(id) || id >= stays_.size() || stays_[id].until < predictor_.position()) return false;
  return table_[id].pins == 0 && table_[id].hint == Hint::kNone;
}

// What is used within what was looked at may have to be settled, or to come, once more.
void WeightsPlanner::look_before(Position key) {
  if ((key & ~kLeavesFirst) < looked_until_) look_at_ = 0;
}

void WeightsPlanner::on_rekey() {
  look_at_ = 0;
  const std::uint32_t place = predictor_.cycle_place();
  if (place == 0) {
    step_ended();
    if (stage_ == Stage::kDue && budget_ != 0) return follow();  // the plan of the step before serves again
  }
  if (place == kNoPlace) is_of_last_ = false;
  AheadPlanner::on_rekey();
}

void WeightsPlanner::step_ended() {
  const auto is_alive = [this](ExtentId id) { return table_[id].where != Where::kFree && !table_[id].dying; };
  Bytes alive = 0;
  for (ExtentId id = 0; id < table_.size(); ++id) alive += is_alive(id) ? table_[id].bytes : 0;
  // The sum stands for all of them: where two that last change places from step to step the plan takes each for the other, at worst
  // for ever, and costs time. Each by itself would have to be read, which is what is saved.
  const bool same_bytes = alive == std::exchange(alive_, alive);
  if (same_bytes && is_of_last_ && predictor_.cycle_repeats()) {
    stage_ = Stage::kDue;
    return;
  }
  is_of_last_ = predictor_.read_cycle(table_, read_);
  stage_ = is_of_last_ ? Stage::kDue : Stage::kNone;
  if (!is_of_last_) return;
  idle_.assign(table_.size(), false);
  Bytes in_use = alive;
  for (ExtentId id = 0; id < table_.size(); ++id) {
    const Extent& e = table_[id];
    idle_[id] = is_alive(id) && e.pins == 0 && e.hint != Hint::kSoon && predictor_.gap_of(id) == kNoGap;
    in_use -= idle_[id] ? e.bytes : 0;
  }
  if (in_use == std::exchange(in_use_, in_use) && read_ == cycle_) return;
  std::swap(read_, cycle_);
  budget_ = 0;
}

void WeightsPlanner::begin(const PlanState& state) {
  if (budget_ != state.budget) {
    budget_ = state.budget;
    const Bytes most = in_use_ + *std::max_element(cycle_.more.begin(), cycle_.more.end());
    const Bytes reserve = most > state.budget ? state.reading_max : 0;
    cover_.select(cycle_, in_use_, state.budget - reserve, options_);
  }
  follow();
}

// From here on, with what is here now: what is to be written of it comes first, in the order in which it was used.
void WeightsPlanner::follow() {
  stage_ = Stage::kFollowed;
  look_at_ = 0;
  for (Stay& stay : stays_) stay.until = 0;  // what was said in the last step of this one, and for another budget
  by_age_.clear();
  leaving_.rebuild([this](ExtentId id) {
    const std::uint32_t gap = predictor_.gap_of(id);
    const Extent& e = table_[id];  // what has a copy below needs no other, unless an op may be changing it
    if (cover_.written(gap) && (e.below == Below::kNone || e.pins > 0)) by_age_.emplace_back(e.last_use, id);
    return key_in(id, gap);
  });
  std::sort(by_age_.begin(), by_age_.end());
  to_send_.clear();
  sent_ = 0;
  is_to_send_.assign(table_.size(), false);
  for (const auto& [last_use, id] : by_age_) to_write(id);
}

void WeightsPlanner::drop() {
  stage_ = Stage::kNone;
  AheadPlanner::on_rekey();
}

void WeightsPlanner::produced(ExtentId id, std::uint32_t gap) {
  if (cover_.written(gap)) to_write(id);
}

void WeightsPlanner::to_write(ExtentId id) {
  if (id >= is_to_send_.size()) is_to_send_.resize(id + 1 + id / 2, false);
  if (std::exchange(is_to_send_[id], true)) return;
  to_send_.push_back({id, predictor_.position()});
}

void WeightsPlanner::plan(const PlanState& state, std::vector<Decision>& out) {
  const bool goes_on = predictor_.cycle_place() != kNoPlace;
  if (planned() && !goes_on) drop();
  if (goes_on && (stage_ == Stage::kDue || (planned() && budget_ != state.budget))) begin(state);
  if (!planned()) return AheadPlanner::plan(state, out);
  Draft draft(state, out);
  const bool looks = has_to_look(state);
  foresee(draft, looks ? kForeseen : 0);
  keep_pace(draft);
  weigh_trust(draft);  // for when no plan is followed any more
  const bool is_settled = looks && settle(draft);
  send(draft);
  const Bytes headroom = predictor_.demand_within(draft.pace.headroom);
  free_up(draft, headroom, kLeavesFirst);  // these births come: the step is as the last was
  if (looks) look_again(draft, bring_back(draft, headroom) && is_settled);
  if (cover_.overflow() > 0) write_ahead(draft);
}

// Where all that is used before the last one seen is here or on its way, nothing is to be decided until a part of that time
// has passed, unless some of it leaves or does not come, or the place turns out to be another.
bool WeightsPlanner::has_to_look(const PlanState& state) {
  const Position now = predictor_.position();
  const bool turned_back = now < std::exchange(planned_at_, now);
  const bool failed = state.foreseen.missed != judged_.foreseen.missed;
  const bool refused = brought_ != kNoExtent && table_[brought_].where == Where::kAbsent;
  return now >= look_at_ || turned_back || failed || refused || cover_.overflow() > 0;
}

void WeightsPlanner::look_again(const Draft& draft, bool nothing_waits) {
  const Position now = predictor_.position();
  looked_until_ = draft.coming == 0 ? now : upcoming_[draft.coming - 1].position;
  look_at_ = nothing_waits ? now + (looked_until_ - now) / kLookedPart : now;
}

// Which of those that may be away come back, or stay: earliest needed first, while they fit in every op
// until their use beside all that is kept, and beside those for which this was settled before. False where one does not fit.
bool WeightsPlanner::settle(const Draft& draft) {
  if (!cover_.any()) return true;
  if (table_.size() > stays_.size()) stays_.resize(table_.size());
  Bytes settled = 0;  // used at `at` or later
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < draft.coming; ++i) {
    const Upcoming& next = upcoming_[i];
    if (!selected(next)) continue;
    const Bytes bytes = stays(next.extent, next.position) ? stays_[next.extent].bytes : 0;
    chosen_[chosen++] = {next.extent, next.position, bytes};
    settled += bytes;
  }
  const Bytes memory = draft.state.budget - draft.state.writing_max / 2;
  const std::vector<Bytes>& kept = cover_.kept();
  std::size_t op = predictor_.cycle_place() % kept.size();
  Position at = predictor_.position();
  Bytes room = std::numeric_limits<Bytes>::max();
  for (std::size_t i = 0; i < chosen; ++i) {
    const Chosen& next = chosen_[i];
    for (; at < next.use; ++at) {
      room = std::min(room, memory - kept[op] - settled);
      if (++op == kept.size()) op = 0;
    }
    if (next.settled > 0) {
      settled -= next.settled;
      continue;
    }
    const Extent& e = table_[next.extent];
    if (e.bytes > room) return false;
    room -= e.bytes;
    stays_[next.extent] = {next.use, e.bytes};
    if (leaving_.contains(next.extent)) leaving_.put(next.extent, hinted_use(e, 0, next.use));
  }
  return true;
}

// In the order in which it was produced. What died, left, or is as it is below needs nothing any more;
// what an op still uses, or is about to use, has to wait.
void WeightsPlanner::send(Draft& draft) {
  const std::size_t end = std::min(sent_ + kSentMax, to_send_.size());
  bool full = false;
  for (std::size_t i = sent_; i < end && !full; ++i) {
    Sent& sent = to_send_[i];
    const Extent& e = table_[sent.extent];
    const bool in_use = e.pins > 0 || sent.since == predictor_.position();
    if (e.where != Where::kResident || e.dying || (e.below != Below::kNone && !in_use)) {
      is_to_send_[sent.extent] = false;
      sent.extent = kNoExtent;
      continue;
    }
    if (in_use || e.below != Below::kNone) continue;
    full = !draft.can_write(e.bytes);
    if (!full) draft.clean(sent.extent, e, Decision::Reason::kFarthestUse);
  }
  std::size_t keep = end;
  for (std::size_t i = end; i-- > sent_;) {
    if (to_send_[i].extent != kNoExtent) to_send_[--keep] = to_send_[i];
  }
  sent_ = keep;
  if (sent_ <= to_send_.size() / 2) return;
  to_send_.erase(to_send_.begin(), to_send_.begin() + static_cast<std::ptrdiff_t>(sent_));
  sent_ = 0;
}

// Earliest needed first: what stays in this gap, and what should be here and is not. False where some of it has to wait.
bool WeightsPlanner::bring_back(Draft& draft, Bytes headroom) {
  std::size_t below = 0;
  bool all = true;
  brought_ = kNoExtent;
  for (std::size_t i = 0; i < draft.absent && below < kBelowMax; ++i) {
    const Upcoming& next = upcoming_[absent_[i]];
    const Extent& e = table_[next.extent];
    if (!awaited(e)) {
      all = all && !e.wanted;  // who waits for it may be refused
      continue;
    }
    if (selected(next) && !stays(next.extent, next.position)) {
      ++below;
      continue;
    }
    if (!draft.can_read(e.bytes)) return false;
    if (!free_up(draft, e.bytes + std::min(headroom, next.demand), kLeavesFirst)) return false;
    draft.prefetch(next.extent, e);
    brought_ = next.extent;
  }
  return all;  // what is still below was not settled
}

}  // namespace outsize::weights
