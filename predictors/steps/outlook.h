// What the running step is going to use and bear if it goes on as the last one did: kept from op to op, so
// that to look ahead costs what is found and not what lies between.
//
// Of every access of the last step that some extent will repeat next, a bit is kept: `soon_` of those at or
// after the place where the running step stands, `again_` of those before it, which only the next step will
// repeat. The births and deaths of kBlock ops each are summed up. It follows the place when it is asked:
// amortised O(accesses passed), nothing where nobody asks.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/plan/predictor.h"
#include "predictors/steps/step_record.h"

namespace outsize::steps {

class Outlook {
 public:
  // A step begins that will be like `step`; `holder`, by its objects, are the extents that play them, or
  // kNoExtent. `step` is the same in all calls until the next begin.
  // With `again` what has been passed comes again after its end, as in a step that repeats.
  void begin(const StepRecord& step, std::vector<ExtentId> holder, bool again = true);
  // `id` plays the part of `object` from now on; with kNoExtent nobody does.
  void hold(const StepRecord& step, std::uint32_t object, ExtentId id);
  const std::vector<ExtentId>& holders() const { return holder_; }

  // As Predictor::upcoming, where `next` is the place of the op that comes next, at position `base + next`.
  std::size_t upcoming(const StepRecord& step, std::uint32_t next, Position base, std::span<Upcoming> out);
  // As Predictor::demand_within; O(ops of that time / kBlock).
  Bytes demand_within(const StepRecord& step, std::uint32_t next, Nanos nanos);

 private:
  struct Flow {  // of one op
    Bytes born = 0;  // without what was born last time and is still there, as optimizer state
    Bytes died = 0;
  };
  // Births less deaths of some ops, and the most that they hold at once.
  struct Sum {
    Bytes born = 0, most = 0;
    void add(const Flow& op) {
      born += op.born;
      most = std::max(most, born);
      born -= op.died;
    }
    void add(const Sum& later) {
      most = std::max(most, born + later.most);
      born += later.born;
    }
  };
  struct Block {
    Sum sum;  // of its ops
    bool known = false;
  };
  // Of the ops from some op on, before `end`: that of whole blocks, but for those before the first block's begin.
  struct Summed {
    std::uint32_t end = 0;
    Sum sum;
  };
  using Bits = std::vector<std::uint64_t>;
  static constexpr std::uint32_t kBlock = 64;            // ops
  static constexpr std::uint32_t kAccessesMax = 16384;   // that are looked at: what is used later is far off

  void show(const StepRecord& step, std::uint32_t object, bool is_held);
  void move_to(const StepRecord& step, std::uint32_t next);
  void pass(const StepRecord& step, std::uint32_t op);
  void return_to(const StepRecord& step, std::uint32_t op);
  const Sum& sum_of(std::uint32_t block);
  void add_blocks(Summed& summed, std::uint32_t to);
  Bytes most_until(Summed& summed, std::uint32_t op);
  void add_ops(Summed& summed, std::uint32_t to);

  std::vector<ExtentId> holder_;    // by object
  std::vector<Flow> flow_;          // by op
  std::vector<std::uint32_t> due_;  // by object: the access that is its first at or after place_, or kNone
  Bits soon_, again_;               // by access
  std::vector<Block> blocks_;
  std::vector<Bytes> most_;         // by op, where its block's sum is known: of the ops before it in the block
  std::uint32_t place_ = 0;
  bool repeats_ = true;
};

}  // namespace outsize::steps
