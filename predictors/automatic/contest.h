// How well each of two predictors foresees, as measured on what then ran.
//
// Now and then, at the beginning of a *window*, both say what will be used soon; when its ops have run it is known what
// was. Of the extents that had not been used for as long before as the window is (the others are in RAM anyway):
// those listed and used, listed and not used (they would have come for nothing), used and not listed. A window is as
// long as reading ahead needs, about a tenth of a second, and at most a quarter of a step. Who answers the planner makes
// no difference to the measure: what is in RAM is not asked, but to tell whether anything comes back at all.
//
// Costs: on_op O(operands); a window O(1024) and what two upcoming() cost. Allocates as extents become more. By inputs
// alone, so that it can be replayed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/plan/predictor.h"

namespace outsize::automatic {

// Of what was foreseen and what was used together, the share that is both, in thousandths.
using PerMille = std::int32_t;

class Contest {
 public:
  enum Rival : std::uint8_t { kUsual, kPilot };
  static constexpr int kRivals = 2;

  // `table` must outlive it.
  explicit Contest(const ExtentTable& table) : table_(table) {}
  // After both predictors were told; `pilot` null while it rests.
  void on_op(const OpEvent& op, const Predictor& usual, const Predictor* pilot);
  void on_birth(ExtentId id);
  void on_death(ExtentId id);
  // True where the step told something new.
  bool on_step();
  // What the pilot did so far is forgotten: another one comes.
  void forget_pilot();

  bool known(Rival rival) const { return mean_[rival].all() > 0; }
  PerMille share(Rival rival) const;
  // So much comes back to RAM that it matters who foresees it.
  bool matters() const { return came_back_ * kMatters >= used_ && came_back_ > 0; }

 private:
  struct Seen {
    std::uint64_t used_at = 0;  // op
    std::uint64_t window = 0;   // in which it was listed
    std::uint8_t by = 0;        // whom, a bit each
    bool cold = false;          // not used for long when that window began
  };
  struct Tally {
    Bytes hit = 0, wrong = 0, missed = 0;
    Bytes all() const { return hit + wrong + missed; }
    void add(const Tally& more) {
      hit += more.hit;
      wrong += more.wrong;
      missed += more.missed;
    }
    void fade() {
      hit -= hit / kFade;
      wrong -= wrong / kFade;
      missed -= missed / kFade;
    }
  };
  static constexpr Bytes kFade = 6;      // steps that a mean is made of, about
  static constexpr Bytes kMatters = 32;  // one byte in so many
  static constexpr std::size_t kListed = 1024;
  static constexpr std::uint32_t kOpsMin = 8, kOpsMax = 512;

  Seen& seen(ExtentId id);
  Bytes bytes_of(ExtentId id) const { return id < table_.size() ? table_[id].bytes : 0; }
  void use(ExtentId id);
  void open(Nanos now, const Predictor& usual, const Predictor* pilot);
  void list(Rival rival, const Predictor& predictor);
  void count_wrong(ExtentId id, const Seen& seen);
  void close(Nanos now);

  const ExtentTable& table_;
  std::vector<Seen> seen_;            // by extent
  std::vector<ExtentId> listed_;      // by anybody, in this window
  std::array<Upcoming, kListed> upcoming_{};
  std::uint64_t ops_ = 1U << 16;      // so far; not from 0 on: what was never used was used long ago
  std::uint64_t step_began_ = ops_;
  std::uint64_t window_ = 0;          // 0: none yet
  std::uint64_t opened_ = 0;          // op
  Nanos opened_at_ = 0;
  std::uint32_t length_ = 64, length_max_ = kOpsMax;
  bool pilot_listed_ = false;         // in this window
  bool new_ = false;                  // a window ended in this step
  std::array<Tally, kRivals> window_tally_{}, step_{}, mean_{};
  Bytes step_used_ = 0, step_back_ = 0;  // of windows of this step
  Bytes used_ = 0, came_back_ = 0;       // means
};

}  // namespace outsize::automatic
