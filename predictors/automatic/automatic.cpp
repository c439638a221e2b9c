#include "predictors/automatic/automatic.h"

#include <algorithm>

namespace outsize::automatic {
namespace {

constexpr std::uint64_t kTakeOverMax = 48;
constexpr std::uint64_t kGiveWay = 8;    // in which it was not better by half of it
constexpr std::uint64_t kWorse = 4;      // in which the usual one was worse than when the pilot went to rest
constexpr std::uint64_t kRestLong = 8;   // a rest is so many times as long as the trial before it
constexpr PerMille kGood = 900;          // foresees so much: there is little to win
constexpr PerMille kNothingToWin = 960;

std::string percent(PerMille share) { return std::to_string((share + 5) / 10) + " %"; }

}  // namespace

AutomaticPredictor::AutomaticPredictor(const ExtentTable& table, std::unique_ptr<Predictor> usual, Make pilot,
                                       const AutomaticOptions& options)
    : options_(options), usual_(std::move(usual)), make_pilot_(std::move(pilot)), pilot_(make_pilot_()),
      active_(usual_.get()), contest_(table), rests_(kRestLong * options.rest) {}

void AutomaticPredictor::on_op(const OpEvent& op) {
  usual_->on_op(op);
  if (pilot_) pilot_->on_op(op);
  contest_.on_op(op, *usual_, pilot_.get());
  hear();
}

void AutomaticPredictor::on_birth(ExtentId id, Bytes bytes) {
  usual_->on_birth(id, bytes);
  if (pilot_) pilot_->on_birth(id, bytes);
  contest_.on_birth(id);
}

bool AutomaticPredictor::on_share(ExtentId id) {
  const bool usual = usual_->on_share(id), pilot = pilot_ != nullptr && pilot_->on_share(id);
  return steered() ? pilot : usual;
}

void AutomaticPredictor::on_death(ExtentId id, Bytes bytes) {
  usual_->on_death(id, bytes);
  if (pilot_) pilot_->on_death(id, bytes);
  contest_.on_death(id);
}

void AutomaticPredictor::on_sample(std::span<const std::int64_t> sample) {
  usual_->on_sample(sample);
  if (pilot_) pilot_->on_sample(sample);
  hear();
}

void AutomaticPredictor::on_step(Nanos now) {
  usual_->on_step(now);
  if (pilot_) pilot_->on_step(now);
  ++step_;
  if (contest_.on_step()) decide();
  hear();
}

// Who does not answer has told nobody of a position.
void AutomaticPredictor::hear() {
  const bool usual = usual_->take_rekeyed(), pilot = pilot_ != nullptr && pilot_->take_rekeyed();
  rekeyed_ = rekeyed_ || (steered() ? pilot : usual);
}

void AutomaticPredictor::decide() {
  const PerMille usual = contest_.share(Contest::kUsual);
  if (resting()) {
    sleep(usual);
    return;
  }
  if (!contest_.known(Contest::kPilot)) return;
  const PerMille ahead = contest_.matters() ? contest_.share(Contest::kPilot) - usual : 0;
  steered() ? doubt(ahead) : watch(ahead);
}

void AutomaticPredictor::watch(PerMille ahead) {
  streak_ = ahead >= margin() ? streak_ + 1 : 0;
  if (streak_ >= take_over_) {
    rests_ = kRestLong * options_.rest;
    answer_from(*pilot_);
    return;
  }
  const bool may_learn_yet = contest_.matters() && contest_.share(Contest::kUsual) < kGood;
  if (streak_ == 0 && step_ - since_ >= options_.rest * (may_learn_yet ? 3ULL : 1ULL)) rest();
}

void AutomaticPredictor::doubt(PerMille ahead) {
  streak_ = ahead < margin() / 2 ? streak_ + 1 : 0;
  if (streak_ < kGiveWay) return;
  take_over_ = std::min(2 * take_over_, kTakeOverMax);  // twice as sure next time
  answer_from(*usual_);
}

void AutomaticPredictor::sleep(PerMille usual) {
  const bool worse = usual < rested_at_ - margin() || (contest_.matters() && !mattered_);
  streak_ = worse && contest_.matters() ? streak_ + 1 : 0;
  const bool changed = streak_ >= kWorse;
  const bool in_time = step_ - since_ >= rests_ && contest_.matters() && usual < kNothingToWin;
  if (!changed && !in_time) return;
  rests_ = changed ? kRestLong * options_.rest : 2 * rests_;
  wake();
}

void AutomaticPredictor::answer_from(Predictor& predictor) {
  active_ = &predictor;
  rekeyed_ = true;
  since_ = step_;
  streak_ = 0;
}

void AutomaticPredictor::rest() {
  pilot_.reset();
  contest_.forget_pilot();
  rested_at_ = contest_.share(Contest::kUsual);
  mattered_ = contest_.matters();
  since_ = step_;
  streak_ = 0;
}

void AutomaticPredictor::wake() {
  pilot_ = make_pilot_();
  since_ = step_;
  streak_ = 0;
}

Bytes AutomaticPredictor::table_bytes() const {
  return usual_->table_bytes() + (pilot_ ? pilot_->table_bytes() : 0);
}

std::string AutomaticPredictor::foresight() const {
  const std::string usual = percent(contest_.share(Contest::kUsual)), pilot = percent(contest_.share(Contest::kPilot));
  if (steered()) return "pilot since step " + std::to_string(since_) + " (foresees " + pilot + ", the usual way " + usual + ")";
  if (resting()) return "the usual way (foresees " + usual + "); the pilot rests since step " + std::to_string(since_);
  if (!contest_.known(Contest::kPilot)) return "the usual way; the pilot learns";
  return "the usual way (foresees " + usual + ", the pilot " + pilot + ")";
}

}  // namespace outsize::automatic
