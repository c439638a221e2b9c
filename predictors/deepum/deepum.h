// `deepum`: what comes next is read off tables that are learned while the program runs, op by op,
// without any notion of a step.
//
// Every op has an execution ID, from its site and the blocks that it is given. When one begins, the
// tables learn what followed what and which blocks it uses, and the chain (chain.h) goes on ahead of it.
//
// The algorithm is that of Jung, Kim and Lee, "DeepUM: Tensor Migration and Prefetching in Unified
// Memory" (ASPLOS 2023), on extents; docs/adr/0010-deepum.md says where it departs from the paper.
//
// Costs: on_op O(operands), next_use O(1), upcoming O(blocks foreseen). Nothing is allocated once every
// op, in every context up to the bound, and every extent has been seen.
#pragma once

#include <vector>

#include "core/plan/predictor.h"
#include "predictors/deepum/block_names.h"
#include "predictors/deepum/chain.h"

namespace outsize::deepum {

class DeepumPredictor final : public Predictor {
 public:
  explicit DeepumPredictor(const PredictorOptions& options = {});
  const char* name() const override { return "deepum"; }
  void on_op(const OpEvent& op) override;
  void on_birth(ExtentId id, Bytes bytes) override;
  void on_death(ExtentId id, Bytes bytes) override;
  void on_step(Nanos) override {}  // DeepUM knows no steps
  Position position() const override { return chain_.position(); }
  Position next_use(ExtentId id) const override;
  std::size_t upcoming(std::span<Upcoming> out) const override;
  Bytes demand_within(Nanos nanos) const override;
  // An op came that was not foreseen: what stood in the chain is no longer expected. What the chain
  // gains at its end is not told, it is one op's worth: planners ask when it matters to them.
  bool take_rekeyed() override { return chain_.take_rekeyed(); }
  Bytes table_bytes() const override;

 private:
  std::uint64_t key_of(const OpEvent& op);
  void judge_running(Nanos now);
  struct Demand;  // births less deaths along the chain

  Chain chain_;
  BlockNames names_;
  struct Bearer {
    ExecutionId id = kNone;
    Position run = 0;  // which of its runs: where that stood
  };
  std::vector<Bearer> bearers_;        // by extent
  std::vector<BlockId> blocks_;        // scratch: of the running op, in operand order
  SiteId site_ = 0;                    // of the running op
  std::uint32_t births_ = 0;           // in it so far
  Bytes born_ = 0, died_ = 0;          // in it and after it so far
  Nanos began_ = 0;                    // the running op
};

}  // namespace outsize::deepum
