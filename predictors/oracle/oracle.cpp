#include "predictors/oracle/oracle.h"

#include <algorithm>

namespace outsize::oracle {

OraclePredictor::OraclePredictor(const ExtentTable& table, std::unique_ptr<const Recording> recording)
    : table_(table), recording_(std::move(recording)) {
  outlook_.begin(run(), std::vector<ExtentId>(run().objects.size(), kNoExtent), false);
  born_left_ = 0;
}

OraclePredictor::Seen& OraclePredictor::seen(ExtentId id) {
  if (id >= seen_.size()) seen_.resize(id + 1 + id / 2);
  return seen_[id];
}

// --- where the run stands ---------------------------------------------------------------------

void OraclePredictor::on_op(const OpEvent& op) {
  if (op.site == 0) return;  // one of outsize's own
  ++ops_;
  for (const ExtentId id : op.extents) seen(id).used_at = ops_;
  if (given_up_) return;
  if (follows() && run().ops[place_].site == op.site) return follow(op, place_);
  timed_ = false;
  born_left_ = died_left_ = 0;
  look_for(op.site);
  if (lost_ < kAgree) return;
  const std::uint32_t found = find();
  if (found == kNone) return;
  lost_ = 0;
  rekeyed_ = true;
  go_by_age(false);
  if (found < place_) {
    shared_ = SharedUses{};  // what lies behind comes again
    for (std::uint32_t object = 0; object < run().objects.size(); ++object) {
      const ExtentId id = outlook_.holders()[object];
      if (id != kNoExtent && table_[id].shared) shared_.add(run(), id, object, found + 1);
    }
  }
  follow(op, found);
}

void OraclePredictor::follow(const OpEvent& op, std::uint32_t place) {
  const steps::OpRecord& record = run().ops[place];
  ++known_;
  place_ = place + 1;
  birth_ = record.first_birth;
  born_left_ = 0;
  for (std::uint32_t at = birth_; at < run().births_end(place); ++at) born_left_ += run().objects[run().births[at]].bytes;
  died_left_ = record.death_bytes;
  if (std::exchange(timed_, true)) {
    took_ += op.now - now_;
    should_take_ += record.at - at_;
  }
  now_ = op.now;
  at_ = record.at;
  recognize(op.operands);
}

// The place is lost, or has been.
void OraclePredictor::look_for(SiteId site) {
  trail_[lost_ % kAgree] = site;
  ++lost_;
  given_up_ = lost_ == kLostMax || place_ == run().size();
  if (given_up_ || lost_ == kPatience) go_by_age(true);
}

// The nearest place where the latest ops agree with what was recorded; kNone where there is none.
std::uint32_t OraclePredictor::find() const {
  for (std::uint32_t far = 0; far <= kWindow; ++far) {
    if (agrees(place_ + far)) return place_ + far;
    if (far > 0 && far <= place_ && agrees(place_ - far)) return place_ - far;
  }
  return kNone;
}

bool OraclePredictor::agrees(std::uint32_t place) const {
  if (place < kAgree || place >= run().size()) return false;
  for (std::uint32_t back = 0; back < kAgree; ++back) {
    if (run().ops[place - back].site != trail_[(lost_ - 1 - back) % kAgree]) return false;
  }
  return true;
}

void OraclePredictor::go_by_age(bool on) {
  if (std::exchange(by_age_, on) != on) rekeyed_ = true;
}

// --- who plays what ---------------------------------------------------------------------------

void OraclePredictor::cast(std::uint32_t object, ExtentId id) {
  const ExtentId before = outlook_.holders()[object];
  if (before == id) return;
  if (recording_->object(object).part == Part::kSmall) {
    outlook_.hold(run(), object, id);
    shared_.add(run(), id, object, place_);
    return;
  }
  if (before != kNoExtent) seen(before).object = kNone;
  Seen& s = seen(id);
  if (s.object != kNone) outlook_.hold(run(), s.object, kNoExtent);
  outlook_.hold(run(), object, id);
  s.object = object;
}

bool OraclePredictor::fits(std::uint32_t object, ExtentId id) const {
  const Extent& e = table_[id];
  const Recording::Object& what = recording_->object(object);
  switch (what.part) {
    case Part::kOwn: return !e.shared && e.bytes == run().objects[object].bytes;
    case Part::kPiece:
      return !e.shared && !(id < seen_.size() && seen_[id].born) && (e.bytes <= kChunkBytes || e.bytes == what.whole);
    case Part::kFile: return false;
    default: return e.shared;
  }
}

// The running op's operands, beside those that were recorded. What lies in no extent here, or there, is passed over.
void OraclePredictor::recognize(std::span<const OperandRef> operands) {
  constexpr std::size_t kAhead = 4;
  std::size_t at = 0;
  for (const std::uint32_t object : recording_->operands(place_ - 1)) {
    if (recording_->object(object).part == Part::kFile) {
      while (at < operands.size() && !seen(operands[at].extent).born) ++at;
      continue;
    }
    for (std::size_t i = at; i < operands.size() && i < at + kAhead; ++i) {
      if (!fits(object, operands[i].extent)) continue;
      cast(object, operands[i].extent);
      at = i + 1;
      break;
    }
  }
}

// The next birth of the running op that it can be; kNone where there is none.
std::uint32_t OraclePredictor::take_birth(Part part, Bytes bytes) {
  constexpr std::uint32_t kAhead = 8;
  if (lost_ > 0 || given_up_) return kNone;
  const std::uint32_t end = std::min(run().births_end(place_ - 1), birth_ + kAhead);
  for (std::uint32_t at = birth_; at < end; ++at) {
    const std::uint32_t object = run().births[at];
    if (recording_->object(object).part != part) continue;
    if (part == Part::kOwn && run().objects[object].bytes != bytes) continue;
    for (; birth_ <= at; ++birth_) born_left_ -= run().objects[run().births[birth_]].bytes;
    return object;
  }
  return kNone;
}

void OraclePredictor::on_birth(ExtentId id, Bytes bytes) {
  Seen& s = seen(id);
  s = Seen{};
  s.born = true;
  s.used_at = ops_;
  const std::uint32_t object = take_birth(table_[id].shared ? Part::kShared : Part::kOwn, bytes);
  if (object != kNone) cast(object, id);
}

void OraclePredictor::on_adopt(ExtentId id, Bytes bytes) {
  Seen& s = seen(id);
  s = Seen{};
  s.used_at = ops_;
  const std::uint32_t object = take_birth(Part::kPiece, bytes);
  if (object != kNone) cast(object, id);
}

bool OraclePredictor::on_share(ExtentId id) {
  seen(id).used_at = ops_;
  const std::uint32_t object = take_birth(Part::kSmall, 0);
  if (object == kNone) return false;
  cast(object, id);
  return true;
}

void OraclePredictor::on_death(ExtentId id, Bytes bytes) {
  Seen& s = seen(id);
  if (s.object != kNone) outlook_.hold(run(), s.object, kNoExtent);
  shared_.remove(id, [&](std::uint32_t object) {
    if (outlook_.holders()[object] == id) outlook_.hold(run(), object, kNoExtent);
  });
  died_left_ = std::max<Bytes>(died_left_ - bytes, 0);
  s = Seen{};
}

// --- what comes -------------------------------------------------------------------------------

// The recorded times know no waits; what comes is as much later as what was came later than they say.
// So many times, in parts of kEven.
Nanos OraclePredictor::stretch() const {
  const Nanos even = should_take_ / kEven;
  return even == 0 ? kEven : std::clamp(took_ / even, kEven, kEven * kEven);
}

// Of the running op, and then as much as `later`.
Bytes OraclePredictor::demanded(Bytes later) const {
  return std::max(born_left_, born_left_ - died_left_ + later);
}

Position OraclePredictor::next_use(ExtentId id) const {
  if (id >= seen_.size()) return kNever;
  const Seen& s = seen_[id];
  if (by_age_) return by_age(s);
  if (s.object == kNone) {
    Position use = kNever;
    return shared_.next(run(), outlook_.holders(), id, place_, use) ? use : by_age(s);
  }
  const std::uint32_t use = run().use_from(s.object, place_);
  if (use != kNone) return use;
  // It will go by itself then, at no cost.
  const std::uint32_t death = run().objects[s.object].death_op;
  return death == kNone ? kNever : std::max(death, place_);
}

// An extent that several small storages share stands there once, for the first of them.
std::size_t OraclePredictor::upcoming(std::span<Upcoming> out) const {
  constexpr std::size_t kShared = 4;
  if (!follows()) return 0;
  scratch_.resize(out.size() * kShared);
  const std::size_t found = outlook_.upcoming(run(), place_, 0, scratch_);
  const Nanos stretched = stretch();
  ++listing_;
  std::size_t count = 0;
  for (std::size_t i = 0; i < found && count < out.size(); ++i) {
    Upcoming& next = scratch_[i];
    if (next.extent >= seen_.size() || std::exchange(seen_[next.extent].listed, listing_) == listing_) continue;
    next.in = next.in / kEven * stretched + next.in % kEven * stretched / kEven;
    next.demand = demanded(next.demand);
    out[count++] = next;
  }
  return count;
}

Bytes OraclePredictor::demand_within(Nanos nanos) const {
  if (!follows()) return 0;
  return demanded(outlook_.demand_within(run(), place_, nanos * kEven / stretch()));
}

std::string OraclePredictor::foresight() const {
  if (given_up_) {
    return place_ == run().size() ? "none: the recorded run is over"
                                  : "none: the recorded run was lost after op " + std::to_string(place_ - 1);
  }
  if (lost_ > 0) return "the recorded run, lost after op " + std::to_string(place_ - 1);
  return "the recorded run, op " + std::to_string(place_ - 1) + " of " + std::to_string(run().size() - 1);
}

}  // namespace outsize::oracle
