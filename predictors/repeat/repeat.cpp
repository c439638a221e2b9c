#include "predictors/repeat/repeat.h"

#include <algorithm>

namespace outsize::repeat {

RepeatPredictor::Seen& RepeatPredictor::seen(ExtentId id) {
  if (id >= seen_.size()) seen_.resize(id + 1 + id / 2);
  return seen_[id];
}

// What ages say is said anew now and then: the order is kept meanwhile, but what is used would be taken to be
// overdue; and once the place is found again, places count again.
void RepeatPredictor::rekey_by_age() {
  const std::size_t enough = std::max<std::size_t>(kRekeyEvery, seen_.size() / 4);
  if (++ops_since_rekey_ >= enough && (!confident() || by_age_)) rekey();
}

void RepeatPredictor::rekey() {
  rekeyed_ = true;
  by_age_ = !confident();
  ops_since_rekey_ = 0;
  aged_to_ = ops_;
  aged_at_ = position();
}

void RepeatPredictor::on_op(const OpEvent& op) {
  ++ops_;
  align(op.site);
  rekey_by_age();
  track_backward(op);
  births_matched_ = 0;
  for (const ExtentId id : op.extents) seen(id).used_at = ops_;
  if (current_.full()) return;
  current_.add_op(op.site, op.now);
  for (std::size_t i = 0; i < op.extents.size(); ++i) {
    Seen& s = seen(op.extents[i]);
    current_.accesses.push_back(object_now(op.extents[i], s));
    current_.changing.push_back(i < op.accesses.size() && op.accesses[i] == Access::kWrite);
  }
}

std::uint32_t RepeatPredictor::object_now(ExtentId, Seen& s) {
  if (s.now == kNone) {
    s.now = current_.add_object({0, kNone, kNone, s.last});
    s.alive = true;
  }
  return s.now;
}

// A run of ops that came as in the last step has ended. Of runs that ended within about a step the mean is
// kept, each weighed by its length: how far an op lies from the end of the run that it is in.
void RepeatPredictor::end_run() {
  const std::uint64_t run = std::min<std::uint64_t>(std::exchange(run_, 0), StepRecord::kOpsMax) + 1;
  const std::uint64_t span = last_.size();
  runs_ = runs_ * span / (span + run) + run;
  runs_squared_ = runs_squared_ * span / (span + run) + run * run;
  mean_run_ = runs_squared_ / runs_;
}

// So many ops ahead the running step may still go as the last one did.
std::uint64_t RepeatPredictor::reach() const {
  if (runs_ == 0) return StepRecord::kOpsMax;
  return kReach * std::max(run_, mean_run_);
}

// Finds where in the last step the running op stands.
void RepeatPredictor::align(SiteId site) {
  if (!known()) {
    matched_ = kNone;
    ++next_;
    return;
  }
  if (next_ < last_.size() && last_.ops[next_].site == site) {
    matched_ = next_++;
    ++ops_matched_;
    ++run_;
    pending_ = kNone;
    agreement_ = std::min(agreement_ + 1, kAgreementMax);
    return;
  }
  matched_ = kNone;
  end_run();
  agreement_ = std::max(agreement_ - 2, 0);
  if (pending_ != kNone && pending_ + 1 < last_.size() && last_.ops[pending_ + 1].site == site) {
    matched_ = pending_ + 1;
    next_ = matched_ + 1;
    ++ops_matched_;
    pending_ = kNone;
    if (ops_since_rekey_ >= kRekeyEvery) rekey();
    return;
  }
  const std::uint32_t candidate = last_.find_site(site, next_);
  const bool near = candidate != kNone && (candidate < next_ ? next_ - candidate : candidate - next_) <= kJumpMax;
  pending_ = near ? candidate : kNone;
}

void RepeatPredictor::track_backward(const OpEvent& op) {
  if (op.in_backward && !in_backward_) {
    turn_ = current_.size();
    reverse_next_ = static_cast<std::uint32_t>(births_.size());
  }
  in_backward_ = op.in_backward;
  if (!in_backward_) return;
  for (ExtentId id : op.extents) {
    const Seen& s = seen(id);
    if (s.birth_order != kNone && s.birth_order < reverse_next_) reverse_next_ = s.birth_order;
  }
}

void RepeatPredictor::on_birth(ExtentId id, Bytes bytes) {
  Seen& s = seen(id);
  s = Seen{};
  s.alive = true;
  s.used_at = ops_;
  s.birth_order = static_cast<std::uint32_t>(births_.size());
  if (births_.size() < StepRecord::kOpsMax) births_.push_back(id);
  if (current_.size() == 0 || current_.full()) return;
  const std::uint32_t op = current_.size() - 1;
  if (matched_ != kNone) {
    const std::uint32_t at = last_.ops[matched_].first_birth + births_matched_++;
    if (at < last_.births_end(matched_)) {
      s.last = last_.births[at];
      outlook_.hold(last_, s.last, id);
    }
  }
  s.now = current_.add_object({bytes, op, kNone, s.last});
  current_.births.push_back(s.now);
}

void RepeatPredictor::on_death(ExtentId id, Bytes bytes) {
  Seen& s = seen(id);
  if (s.last != kNone && outlook_.holders()[s.last] == id) outlook_.hold(last_, s.last, kNoExtent);
  if (current_.size() > 0 && !current_.full()) {
    const std::uint32_t object = object_now(id, s);
    current_.objects[object].death_op = current_.size() - 1;
    current_.ops.back().death_bytes += bytes;
  } else if (current_.size() == 0) {
    current_.died_first += bytes;
  }
  s = Seen{};
}

void RepeatPredictor::on_step(Nanos now) {
  constexpr std::uint32_t kShortest = 4;  // fewer ops are no step worth remembering
  births_.clear();
  base_ += std::max<std::uint32_t>(last_.size(), next_) + 1;
  in_backward_ = false;
  pending_ = matched_ = kNone;
  next_ = 0;
  const std::uint32_t matched = std::exchange(ops_matched_, 0);
  if (current_.size() < kShortest || current_.full()) {
    repeats_ = false;
    current_.clear(now);
    for (Seen& s : seen_) s.now = s.birth_order = kNone;
    rekey();  // base_ moved
    return;
  }
  current_.finish(now);
  // An extent left over at the end plays, in the next step, the part of its predecessor: the
  // object that was alive when this step began and had been matched with the same birth before.
  std::vector<std::uint32_t> heir(last_.objects.size(), kNone);
  for (std::uint32_t object = 0; object < current_.objects.size(); ++object) {
    const ObjectRecord& record = current_.objects[object];
    if (record.birth_op == kNone && record.before != kNone) heir[record.before] = object;
  }
  std::vector<ExtentId> holder(current_.objects.size(), kNoExtent);
  for (ExtentId id = 0; id < seen_.size(); ++id) {
    Seen& s = seen_[id];
    if (s.alive && s.now != kNone) {
      const ObjectRecord& record = current_.objects[s.now];
      const bool inherits = record.birth_op != kNone && record.before != kNone;
      s.last = inherits && heir[record.before] != kNone ? heir[record.before] : s.now;
      holder[s.last] = id;
    } else {
      s.last = kNone;
    }
    s.now = s.birth_order = s.gap = kNone;
  }
  repeats_ = known() && matched == last_matched_ && current_.is_like(last_);
  std::swap(last_, current_);
  outlook_.begin(last_, std::move(holder));
  last_matched_ = matched;
  current_.clear(now);
  agreement_ = kAgreementMax / 2;
  rekey();
}

Position RepeatPredictor::next_use(ExtentId id) const {
  if (id >= seen_.size()) return kNever;
  const Seen& s = seen_[id];
  if (s.last == kNone || !confident()) return without_history(s);
  const std::uint32_t use = last_.use_after(gap_now(s));
  if (use != kNone) return within_reach(base_ + use, s);
  const ObjectRecord& object = last_.objects[s.last];
  // No use is left before its death: it will go by itself then, at no cost.
  if (object.death_op != kNone && object.death_op >= next_) return base_ + object.death_op;
  const bool from_before = s.now == kNone || current_.objects[s.now].birth_op == kNone;
  const std::uint32_t first = last_.first_use(s.last);
  const bool again = from_before && object.birth_op == kNone && first != kNone;
  return within_reach(again ? base_ + last_.size() + first : base_ + 2ULL * last_.size(), s);
}

Position RepeatPredictor::within_reach(Position foreseen, const Seen& s) const {
  return foreseen - position() <= reach() ? foreseen : by_age(s);
}

// The later, the longer ago it was used: counted from the last rekey on, so that between two of them those
// that are used in turn keep their order. Below position(), where it was used since.
Position RepeatPredictor::by_age(const Seen& s) const {
  const Position age = aged_at_ + aged_to_ - s.used_at;
  return confident() ? age + 2ULL * last_.size() : age;
}

// No earlier step tells: what this forward pass bore comes back in reverse.
Position RepeatPredictor::without_history(const Seen& s) const {
  if (s.birth_order == kNone || s.now == kNone || current_.objects[s.now].birth_op == kNone) return by_age(s);
  const std::uint32_t ops = current_.size(), birth = current_.objects[s.now].birth_op;
  if (!in_backward_) return aged_at_ + aged_to_ - (ops_ - ops + birth);
  const Position mirrored = 2ULL * turn_ - std::min(turn_, birth);
  return mirrored > ops ? position() + (mirrored - ops) : by_age(s);
}

std::size_t RepeatPredictor::upcoming(std::span<Upcoming> out) const {
  if (!confident()) return in_backward_ ? upcoming_reverse(out) : 0;
  std::size_t count = outlook_.upcoming(last_, next_, base_, out);
  while (count > 0 && out[count - 1].position - position() > reach()) --count;
  return count;
}

// In the order and with the positions of without_history, so that what is prefetched is never worth
// less than what leaves for it.
std::size_t RepeatPredictor::upcoming_reverse(std::span<Upcoming> out) const {
  constexpr Nanos kOpNanos = 100'000;  // nothing measured yet: a guess that keeps the order
  std::size_t count = 0;
  for (std::uint32_t i = reverse_next_; i-- > 0 && count < out.size();) {
    const ExtentId id = births_[i];
    const Seen& s = seen_[id];
    if (!s.alive || s.birth_order != i) continue;
    out[count++] = {.extent = id, .position = next_use(id)};
  }
  // What is overdue, or has a history of its own, does not stand in reverse order.
  std::sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count),
            [](const Upcoming& a, const Upcoming& b) {
              return a.position != b.position ? a.position < b.position : a.extent < b.extent;
            });
  for (std::size_t i = 0; i < count; ++i) out[i].in = static_cast<Nanos>(i + 1) * kOpNanos;
  return count;
}

Bytes RepeatPredictor::demand_within(Nanos nanos) const {
  return confident() ? outlook_.demand_within(last_, next_, nanos) : 0;
}

}  // namespace outsize::repeat
