// `oracle`: foresight without error, from the record of an earlier, identical run (recording.h). What it gains is what
// better foresight could gain, and no more.
//
// It follows the run op by op, by the ops' sites. Which extents play the recorded storages it knows from the order of
// births in each op, and of what was there before from the place among an op's operands; every op's operands are
// compared, so that what was taken for another is put right when it is used. Small storages share extents, which lie
// otherwise in every run: such an extent is used next when the first of those in it is.
//
// Where other ops come than were recorded, the place is looked for again: so many ops in a row that agree, within a
// window. Meanwhile nothing comes ahead of need, and after a while what was used longest ago leaves first. Where the
// place is not found, or the recorded run is over, it stays so.
//
// Costs: on_op O(operands), next_use O(log uses), upcoming as Outlook says; O(window) for an op while it looks for the
// place. For programs of one thread: where threads run ops at once, foresight suffers and nothing else.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/predictor.h"
#include "predictors/oracle/recording.h"
#include "predictors/oracle/shared_uses.h"
#include "predictors/steps/outlook.h"

namespace outsize::oracle {

class OraclePredictor final : public Predictor {
 public:
  // So many ops in a row must agree before a place is taken up again, no farther from the last one than the window;
  // after so many that were not found it is given up.
  static constexpr std::uint32_t kAgree = 8, kWindow = 4096, kLostMax = 4096;

  // `table` must outlive it.
  OraclePredictor(const ExtentTable& table, std::unique_ptr<const Recording> recording);

  const char* name() const override { return "oracle"; }
  void on_op(const OpEvent& op) override;
  void on_birth(ExtentId id, Bytes bytes) override;
  void on_adopt(ExtentId id, Bytes bytes) override;
  bool on_share(ExtentId id) override;
  void on_death(ExtentId id, Bytes bytes) override;
  void on_step(Nanos) override {}
  Position position() const override { return place_; }
  Position next_use(ExtentId id) const override;
  std::size_t upcoming(std::span<Upcoming> out) const override;
  Bytes demand_within(Nanos nanos) const override;
  bool take_rekeyed() override { return std::exchange(rekeyed_, false); }
  bool from_start() const override { return true; }
  Recognized recognized() const override { return {ops_, known_, given_up_}; }
  std::string foresight() const override;

 private:
  using Part = Recording::Part;
  static constexpr std::uint32_t kPatience = 64;  // ops without a place after which what was foreseen counts no more
  struct Seen {
    std::uint32_t object = kNone;  // that it plays alone
    bool born = false;             // watched: no memory that was there before
    std::uint64_t used_at = 0;     // op
    std::uint64_t listed = 0;      // in that answer of upcoming
  };

  Seen& seen(ExtentId id);
  const steps::StepRecord& run() const { return recording_->run(); }
  bool follows() const { return lost_ == 0 && place_ < run().size(); }
  void follow(const OpEvent& op, std::uint32_t place);
  void look_for(SiteId site);
  std::uint32_t find() const;
  bool agrees(std::uint32_t place) const;
  void go_by_age(bool on);
  void recognize(std::span<const OperandRef> operands);
  bool fits(std::uint32_t object, ExtentId id) const;
  void cast(std::uint32_t object, ExtentId id);
  std::uint32_t take_birth(Part part, Bytes bytes);
  Position by_age(const Seen& s) const { return kFar - s.used_at; }
  Nanos stretch() const;
  Bytes demanded(Bytes later) const;

  static constexpr Nanos kEven = 1024;
  // Beyond all places.
  static constexpr Position kFar = Position{1} << 48;

  const ExtentTable& table_;
  std::unique_ptr<const Recording> recording_;
  mutable steps::Outlook outlook_;         // on all of the run; follows when it is asked
  mutable SharedUses shared_;
  mutable std::vector<Seen> seen_;         // by extent
  mutable std::vector<Upcoming> scratch_;
  mutable std::uint64_t listing_ = 0;
  std::uint32_t place_ = 1;                // of the op that comes next
  std::uint32_t birth_ = 0;                // that comes next, where all is as recorded
  Bytes born_left_ = 0, died_left_ = 0;    // by the running op and until the next
  std::array<SiteId, kAgree> trail_{};     // the latest ops since the place was lost
  std::uint32_t lost_ = 0;                 // these
  std::uint64_t ops_ = 0, known_ = 0;
  bool given_up_ = false;
  bool by_age_ = false;
  bool rekeyed_ = false;
  bool timed_ = false;                     // the op before this one was where it should be
  Nanos now_ = 0, at_ = 0;                 // when it began, and when it should have
  Nanos took_ = 0, should_take_ = 0;       // what has run so far
};

}  // namespace outsize::oracle
