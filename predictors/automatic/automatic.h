// `automatic`: two predictors watch, the usual one and a pilot; the one that has foreseen better (contest.h) answers.
//
// It begins with the usual one. At a step's end the pilot takes over once it was better by a margin for a few steps in a
// row (more, where it had to give way before), and something comes back to RAM at all; it gives way once it was not
// better by half the margin for some more. Where it is no better for long it *rests*: it is given up, and costs nothing.
// Another one is made, and learns anew, when the usual one becomes worse than it was then, or when long enough has
// passed: each time twice as long.
//
// Positions of two predictors are on scales of their own: after a change of who answers all are asked for anew.
// Costs: both predictors, and the contest; while the pilot rests, the usual one and the contest.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/plan/predictor.h"
#include "predictors/automatic/contest.h"

namespace outsize::automatic {

struct AutomaticOptions {
  std::uint32_t margin = 5;  // percent of what is used or foreseen
  std::uint32_t rest = 32;   // steps after which a pilot rests that is no better; where the usual one is bad, thrice that
};

class AutomaticPredictor final : public Predictor {
 public:
  using Make = std::function<std::unique_ptr<Predictor>()>;
  // `table` must outlive it, and what `pilot` makes may use it.
  AutomaticPredictor(const ExtentTable& table, std::unique_ptr<Predictor> usual, Make pilot,
                     const AutomaticOptions& options = {});
  const char* name() const override { return "automatic"; }
  void on_op(const OpEvent& op) override;
  void on_birth(ExtentId id, Bytes bytes) override;
  bool on_share(ExtentId id) override;
  void on_death(ExtentId id, Bytes bytes) override;
  void on_step(Nanos now) override;
  void on_sample(std::span<const std::int64_t> sample) override;
  Position position() const override { return active_->position(); }
  Position next_use(ExtentId id) const override { return active_->next_use(id); }
  bool wanted_at_once(ExtentId id) const override { return active_->wanted_at_once(id); }
  std::size_t upcoming(std::span<Upcoming> out) const override { return active_->upcoming(out); }
  std::size_t to_bring(std::span<const Upcoming> upcoming) const override { return active_->to_bring(upcoming); }
  Bytes demand_within(Nanos nanos) const override { return active_->demand_within(nanos); }
  bool take_rekeyed() override { return std::exchange(rekeyed_, false); }
  bool read_cycle(const ExtentTable& table, Cycle& out) const override { return active_->read_cycle(table, out); }
  bool cycle_repeats() const override { return active_->cycle_repeats(); }
  std::uint32_t cycle_place() const override { return active_->cycle_place(); }
  std::uint32_t gap_of(ExtentId id) const override { return active_->gap_of(id); }
  Bytes table_bytes() const override;
  std::string foresight() const override;

  bool steered() const { return active_ == pilot_.get(); }
  bool resting() const { return pilot_ == nullptr; }

 private:
  void hear();
  void decide();
  void watch(PerMille ahead);
  void doubt(PerMille ahead);
  void sleep(PerMille usual);
  void answer_from(Predictor& predictor);
  void rest();
  void wake();
  PerMille margin() const { return static_cast<PerMille>(10 * options_.margin); }

  AutomaticOptions options_;
  std::unique_ptr<Predictor> usual_;
  Make make_pilot_;
  std::unique_ptr<Predictor> pilot_;  // null while it rests
  Predictor* active_;
  Contest contest_;
  bool rekeyed_ = false;
  std::uint64_t step_ = 0;         // that ended
  std::uint64_t since_ = 0;        // what is so now began with this one
  std::uint64_t streak_ = 0;       // steps in a row that speak for a change
  std::uint64_t take_over_ = 3;    // so many for the pilot to answer; more, the more often it had to give way
  std::uint64_t rests_ = 0;        // for so many steps
  PerMille rested_at_ = 0;         // the usual one's share when the pilot went to rest
  bool mattered_ = false;          // what came back then
};

}  // namespace outsize::automatic
