// `deepum`: what is used by the next N ops comes ahead of need, and what neither the running op nor the
// next N need leaves ahead of need, the longest-ago migrated first (pre-eviction).
//
// Jung, Kim, Lee: DeepUM: Tensor Migration and Prefetching in Unified Memory (ASPLOS 2023). There,
// "migrated" is when a block came to the device; here, when an extent was born, adopted or brought up.
// The paper's third means, that blocks which PyTorch no longer uses are thrown away without writing
// them back, needs nothing here: the death of a storage reaches the engine at once, resident or not.
// What is ours (docs/adr/0010-deepum.md): nothing comes for which births before its use would have to
// push it out again; among what is expected, should all else be gone, the farthest use leaves first.
//
// Works with any predictor: of its foresight it takes what lies within N ops.
//
// Costs: on_resident O(log n) where an extent came or was no longer expected, else O(1).
#pragma once

#include <array>
#include <vector>

#include "core/plan/planner.h"
#include "core/residency/victim_order.h"

namespace outsize::deepum {

struct PlannerOptions {
  Position degree = 32;   // N
  // Off: an extent leaves when an op, a birth or a prefetch needs its room, not before.
  bool pre_eviction = true;
};

class DeepumPlanner final : public Planner {
 public:
  DeepumPlanner(const ExtentTable& table, const Predictor& predictor, const PlannerOptions& options = {})
      : table_(table), predictor_(predictor), options_(options), reach_(options.degree) {}
  const char* name() const override { return "deepum"; }
  void on_resident(ExtentId id) override;
  void on_gone(ExtentId id) override { leaving_.remove(id); }
  void on_rekey() override { release(); }
  void victims(bool last_choice, std::size_t limit, std::vector<ExtentId>& out) override;
  bool needed_soon(ExtentId id) const override { return leaving_.contains(id) && expected(id); }
  void plan(const PlanState& state, std::vector<Decision>& out) override;

 private:
  struct Draft;  // what this plan has taken so far
  // Keys of what is expected are positions, all others lie above.
  static constexpr Position kUnexpected = Position{1} << 63;
  static constexpr std::size_t kVictims = 128;  // looked at in one plan

  bool expected(ExtentId id) const {
    const Position use = predictor_.next_use(id);
    return use != kNever && use < predictor_.position() + reach_;
  }
  Position key_of(ExtentId id) const;
  void keep(ExtentId id);
  void release();
  void cut_reach(Draft& draft);
  void gather(Draft& draft);
  void pre_evict(Draft& draft);
  void prefetch(Draft& draft);
  bool free_up(Draft& draft, Bytes need);

  const ExtentTable& table_;
  const Predictor& predictor_;
  PlannerOptions options_;
  VictimOrder leaving_;
  Position reach_;                       // of the next N ops, as many as the budget has room for
  std::uint64_t migrations_ = 0;
  std::vector<std::uint64_t> migrated_;  // by extent: how many had come before it
  std::vector<ExtentId> kept_;           // have the key of what is expected; some no longer are
  std::vector<char> is_kept_;            // by extent: in kept_
  std::vector<ExtentId> found_;          // scratch: expected, and still in the order of others
  std::vector<ExtentId> late_;           // scratch: victims if nothing else is left
  std::vector<ExtentId> order_;          // scratch: victims of one plan, best first
  std::array<Upcoming, 512> upcoming_{};
};

}  // namespace outsize::deepum
