#include "predictors/pilot/pilot.h"

#include <algorithm>

namespace outsize::pilot {
namespace {

constexpr Nanos kPlanOpNanos = 60;  // what a planned op is charged with: less than it takes (docs/adr/0013-pilot.md)
constexpr std::uint32_t kSurprises = 2;  // after which a plan that foresees the ops is made anew all the same: a short one
constexpr std::uint32_t kPlanOpsShort = 256;
constexpr Nanos kCreditMax = 10'000'000;
constexpr std::uint64_t kJudgedOpsMax = 1U << 22;  // after so many ops a model is kept

// What it takes to make a plan anew where so many in a row had failed soon: more each time, but for the first.
std::uint64_t with_patience(std::uint32_t enough, std::uint32_t failed) {
  constexpr std::uint32_t kDoublings = 5;
  return std::uint64_t{enough} << std::min(failed > 0 ? failed - 1 : 0, kDoublings);
}

}  // namespace

PilotPredictor::PilotPredictor(const ExtentTable& table, const PilotOptions& options)
    : table_(&table), options_(options), chooser_(options.chooser), from_start_(options.early) {
  step_node_ = running_ = network_.node(kStepEnds, false);
  plan_ops_ = kPlanOpsMin;
}

PilotPredictor::Seen& PilotPredictor::seen(ExtentId id) {
  if (id >= seen_.size()) seen_.resize(id + 1 + id / 2);
  return seen_[id];
}

PilotPredictor::Score PilotPredictor::score() const {
  Score score = score_;
  score.choices = chooser_.score();
  return score;
}

// Its thing, once it has one; kNobody of what was there before anybody looked, until the step ends.
ThingId PilotPredictor::thing_of(ExtentId id) {
  Seen& s = seen(id);
  if (s.transient || s.thing_step == step_) return s.thing;
  const Role role = tokens_.role(id);
  s.thing_step = step_;
  s.thing = role == kNoRole ? kNobody : network_.lasting(role);
  return s.thing;
}

// The running op has ended, and what came with it is known.
void PilotPredictor::end_op(Nanos now) {
  Node& node = network_[running_];
  if (running_ != step_node_) {
    network_.took(running_, std::max<Nanos>(now - began_, 1));
    base_.weigh(mark_of(node.idiom), node.time);
    base_of_run_.weigh(mark_of(node.idiom), node.time);
  }
  node.born = births_;
  node.pooled += (std::exchange(pooled_, 0) - node.pooled) / 8;
  node.pooled_died += (std::exchange(pooled_died_, 0) - node.pooled_died) / 8;
  network_.deaths(running_, deaths_);
  node.died_bytes = std::exchange(died_bytes_, 0);
  deaths_.clear();
  births_ = 0;
}

void PilotPredictor::end_graph_node(std::uint32_t next) {
  const auto ended = graph_.begin(next);
  if (ended.maker == kNobody) return;
  network_[ended.maker].made = ended.made;
  const ThingId thing = ended.made ? network_.graph_node(ended.maker) : kNobody;
  if (thing == kNobody) return;
  graph_.keep(ended.number, ended.maker, ended.op);
  instances_.push(thing, {ended.op, ended.number, false, true});
}

void PilotPredictor::take_turn(NodeId node, const Turn& turn) {
  const ThingId thing = turn.of != 0 && turn.begins ? network_[graph_.whose_turn()].makes : kNobody;
  network_[node].returns_to = thing;
  if (thing != kNobody) instances_.remove(thing, graph_.running());
}

void PilotPredictor::pass_to(NodeId node) {
  chooser_.learn(standing(), node);
  network_.pass(running_, node, step_);
  const Node& passed = network_[node];
  if (const ClassId choice = network_.class_of(passed); choice != kNobody) trail_.enter(choice, node, passed.kind);
  running_ = node;
  instances_.run(node);
}

void PilotPredictor::on_op(const OpEvent& op) {
  for (PilotPredictor& blank : blank_) blank.on_op(op);
  end_op(op.now);
  end_graph_node(next_node(op.graph));
  credit_ = std::min(kCreditMax, credit_ + (op.now - began_) / options_.share);
  began_ = op.now;
  ++ops_;
  operands_.clear();
  sharing_.clear();
  for (const ExtentId id : op.extents) {
    Seen& s = seen(id);
    const Position gap = ops_ - std::exchange(s.used_at, ops_);
    if (shared(id)) {
      uses_.use(ops_, id, kNobody);
      sharing_.push_back({id, gap > Plan::kToldAgain});
    } else {
      operands_.push_back(id);
      if (s.thing != kNobody) gaps_.add(s.thing, gap);
    }
  }
  backward_ = op.in_backward;
  const Turn turn = graph_.turn(running_node(op.graph), op.in_backward, [this](NodeId maker) { return network_[maker].token; });
  const Token token = tokens_.on_op(kind_of(op.site), operands_, op.in_backward, turn);
  const NodeId node = network_.node_after(running_, token, op.in_backward, tokens_.relative());
  network_.is_of(node, static_cast<std::uint32_t>(kind_of(op.site)), idiom_class_of(op.site));
  if (judging_) {
    ++known_.ops;
    known_.known += node < model_nodes_ ? 1 : 0;
    if (known_.ops == kJudgedOpsMax) blank_.clear();  // no step ends: it would watch for ever
  }
  habits_.use(node, sharing_);
  pass_to(node);
  take_turn(node, turn);
  graph_.place(next_node(op.graph), node, ops_);
  use(node, op.in_backward);
  follow(node);
  say_ages_now_and_then();
}

void PilotPredictor::use(NodeId node, bool backward) {
  things_.clear();
  const bool planned = plan_.next_is(node);
  for (const ExtentId id : operands_) {
    const ThingId thing = thing_of(id);
    if (thing == kNobody) continue;
    if (planned && !plan_.foresees(id) && ++surprises_ == kSurprises) surprised_at_ = ops_;
    things_.push_back(thing);
    uses_.use(ops_, id, thing);
    if (network_.thing(thing).role == kNoRole) continue;
    instances_.touch(thing);
    if (backward) {
      instances_.pop(thing);
    } else {
      instances_.push(thing, {ops_, kNobody, false, true});
      network_.used_forward(thing);
    }
  }
  network_.uses(node, things_, !sharing_.empty());
}

// Small detours are left to themselves: what comes after them is what was planned.
void PilotPredictor::follow(NodeId node) {
  ++score_.ops;
  if (!options_.requery && !asked_ && affordable()) return make_plan(true);
  on_plan_ = plan_.next_is(node);
  if (on_plan_) {
    ++score_.foreseen;
    plan_.advance();
    lost_ = 0;
    // The ops are as planned, and what they work on is not: what the plan says of extents is not worth much any more.
    const bool came_true = surprises_ < kSurprises;
    const bool surprised = surprises_ >= with_patience(kSurprises, surprised_soon_);
    if ((!surprised && !plan_.mostly_run()) || !may_ask_again()) return;
    plan_ops_ = came_true ? std::min(plan_ops_ * 2, options_.plan_ops_max) : std::max(plan_ops_ / 2, kPlanOpsShort);
    if (came_true) {
      surprised_soon_ = lost_soon_ = 0;
      return make_plan(true, true);
    }
    was_wrong(surprised_at_, surprised_soon_);
  } else if (plan_.skip_to(node, options_.skip)) {
    on_plan_ = true;
    lost_ = 0;
    correct();
    return;
  } else {
    if (++lost_ == 1) left_at_ = ops_;
    correct();
    if (network_[node].ways.empty()) return;  // it runs for the first time: nothing is known of what comes
    const bool is_left = plan_.place() < plan_.size();  // else it tells of no more
    if ((is_left && lost_ < with_patience(options_.lost, lost_soon_)) || !may_ask_again()) return;
    plan_ops_ = std::max(plan_ops_ / 2, kPlanOpsMin);
    if (is_left) was_wrong(left_at_, lost_soon_);
  }
  make_plan(true);
}

void PilotPredictor::was_wrong(Position at, std::uint32_t& soon) {
  constexpr Position kSoon = 64;
  if (at - planned_at_ < kSoon) ++soon;
  else surprised_soon_ = lost_soon_ = 0;
}

// Positions are kept by those who asked; once they are off by more than a little they are asked for anew.
void PilotPredictor::correct() {
  constexpr Position kLittle = 64;
  drift_ += plan_.move(ops_);
  if (drift_ < kLittle) return;
  drift_ = 0;
  rekeyed_ = true;
}

Plan::World PilotPredictor::world() {
  return {network_, tokens_, *table_, sample_, instances_, chooser_, uses_, habits_, graph_, step_node_, ops_, base_type_};
}

void PilotPredictor::make_plan(bool begins, bool goes_on) {
  if (!options_.requery) plan_ops_ = options_.plan_ops_max;
  asked_ = true;
  if (!goes_on) planned_at_ = ops_;
  lost_ = 0;
  surprises_ = 0;
  drift_ = 0;
  Plan::World world = this->world();
  world.blocks = {static_cast<Bytes>(options_.block) * kMiB, options_.buffers};
  plan_.make(world, trail_, running_, begins, ops_, plan_ops_);
  on_plan_ = true;
  ++score_.plans;
  score_.planned += plan_.size();
  credit_ = std::max(-kCreditMax, credit_ - static_cast<Nanos>(plan_.size()) * kPlanOpNanos);
  say_ages();
}

void PilotPredictor::say_ages() {
  rekeyed_ = true;
  aged_ = ops_;
  aged_backward_ = backward_;
}

// Plans may go on for tens of thousands of ops, and what they do not tell of grows old meanwhile; and backward goes by
// another rule. Whoever keeps what next_use has said is told: so not too often.
void PilotPredictor::say_ages_now_and_then() {
  constexpr Position kOps = 1024, kOpsOfTurn = 256;
  const bool turned = backward_ != aged_backward_;
  const Position extents = seen_.size(), often = turned ? std::max(kOpsOfTurn, extents / 16) : std::max(kOps, extents / 4);
  if (ops_ - aged_ >= often) say_ages();
}

void PilotPredictor::foresee(Plan& plan, std::uint32_t ops) {
  Plan::World world = this->world();
  world.steps = 0;
  plan.make(world, trail_, running_, false, ops_, ops);
}

void PilotPredictor::on_birth(ExtentId id, Bytes bytes) {
  for (PilotPredictor& blank : blank_) blank.on_birth(id, bytes);
  Seen& s = seen(id);
  s = {ops_, 0, kNobody, false};
  alive_ += bytes;
  alive_peak_ = std::max(alive_peak_, alive_);
  if (shared(id)) {
    pooled_ += bytes;
    uses_.use(ops_, id, kNobody);
    return;
  }
  tokens_.on_birth(id, bytes);
  if (running_ == step_node_) return;
  s.transient = true;
  s.thing = network_.birth(running_, births_, bytes);
  if (s.thing != kNobody) uses_.use(ops_, id, s.thing);
  if (s.thing != kNobody) instances_.push(s.thing, {ops_, id, false, !network_[running_].backward});
  if (on_plan_) plan_.bear(id, births_);
  if (s.thing != kNobody) ++births_;
}

bool PilotPredictor::on_share(ExtentId id) {
  for (PilotPredictor& blank : blank_) blank.on_share(id);
  uses_.use(ops_, id, kNobody);
  return false;
}

void PilotPredictor::on_death(ExtentId id, Bytes bytes) {
  for (PilotPredictor& blank : blank_) blank.on_death(id, bytes);
  Seen& s = seen(id);
  uses_.die(id);
  alive_ -= bytes;
  if (shared(id)) {
    pooled_died_ += bytes;
    habits_.die(id);
  } else {
    const ThingId thing = thing_of(id);
    died_bytes_ += bytes;
    if (thing != kNobody) deaths_.push_back(thing);
    if (thing != kNobody && s.transient) instances_.remove(thing, id);
    tokens_.on_death(id);
  }
  plan_.bury(id);
  s = {};
}

void PilotPredictor::on_step(Nanos now) {
  for (PilotPredictor& blank : blank_) blank.on_step(now);
  end_op(now);
  pass_to(step_node_);
  backward_ = false;
  tokens_.on_step();
  instances_.clear();
  uses_.clear();
  graph_.clear();
  trail_.begin_step();
  ++step_;
  asked_ = false;
  base_type_ = base_of_run_.type();
  for (Seen& s : seen_) s.transient = false;
  if (judging_) judge_model();
}

// The first step is told of what is made there once, too: so two are looked at.
void PilotPredictor::judge_model() {
  constexpr std::uint64_t kLeast = 50;  // percent: what networks have in common by chance is less, also several networks
  if (step_ < 3 || known_.ops == 0) return;
  judging_ = false;
  std::vector<PilotPredictor> blank = std::exchange(blank_, {});
  if (blank.empty()) return;
  known_.given_up = known_.known * 100 < known_.ops * kLeast;
  if (known_.given_up) begin_anew(std::move(blank.front()));
}

void PilotPredictor::watch_without_names() {
  PilotOptions options = options_;
  options.early = true;
  options.judge = false;
  options.share = 1U << 30;  // nobody asks it: hardly any plan is made
  blank_.clear();
  PilotPredictor& blank = blank_.emplace_back(*table_, options);
  blank.chooser_ = chooser_;
  blank.chooser_.keep_what_has_no_names();
}

void PilotPredictor::begin_anew(PilotPredictor&& blank) {
  blank.options_ = options_;
  blank.known_ = known_;
  blank.score_ = score_;
  blank.credit_ = credit_;
  *this = std::move(blank);
  rekeyed_ = true;
}

void PilotPredictor::forget_network() {
  network_ = Network{};
  chooser_.keep_what_has_no_names();
  base_ = base_of_run_ = BaseTypeScale{};
  base_type_ = BaseType::kPlain;
  sample_ = Sample{};
  trail_ = Trail{};
  plan_ = Plan{};
  instances_.clear();
  uses_.clear();
  habits_.clear();
  gaps_.clear();
  graph_.clear();
  operands_.clear();
  sharing_.clear();
  things_.clear();
  deaths_.clear();
  births_ = 0;
  died_bytes_ = pooled_ = pooled_died_ = 0;
  backward_ = aged_backward_ = false;
  for (Seen& s : seen_) {
    s.thing_step = 0;
    s.thing = kNobody;  // it is asked before it is looked up anew: of gaps
  }
  step_node_ = running_ = network_.node(kStepEnds, false);
  plan_ops_ = kPlanOpsMin;
  surprised_soon_ = lost_soon_ = 0;
  on_plan_ = false;
  rekeyed_ = true;
}

void PilotPredictor::forget_all() {
  forget_network();
  chooser_ = Chooser(options_.chooser);
}

ModelFacts PilotPredictor::facts() const {
  return {network_.nodes(),     network_.things(), network_.classes(), chooser_.contexts(),
          chooser_.kinds(), sample_.rows(),       plan_ops_,         base_.type(),       network_.idioms()};
}

void PilotPredictor::on_sample(std::span<const std::int64_t> sample) {
  for (PilotPredictor& blank : blank_) blank.on_sample(sample);
  sample_.read(sample);
  trail_.begin_sample();
  surprised_soon_ = lost_soon_ = 0;
  // Now it is worth most; but samples may come more often than plans can be paid for.
  if (!affordable() || plan_ops_ < kPlanOpsMin) plan_ops_ = kPlanOpsMin;
  if (credit_ > -kCreditMax / 2) return make_plan(false);
  lost_ = options_.lost;
  left_at_ = ops_;
}

Position PilotPredictor::next_use(ExtentId id) const {
  if (id >= seen_.size()) return plan_.next_use(id);
  const Seen& s = seen_[id];
  const Position by_age = 2 * aged_ - s.used_at;
  if (wanted_at_once(id)) return by_age - Plan::kToldAgain;  // so that it is not behind position()
  const Position planned = plan_.next_use(id);
  if (planned != kNever) return planned;
  const Position age = aged_ - std::min(s.used_at, aged_), end = std::max(plan_.end(), aged_);
  if (shared(id)) {  // forward's is wanted when backward returns; what backward has begun to use it goes on with
    return aged_backward_ ? by_age : end + age / 16;
  }
  if (s.transient) {  // born after the plan was made, or of a way that was not foreseen
    const Position more = gaps_.beyond(s.thing, age);
    return more > 0 ? std::max(aged_, s.used_at) + more : end + age / 16;
  }
  // Not used as long as the plan goes on: or it would tell.
  const Position from = std::max(end, s.used_at);
  if (const Position more = gaps_.beyond(s.thing, from - s.used_at); more > 0) return from + more;
  return std::max(by_age, end) + age / 16;
}

// What never was alive together is not expected to be: where paths vary, births of one and deaths of another do not
// add up, and room would be made that nobody needs.
std::size_t PilotPredictor::upcoming(std::span<Upcoming> out) const {
  const std::size_t count = plan_.upcoming(out);
  for (Upcoming& next : out.first(count)) next.demand = std::min(next.demand, alive_peak_ - alive_);
  return count;
}

Bytes PilotPredictor::demand_within(Nanos nanos) const {
  return std::min(plan_.demand_within(nanos), alive_peak_ - alive_);
}

}  // namespace outsize::pilot
