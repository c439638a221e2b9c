// `repeat`: the next step is like the last one, and what a forward pass saved comes
// back in reverse order of birth where no earlier step tells.
//
// The op sites of the running step are aligned with those of the last: in step while they agree;
// after a difference a new place is taken up once two ops in a row agree with it. Next uses, the
// list of what comes and the demand for room are read off the last step at the aligned place, as far
// ahead as the step may still go the same way, by how long such runs of ops were so far (reach). What
// lies beyond, or has no history, is taken to be needed the later, the longer ago it was used.
// Costs: on_op O(operands), next_use O(1) amortised, upcoming as Outlook says, a step's end O(accesses of the step).
#pragma once

#include <utility>

#include "core/base/large_table.h"
#include "core/plan/predictor.h"
#include "predictors/steps/outlook.h"
#include "predictors/steps/step_record.h"

namespace outsize::repeat {

using steps::kNone;
using steps::ObjectRecord;
using steps::Outlook;
using steps::StepRecord;

class RepeatPredictor final : public Predictor {
 public:
  const char* name() const override { return "repeat"; }
  void on_op(const OpEvent& op) override;
  void on_birth(ExtentId id, Bytes bytes) override;
  void on_death(ExtentId id, Bytes bytes) override;
  void on_step(Nanos now) override;
  Position position() const override { return base_ + next_; }
  Position next_use(ExtentId id) const override;
  std::size_t upcoming(std::span<Upcoming> out) const override;
  Bytes demand_within(Nanos nanos) const override;
  bool take_rekeyed() override { return std::exchange(rekeyed_, false); }
  bool read_cycle(const ExtentTable& table, Cycle& out) const override;
  bool cycle_repeats() const override { return repeats_; }
  std::uint32_t cycle_place() const override { return confident() && next_ <= last_.size() ? next_ : kNoPlace; }
  std::uint32_t gap_of(ExtentId id) const override;

 private:
  struct Seen {
    std::uint32_t now = kNone;         // object in current_
    std::uint32_t last = kNone;        // object in last_
    std::uint32_t birth_order = kNone; // index in births_ of this step
    mutable std::uint32_t gap = kNone; // of `last`, in which it was when that was asked last
    std::uint64_t used_at = 0;         // ops_ when it was used last
    bool alive = false;
  };

  Seen& seen(ExtentId id);
  void align(SiteId site);
  void end_run();
  std::uint64_t reach() const;
  void rekey();
  void rekey_by_age();
  void track_backward(const OpEvent& op);
  std::uint32_t object_now(ExtentId id, Seen& s);
  std::uint32_t gap_now(const Seen& s) const { return s.gap = last_.gap_before(s.last, next_, s.gap); }
  bool known() const { return last_.size() > 0; }
  bool confident() const { return known() && agreement_ > kAgreementEnough; }
  Position within_reach(Position foreseen, const Seen& s) const;
  Position by_age(const Seen& s) const;
  Position without_history(const Seen& s) const;
  std::size_t upcoming_reverse(std::span<Upcoming> out) const;

  static constexpr int kAgreementMax = 32;
  static constexpr int kAgreementEnough = 8;
  static constexpr std::uint32_t kJumpMax = 1024;
  // Of a run's mean length. Four to eight were as good on the traces of docs/notes/uvm-model.md.
  static constexpr std::uint64_t kReach = 6;
  static constexpr std::uint32_t kRekeyEvery = 64;

  StepRecord last_, current_;
  LargeTable<Seen> seen_;               // by extent
  mutable Outlook outlook_;             // on last_; follows when it is asked
  std::vector<ExtentId> births_;        // of this step, in order
  // Absolute position of this step's first op. Not from 0 on: what ages say lies before it.
  Position base_ = StepRecord::kOpsMax;
  std::uint32_t next_ = 0;              // place in last_ of the next op (ops so far, without last_)
  std::uint32_t matched_ = kNone;       // place in last_ of the running op
  std::uint32_t births_matched_ = 0;    // births of the running op so far
  std::uint32_t pending_ = kNone;       // where a jump would lead
  std::uint32_t ops_since_rekey_ = 0;
  std::uint32_t ops_matched_ = 0;       // of the running step
  std::uint32_t last_matched_ = 0;      // of last_, with the step before it
  bool repeats_ = false;                // last_ is as the step before it
  int agreement_ = 0;
  bool in_backward_ = false;
  std::uint32_t turn_ = 0;              // op at which backward began
  std::uint32_t reverse_next_ = 0;      // births_ index below which saved activations are still due
  bool rekeyed_ = false;
  bool by_age_ = false;                     // the last rekey was, for want of confidence
  std::uint64_t ops_ = 0;                   // that were seen, in all steps
  Position aged_at_ = StepRecord::kOpsMax;  // position() at the last rekey
  std::uint64_t aged_to_ = 0;               // ops_ then
  // The running run of ops in step with last_, and the sums of those before it (end_run).
  std::uint64_t run_ = 0, runs_ = 0, runs_squared_ = 0;
  std::uint64_t mean_run_ = 0;  // runs_squared_ / runs_
};

}  // namespace outsize::repeat
