#include "sim/oracle.h"

#include <algorithm>

#include "planners/lookahead/lookahead.h"
#include "predictors/steps/step_record.h"

namespace outsize::sim {
namespace {

using steps::kNone;

// a * b / c, whose product may need more than 64 bits.
Nanos scaled(Nanos a, Nanos b, Nanos c) { return static_cast<Nanos>(static_cast<__int128>(a) * b / c); }

bool begins_op(const Action& action) {
  return action.kind == Action::Kind::kOpBegin || action.kind == Action::Kind::kPin;
}

// Ops are counted as the engine counts them; a pin is one. What a raw access touches is a use of the op
// that comes next: until then it should stay.
class OraclePredictor final : public Predictor {
 public:
  OraclePredictor(const std::vector<Action>& actions, ObjectId objects, const Cast& cast);

  const char* name() const override { return "oracle"; }
  void on_op(const OpEvent& op) override;
  void on_birth(ExtentId, Bytes) override {}
  void on_death(ExtentId, Bytes) override {}
  void on_step(Nanos) override {}
  Position position() const override { return now(); }
  Position next_use(ExtentId id) const override;
  std::size_t upcoming(std::span<Upcoming> out) const override;
  Bytes demand_within(Nanos nanos) const override;
  bool take_rekeyed() override { return false; }

 private:
  // Bytes born and died from some point on until the next op.
  struct Change {
    Bytes births = 0, deaths = 0;
  };
  void begin_op(Nanos at);
  void note(const Action& action);
  Change change(const Action& action) const;
  Change left_of_op() const { return cast_.action < left_.size() ? left_[cast_.action] : Change{}; }
  Nanos here() const { return now() < run_.size() ? run_.ops[now()].at : run_.end; }
  // The program's times know no waits; what comes is as much later as what was came later than they say.
  Nanos lasting(Nanos nanos) const { return scaled(nanos, std::max(took_, should_take_), std::max<Nanos>(should_take_, 1)); }
  // The engine may begin to watch in the middle of an op.
  std::uint32_t now() const { return std::max(position_, op_at_[cast_.action]); }

  const Cast& cast_;
  steps::StepRecord run_;            // the whole program as one step
  std::vector<Change> changes_;       // by op: in it and after it
  std::vector<Change> left_;          // by action: from there on
  std::vector<std::uint32_t> op_at_;  // by action: ops that began before it
  std::vector<std::uint32_t> raw_;    // while it is built: what raw accesses touched since the last op
  std::uint32_t position_ = 0;
  bool began_ = false;
  Nanos since_ = 0, at_ = 0;          // the first op that was seen: when it began, and when it should have
  Nanos took_ = 0, should_take_ = 0;  // what has run since
};

void OraclePredictor::on_op(const OpEvent& op) {
  const std::uint32_t running = op_at_[cast_.action];
  position_ = running + 1;
  if (!began_) {
    began_ = true;
    since_ = op.now;
    at_ = run_.ops[running].at;
  }
  took_ = op.now - since_;
  should_take_ = run_.ops[running].at - at_;
}

OraclePredictor::OraclePredictor(const std::vector<Action>& actions, ObjectId objects, const Cast& cast)
    : cast_(cast) {
  run_.clear(0);
  for (ObjectId object = 0; object < objects; ++object) run_.add_object({0, kNone, kNone, kNone});
  op_at_.reserve(actions.size());
  Nanos time = 0;
  for (const Action& action : actions) {
    op_at_.push_back(run_.size());
    if (action.kind == Action::Kind::kWork) time += action.duration;
    if (begins_op(action)) begin_op(time);
    note(action);
  }
  op_at_.push_back(run_.size());
  begin_op(time);  // for raw accesses behind the last op
  run_.finish(time);
  left_.resize(actions.size());
  Change left;
  for (std::size_t at = actions.size(); at-- > 0;) {
    const Change here = change(actions[at]);
    left = begins_op(actions[at]) ? Change{} : Change{left.births + here.births, left.deaths + here.deaths};
    left_[at] = left;
  }
}

OraclePredictor::Change OraclePredictor::change(const Action& action) const {
  if (action.kind == Action::Kind::kBirth) return {action.bytes, 0};
  if (action.kind == Action::Kind::kDeath) return {0, run_.objects[action.object].bytes};
  return {};
}

void OraclePredictor::begin_op(Nanos at) {
  run_.ops.push_back({0, at, static_cast<std::uint32_t>(run_.accesses.size()), 0, 0});
  changes_.emplace_back();
  run_.accesses.insert(run_.accesses.end(), raw_.begin(), raw_.end());
  raw_.clear();
}

void OraclePredictor::note(const Action& action) {
  const std::uint32_t op = run_.size() - 1;  // before the first: none, and nothing is foreseen there
  steps::ObjectRecord* object = action.object < run_.objects.size() ? &run_.objects[action.object] : nullptr;
  switch (action.kind) {
    case Action::Kind::kOpBegin:
      for (const ObjectRef& ref : action.operands) run_.accesses.push_back(ref.object);
      break;
    case Action::Kind::kPin: run_.accesses.push_back(action.object); break;
    case Action::Kind::kRawAccess: raw_.push_back(action.object); break;
    case Action::Kind::kBirth:
    case Action::Kind::kAdopt:
      object->bytes = action.bytes;
      break;
    case Action::Kind::kDeath: object->death_op = op == kNone ? 0 : op; break;
    default: break;
  }
  if (op == kNone) return;
  changes_[op].births += change(action).births;
  changes_[op].deaths += change(action).deaths;
}

Position OraclePredictor::next_use(ExtentId id) const {
  const ObjectId object = cast_.objects[id];
  const std::uint32_t use = run_.use_from(object, now());
  if (use != kNone) return use;
  // It will go by itself then, at no cost.
  const std::uint32_t death = run_.objects[object].death_op;
  return death == kNone ? kNever : std::max(death, now());
}

std::size_t OraclePredictor::upcoming(std::span<Upcoming> out) const {
  constexpr std::uint32_t kAccessesMax = 16384;  // looked at in one go, as `repeat` does
  std::size_t count = 0;
  std::uint32_t looked = 0;
  Bytes most = left_of_op().births, born = most - left_of_op().deaths;
  for (std::uint32_t op = now(); op < run_.size() && looked < kAccessesMax; ++op) {
    for (std::uint32_t i = run_.ops[op].first_access; i < run_.accesses_end(op); ++i, ++looked) {
      const std::uint32_t before = run_.previous_use(i);
      const ExtentId id = cast_.extents[run_.accesses[i]];
      if (id == kNoExtent || (before != kNone && before >= now())) continue;
      if (count == out.size()) return count;
      out[count++] = {id, op, lasting(run_.ops[op].at - here()), most};
    }
    born += changes_[op].births;
    most = std::max(most, born);
    born -= changes_[op].deaths;
  }
  return count;
}

Bytes OraclePredictor::demand_within(Nanos nanos) const {
  Bytes most = left_of_op().births, born = most - left_of_op().deaths;
  for (std::uint32_t op = now(); op < run_.size() && lasting(run_.ops[op].at - here()) <= nanos; ++op) {
    born += changes_[op].births;
    most = std::max(most, born);
    born -= changes_[op].deaths;
  }
  return most;
}

}  // namespace

Policy make_oracle_policy(const ExtentTable& table, const Program& program, const Cast& cast) {
  auto predictor = std::make_unique<OraclePredictor>(program.threads.at(0), program.objects, cast);
  auto planner = std::make_unique<lookahead::LookaheadPlanner>(table, *predictor);
  return {std::move(predictor), std::move(planner)};
}

}  // namespace outsize::sim
