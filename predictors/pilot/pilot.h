// `pilot`: foresees the path of a network that goes another way with every sample, and what its ops will work on. After
// the idea of DyNN-Offload (Ren et al., HPCA 2024); the model is ours (chooser.h).
//
// Every op has a token (tokens.h) and with it a node of the network (network.h). A *plan* is a row of nodes that will
// run: from the running op on, way by way, as the chooser says, with what they work on, bear and see die (plan.h). It is
// made when a sample has come, where the step has left the plan for good, where ops work on other extents than it says, and
// when half of it has run, or of a long one more. The next one is twice as long where plans come true, and half as long where one did
// not, down to 512 ops, or to half of that where ops work on other extents, until a sample comes. Where plans fail soon, one after
// the other, more has to come otherwise each time before the next is made. Plans are charged with a share of
// the step's time, and take a few times as much (docs/adr/0013-pilot.md).
// What a plan does not tell is taken to be needed when such things were that had gone unused as long (gaps.h); what small
// storages share, at once where it was used since ages were said last, in forward behind the plan's end, in backward the
// later, the longer ago it was used.
//
// Costs: on_op O(operands log uses); a plan O(its ops); next_use O(log uses). For programs whose ops are one row; where threads
// run ops at once, foresight suffers and nothing else.
#pragma once

#include <utility>
#include <vector>

#include "core/base/large_table.h"
#include "core/base/result.h"
#include "core/plan/predictor.h"
#include "predictors/pilot/chooser.h"
#include "predictors/pilot/gaps.h"
#include "predictors/pilot/made_nodes.h"
#include "predictors/pilot/model.h"
#include "predictors/pilot/plan.h"
#include "predictors/pilot/shared_habits.h"

namespace outsize::pilot {

struct PilotOptions {
  ChooserOptions chooser = {};
  std::uint32_t plan_ops_max = 32768;
  std::uint32_t share = 100;  // plans are charged with one part in so many of the step's time
  std::uint32_t skip = 96;    // planned ops that may not come
  std::uint32_t block = 0;    // MiB of a block whose things are all wanted at its begin; 0: things by themselves
  std::uint32_t buffers = 8;   // of so many blocks things come ahead (PlanBlocks); 0: of all
  std::uint32_t lost = 4;     // ops that come unplanned before a plan is made anew; up to 32 times as many where plans fail soon
  bool requery = true;        // else the path is asked for once a sample, or once a step that has none
  bool early = false;         // names ops from the program's first one on, as a run with a model does
  bool judge = true;          // a model that knows hardly any op of the first steps is given up
};

class PilotPredictor final : public Predictor {
 public:
  // `table` must outlive it.
  PilotPredictor(const ExtentTable& table, const PilotOptions& options);
  const char* name() const override { return "pilot"; }
  void on_op(const OpEvent& op) override;
  void on_birth(ExtentId id, Bytes bytes) override;
  void on_death(ExtentId id, Bytes bytes) override;
  void on_step(Nanos now) override;
  void on_sample(std::span<const std::int64_t> sample) override;
  bool on_share(ExtentId id) override;
  Position position() const override { return ops_; }
  Position next_use(ExtentId id) const override;
  bool wanted_at_once(ExtentId id) const override {
    return id < seen_.size() && shared(id) && seen_[id].used_at + Plan::kToldAgain > aged_;
  }
  std::size_t upcoming(std::span<Upcoming> out) const override;
  std::size_t to_bring(std::span<const Upcoming> upcoming) const override { return plan_.to_bring(upcoming); }
  Bytes demand_within(Nanos nanos) const override;
  bool take_rekeyed() override { return std::exchange(rekeyed_, false); }
  Bytes table_bytes() const override {
    const Bytes blank = blank_.empty() ? 0 : blank_.front().table_bytes();
    return network_.table_bytes() + chooser_.table_bytes() + uses_.bytes() + graph_.bytes() + habits_.bytes() + gaps_.bytes() + blank;
  }

  bool from_start() const override { return from_start_; }
  std::string learnt() const override;
  Recognized recognized() const override { return known_; }
  // What an earlier run has learnt. Before the first op; nothing is changed where there is an error (model.h).
  Status begin_with(std::string_view model);
  // Between two steps: nothing is known but what has no names of networks in it: how advisers are weighed, and kinds.
  void forget_network();
  void forget_all();
  ModelFacts facts() const;

  struct Score {
    Chooser::Score choices;
    std::uint64_t ops = 0, foreseen = 0;    // of these
    std::uint64_t plans = 0, planned = 0;   // ops in them
  };
  Score score() const;
  const Network& network() const { return network_; }
  // What it foresees of the running step from here on, at most `ops`, the running one included: for who wants to
  // know how well, between two ops. Nothing of its own changes.
  void foresee(Plan& plan, std::uint32_t ops);

 private:
  static constexpr Token kStepEnds = 1;
  static constexpr std::uint32_t kPlanOpsMin = 512;
  struct Seen {
    std::uint64_t used_at = 0;      // op
    std::uint64_t thing_step = 0;   // in which `thing` was looked up
    ThingId thing = kNobody;
    bool transient = false;         // born in this step
  };
  Seen& seen(ExtentId id);
  bool shared(ExtentId id) const { return id < table_->size() && (*table_)[id].shared; }
  ThingId thing_of(ExtentId id);
  void end_op(Nanos now);
  void judge_model();
  void watch_without_names();
  void begin_anew(PilotPredictor&& blank);
  void pass_to(NodeId node);
  void end_graph_node(std::uint32_t next);
  void take_turn(NodeId node, const Turn& turn);
  void use(NodeId node, bool backward);
  void follow(NodeId node);
  void was_wrong(Position at, std::uint32_t& soon);
  void correct();
  void say_ages();
  void say_ages_now_and_then();
  void make_plan(bool begins, bool goes_on = false);
  Plan::World world();
  Standing standing() const { return {network_, instances_, trail_, sample_, running_, base_type_}; }

  const ExtentTable* table_;
  PilotOptions options_;
  Tokens tokens_;
  Network network_;
  StepUses uses_;
  SharedHabits habits_;
  GapTable gaps_;                  // by thing
  Instances instances_;
  Trail trail_;
  Sample sample_;
  MadeNodes graph_;
  BaseTypeScale base_, base_of_run_;  // of all that was learnt; of this run
  BaseType base_type_ = BaseType::kPlain;  // of this run's network, as far as it is known: until a step ends, the model's
  Chooser chooser_;
  mutable Plan plan_;
  LargeTable<Seen> seen_;          // by extent
  std::vector<SharedHabits::Use> sharing_;  // what the running op works on: extents that are shared,
  std::vector<ExtentId> operands_; // the others,
  std::vector<ThingId> things_;    // and the things that these are
  std::vector<ThingId> deaths_;    // since the running op began
  NodeId step_node_ = kNobody, running_ = kNobody;
  std::uint32_t births_ = 0;       // of the running op
  Position ops_ = Position{1} << 32;  // so far; not from 0 on: what ages say lies before it
  Bytes alive_ = 0, alive_peak_ = 0;  // beyond what was alive when it began to look
  Bytes died_bytes_ = 0;           // since the running op began
  Bytes pooled_ = 0, pooled_died_ = 0;  // by the running op, in shared extents
  Position aged_ = ops_;           // when ages were said last
  bool aged_backward_ = false;     // whether backward ran then
  bool backward_ = false;          // the running op is of backward
  std::uint64_t step_ = 1;
  Nanos began_ = 0;                // the running op
  // Of the step's time a share may go into plans: an op's adds to it, a plan takes from it.
  bool affordable() const { return credit_ >= 0; }
  bool may_ask_again() const { return affordable() && options_.requery; }
  Nanos credit_ = 0;
  std::uint32_t plan_ops_ = 0;     // how long the next plan is
  Position drift_ = 0;             // of positions told
  std::uint32_t surprises_ = 0;    // operands of planned ops that the plan did not foresee
  std::uint32_t lost_ = 0;         // ops since the step left the plan
  // Plans in a row, since the sample came, that were wrong so soon: what ops work on; or the step left them. One made right after
  // such a one mostly goes the same way.
  std::uint32_t surprised_soon_ = 0, lost_soon_ = 0;
  Position planned_at_ = 0, surprised_at_ = 0, left_at_ = 0;  // the plan, but for one that went on with the last; when that was wrong
  bool on_plan_ = false;           // the running op is as planned
  bool asked_ = false;             // for a plan, since the step began
  bool rekeyed_ = false;
  bool from_start_ = false;
  bool judging_ = false;           // whether the model is of this program
  NodeId model_nodes_ = 0;         // nodes below are the model's
  Recognized known_;
  // While a model is judged: one that knows of it what has no names. It sees the same, and goes on where the model is given
  // up: so nothing that was seen until then is lost. One, or none.
  std::vector<PilotPredictor> blank_;
  Score score_;
};

}  // namespace outsize::pilot
