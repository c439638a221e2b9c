// `weights`: weight offloading as Beaumont, Eyraud-Dubois, Shilova and Zhao describe it (chain.h), live.
//
// Once a step came again as it was, a plan is made for those that follow: cover.h selects what leaves, and
// in which of its gaps. Then, op by op:
//   * what no op of the step uses takes no part in the selection, and leaves first, as does what the plan has below;
//     nothing else leaves ahead of need;
//   * it is written as soon as it was produced, earliest produced first, also where it is given up only
//     after a later use;
//   * it comes back earliest needed first, as soon as it fits beside all that the selection keeps until its
//     use; what could come back at once stays.
// Before the first plan, and from where a step goes otherwise until its end, this is `lookahead`. So it is
// where room is short nevertheless: then the farthest use leaves.
//
// Transfers take time, which the selection ignores: a bit of the budget is kept out of it, for what comes
// back ahead of need and what is still being written in its gap.
//
// Works with any predictor, plans with one that knows cycles. Costs: lookahead's, and at a step's end
// O(extents log extents), or what cover.h says where the step was another.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "core/base/large_table.h"
#include "planners/ahead/ahead.h"
#include "planners/weights/cover.h"

namespace outsize::weights {

class WeightsPlanner final : public ahead::AheadPlanner {
 public:
  WeightsPlanner(const ExtentTable& table, const Predictor& predictor, const CoverOptions& options = {})
      : AheadPlanner(table, predictor), options_(options) {}
  const char* name() const override { return "weights"; }
  void on_resident(ExtentId id) override;
  void on_gone(ExtentId id) override;
  void on_rekey() override;
  void plan(const PlanState& state, std::vector<Decision>& out) override;
  // Whether a plan is being followed.
  bool planned() const { return stage_ == Stage::kFollowed; }

 private:
  enum class Stage : std::uint8_t { kNone, kDue, kFollowed };
  struct Sent {  // to be written
    ExtentId extent = kNoExtent;
    Position since = 0;  // the op after the one that produced it
  };
  Position key_of(ExtentId id) const override;
  Position key_in(ExtentId id, std::uint32_t gap) const;
  // Whether the selection has the extent below in that gap; and whether it is to be here nevertheless.
  bool selected(const Upcoming& next) const { return cover_.away(next.gap); }
  bool stays(ExtentId id, Position use) const { return id < stays_.size() && stays_[id].until == use; }
  bool came_to_stay(ExtentId id) const;
  bool idle(ExtentId id) const { return id < idle_.size() && idle_[id]; }
  void step_ended();
  void begin(const PlanState& state);
  void follow();
  void drop();
  void produced(ExtentId id, std::uint32_t gap);
  void to_write(ExtentId id);
  bool settle(const Draft& draft);
  void send(Draft& draft);
  bool bring_back(Draft& draft, Bytes headroom);
  bool has_to_look(const PlanState& state);
  void look_again(const Draft& draft, bool nothing_waits);
  void look_before(Position key);

  CoverOptions options_;
  Cycle cycle_, read_;
  Cover cover_;
  Stage stage_ = Stage::kNone;
  bool is_of_last_ = false;  // cycle_ is of the step that ended last
  Bytes alive_ = 0;   // when a step begins
  Bytes in_use_ = 0;  // of these, all but what is idle; of cycle_
  Bytes budget_ = 0;  // that cover_ is made for; 0: it is not of cycle_
  std::vector<char> idle_;             // by extent: it has no part in the cycle, and may leave
  struct Stay {
    Position until = 0;  // the use until which it stays though it may be away
    Bytes bytes = 0;     // of the extent: whoever sums them up would wait for the table
  };
  LargeTable<Stay> stays_;             // by extent
  static constexpr std::size_t kSentMax = 512;  // looked at in one plan
  static constexpr std::size_t kBelowMax = 64;  // skipped in one plan, before what is used later has to wait
  std::vector<Sent> to_send_;          // earliest produced first
  std::size_t sent_ = 0;               // so many of them are done with
  std::vector<char> is_to_send_;       // by extent
  std::vector<std::pair<std::uint64_t, ExtentId>> by_age_;  // scratch
  // Uses ahead that a plan looks at. Of six networks, two of which go one way, simulated on three devices 1024 moved the same
  // to the byte; on 300 layers of 128 at 60 % a step was 0.2 to 1.7 % shorter, and with 256 up to 5 % longer. A fourth of what
  // a decision cost is saved.
  static constexpr std::size_t kForeseen = 512;
  // The part of the time looked at after which a plan looks again, where nothing waits: one in four. On three recorded networks
  // at 60, 40 and 20 % the same bytes moved as if each plan looked (one of nine: 0.3 % more); a decision with 10^5 extents costs
  // a tenth less (median of twelve best-of-40, by turns on a restless machine: 861 and 767 ns).
  static constexpr Position kLookedPart = 4;
  Position looked_until_ = 0;  // the last use that was seen; what is used before was looked at
  Position look_at_ = 0;       // no plan looks before this position
  Position planned_at_ = 0;
  ExtentId brought_ = kNoExtent;  // the last one that the last look asked for: refused where it is not on its way
  struct Chosen {
    ExtentId extent = kNoExtent;
    Position use = 0;
    Bytes settled = 0;  // its bytes, where it stays until then
  };
  std::array<Chosen, kForeseen> chosen_{};  // scratch: those of upcoming_ that may be away
};

}  // namespace outsize::weights
