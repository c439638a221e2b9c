// A row of ops that will run, with what they work on, bear and see die: as if it were a recorded step (step_record.h).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/plan/predictor.h"
#include "predictors/pilot/chooser.h"
#include "predictors/pilot/made_nodes.h"
#include "predictors/pilot/shared_habits.h"
#include "predictors/pilot/step_uses.h"
#include "predictors/steps/outlook.h"
#include "predictors/steps/step_record.h"

namespace outsize::pilot {

// After DyNN-Offload (HPCA 2024), which brings blocks, and into one of two buffers: a plan's ops are cut where a way was
// chosen, and before a block works on more than that. Not its cuts, which are not public. The further a plan looks the
// more often it is wrong: what comes ahead comes for eight blocks (docs/notes/pilot-ablations.md).
struct PlanBlocks {
  Bytes bytes = 0;            // of a block, all of which is wanted at its begin; 0: each extent when an op wants it
  std::uint32_t buffers = 0;  // of so many blocks, the running one among them, things come ahead; 0: of all
  bool any() const { return bytes > 0 || buffers > 0; }
};

class Plan {
 public:
  // Of an extent that small storages share it tells once in so many ops: used once, it is used by those around, too.
  static constexpr std::uint32_t kToldAgain = 32;

  struct World {
    const Network& network;
    const Tokens& tokens;
    const ExtentTable& table;
    const Sample& sample;
    Instances& instances;  // a draft is made of them and given up
    Chooser& chooser;
    const StepUses& uses;
    const SharedHabits& habits;
    const MadeNodes& graph;
    NodeId step_node = kNobody;  // stands for the end of a step
    std::uint64_t op = 0;  // that runs
    BaseType base = BaseType::kPlain;
    PlanBlocks blocks = {};
    int steps = 8;         // in which it goes on after this one; such as have no ops would go on for ever
  };
  // From `running` on, which stands before `next`; at most `ops`. It `begins`: what it bears is still to come.
  void make(const World& world, Trail trail, NodeId running, bool begins, Position next, std::uint32_t ops);

  std::uint32_t size() const { return record_.size(); }
  // By op; the first is the one that ran when it was made.
  std::span<const NodeId> nodes() const { return nodes_; }
  // Behind its last op a step ends, and it was not to tell of more.
  bool ends() const { return ends_; }
  // Near its end, as far as one that was longer would have told more: a quarter is left or kEnough ops, or half of it.
  bool mostly_run() const {
    constexpr std::uint32_t kEnough = 512;
    return place_ >= size() - (open_ ? std::clamp(kEnough, size() / 4, size() / 2) : 0);
  }
  std::uint32_t place() const { return place_; }  // of the next op
  // The next op is a run of this node, as planned.
  bool next_is(NodeId node) const { return place_ < size() && nodes_[place_] == node; }
  void advance() { ++place_; }
  // The next op stands there, after ops that were not planned or planned ones that did not come. How far that is from
  // where it was taken to stand.
  Position move(Position next) {
    const Position base = next - place_;
    const Position by = base < base_ ? base_ - base : base - base_;
    base_ = base;
    return by;
  }
  // Goes on where that node comes soon; false where it does not.
  bool skip_to(NodeId node, std::uint32_t within);

  // The `order`-th birth of the running op, if the plan knew of it, has become that extent.
  void bear(ExtentId id, std::size_t order);
  void bury(ExtentId id);
  // The next op works on it, as planned.
  bool foresees(ExtentId id) const;
  // kNever where the plan knows nothing of it, or no more.
  Position next_use(ExtentId id) const;
  Position end() const { return base_ + size(); }
  std::size_t upcoming(std::span<Upcoming> out) {
    const std::size_t count = outlook_.upcoming(record_, place_, base_, out);
    if (blocks_.bytes > 0) want_blocks(out.first(count));
    return count;
  }
  // How many of these are of the blocks that come ahead.
  std::size_t to_bring(std::span<const Upcoming> upcoming) const;
  Bytes demand_within(Nanos nanos) { return outlook_.demand_within(record_, place_, nanos); }

 private:
  struct Played {
    std::uint64_t plan = 0;  // in which
    std::uint32_t object = steps::kNone;
  };
  void begin(const World& world, NodeId running, bool begins, Position next);
  Nanos add(const World& world, NodeId id, Nanos at);
  Played& played(ExtentId id);
  std::uint32_t object_of(ExtentId id);
  struct Found {
    std::uint32_t object = steps::kNone;
    ThingId thing = kNobody;        // which of several it may be
    ExtentId saved = kNoExtent;     // by the op whose gradient is made: not the latest of that thing
  };
  Found resolve(const World& world, ThingId thing);
  Found latest(const World& world, ThingId thing);
  const StepUses::Use* saved(const World& world, ThingId thing) const;
  void use(const World& world, const Node& node);
  void use_shared(const World& world, NodeId id, const Node& node);
  void tell_shared(ExtentId id);
  void change(const World& world, const Node& node, std::uint32_t op);
  void cut(const World& world);
  void want_blocks(std::span<Upcoming> out) const;
  Position wanted_at(std::uint32_t op) const { return base_ + (blocks_.bytes > 0 ? in_block_[op].begin : op); }
  void take_turn(const World& world, const Node& node);
  static void make_graph_node(const World& world, const Node& node, std::uint32_t op);
  Bytes bytes_of(const World& world, std::uint32_t object) const;

  steps::StepRecord record_;
  steps::Outlook outlook_;
  std::vector<NodeId> nodes_;      // by op
  struct InBlock {
    std::uint32_t begin = 0, number = 0;  // the op with which its block begins, and the how-manieth block that is
  };
  PlanBlocks blocks_;
  std::vector<InBlock> in_block_;  // by op; empty where nobody asks
  std::vector<Played> played_;     // by extent
  std::vector<ExtentId> holder_;   // by object, while it is made
  std::vector<std::uint32_t> told_;  // by object, while it is made: until that op it need not be told again
  std::uint64_t number_ = 1;       // of plans so far; 0: of none
  Bytes pooled_ = 0;               // that the plan's ops so far will bear, beyond whole extents
  bool open_ = false;              // it might have been longer
  bool ends_ = false;
  std::uint32_t place_ = 0;
  // While it is made: whose turn it is of autograd's nodes, 0 in forward; and what the op that made it worked on and bore.
  std::uint32_t turn_ = 0;
  std::span<const StepUses::Use> saved_;
  bool beyond_ = false;            // autograd's numbers are not known any more of the nodes whose turn it is
  Position base_ = 0;
};

}  // namespace outsize::pilot
