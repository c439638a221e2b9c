#include "predictors/automatic/contest.h"

#include <algorithm>
#include <utility>

namespace outsize::automatic {
namespace {

constexpr Nanos kAhead = 100'000'000;  // what is read ahead lies about so far ahead

}  // namespace

Contest::Seen& Contest::seen(ExtentId id) {
  if (id >= seen_.size()) seen_.resize(id + 1 + id / 2);
  return seen_[id];
}

PerMille Contest::share(Rival rival) const {
  const Tally& tally = mean_[rival];
  return tally.all() == 0 ? 0 : static_cast<PerMille>(static_cast<double>(tally.hit) * 1000 / static_cast<double>(tally.all()));
}

void Contest::on_op(const OpEvent& op, const Predictor& usual, const Predictor* pilot) {
  ++ops_;
  for (const ExtentId id : op.extents) use(id);
  if (window_ != 0 && ops_ - opened_ < length_) return;
  if (window_ != 0) close(op.now);
  open(op.now, usual, pilot);
}

void Contest::use(ExtentId id) {
  Seen& s = seen(id);
  const std::uint64_t last = std::exchange(s.used_at, ops_);
  if (window_ == 0 || last > opened_ || opened_ - last < length_) return;  // again in this window, or not cold
  const Bytes bytes = bytes_of(id);
  const std::uint8_t by = s.window == window_ ? s.by : 0;
  for (int rival = 0; rival < kRivals; ++rival) {
    Tally& tally = window_tally_[rival];
    (((by >> rival) & 1) != 0 ? tally.hit : tally.missed) += bytes;
  }
  s.by = 0;  // settled
  step_used_ += bytes;
  const bool is_known = id < table_.size();
  if (is_known && (table_[id].where != Where::kResident || table_[id].prefetched != Prefetched::kNo)) step_back_ += bytes;
}

void Contest::open(Nanos now, const Predictor& usual, const Predictor* pilot) {
  ++window_;
  opened_ = ops_;
  opened_at_ = now;
  listed_.clear();
  list(kUsual, usual);
  pilot_listed_ = pilot != nullptr;
  if (pilot_listed_) list(kPilot, *pilot);
}

void Contest::list(Rival rival, const Predictor& predictor) {
  const std::size_t count = predictor.upcoming(upcoming_);
  const Position end = predictor.position() + length_;
  for (std::size_t i = 0; i < count && upcoming_[i].position < end; ++i) {
    Seen& s = seen(upcoming_[i].extent);
    if (opened_ - std::min(s.used_at, opened_) < length_) continue;
    if (s.window != window_) {
      s.window = window_;
      s.by = 0;
      listed_.push_back(upcoming_[i].extent);
    }
    s.by = static_cast<std::uint8_t>(s.by | (1U << rival));
  }
}

// Who listed it did so for nothing.
void Contest::count_wrong(ExtentId id, const Seen& seen) {
  for (int rival = 0; rival < kRivals; ++rival) {
    if (((seen.by >> rival) & 1) != 0) window_tally_[rival].wrong += bytes_of(id);
  }
}

void Contest::close(Nanos now) {
  for (const ExtentId id : listed_) {
    Seen& s = seen_[id];
    if (s.window != window_) continue;
    count_wrong(id, s);
    s.by = 0;
  }
  step_[kUsual].add(window_tally_[kUsual]);
  if (pilot_listed_) step_[kPilot].add(window_tally_[kPilot]);
  window_tally_ = {};
  new_ = true;
  const Nanos op = std::max<Nanos>((now - opened_at_) / length_, 1);
  const auto fits = static_cast<std::uint32_t>(std::min<Nanos>(kAhead / op, kOpsMax));
  length_ = std::clamp(fits, std::max(length_ / 2, kOpsMin), length_ * 2);
  length_ = std::clamp(length_, kOpsMin, length_max_);
}

void Contest::on_birth(ExtentId id) {
  Seen& s = seen(id);
  s = {};
  s.used_at = ops_;
}

// What would have come for nothing is counted when the window ends; what died is not waited for.
void Contest::on_death(ExtentId id) {
  Seen& s = seen(id);
  if (s.window == window_) count_wrong(id, s);
  s = {};
}

bool Contest::on_step() {
  const auto quarter = static_cast<std::uint32_t>(std::min<std::uint64_t>((ops_ - step_began_) / 4, kOpsMax));
  length_max_ = std::max(quarter, kOpsMin);
  step_began_ = ops_;
  if (!std::exchange(new_, false)) return false;
  for (int rival = 0; rival < kRivals; ++rival) {
    if (step_[rival].all() == 0) continue;
    mean_[rival].fade();
    mean_[rival].add(std::exchange(step_[rival], {}));
  }
  used_ += std::exchange(step_used_, 0) - used_ / kFade;
  came_back_ += std::exchange(step_back_, 0) - came_back_ / kFade;
  return true;
}

void Contest::forget_pilot() {
  step_[kPilot] = mean_[kPilot] = {};
  pilot_listed_ = false;
}

}  // namespace outsize::automatic
