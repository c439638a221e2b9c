#include "sim/pilot_training.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "predictors/pilot/pilot.h"

namespace outsize::sim {
namespace {

pilot::PilotOptions options() {
  pilot::PilotOptions options;
  options.early = true;    // as a run that loads what is learnt names ops
  options.judge = false;   // several networks may be learnt
  options.share = 1U << 30;  // plans teach nothing: hardly any is made
  return options;
}

// Goes through a program as the driver would with room for all.
class Walk {
 public:
  Walk(const Program& program, ExtentTable& table)
      : program_(program), table_(table), extents_(program.objects, kNoExtent), threads_(program.threads.size()) {}

  // To the end of `steps` more steps, or to the program's end; false there.
  bool go(std::uint64_t steps, std::span<pilot::PilotPredictor* const> told, const std::function<bool()>& cancelled) {
    constexpr std::uint64_t kAskEvery = 65536;  // actions
    const std::uint64_t until = steps_ + steps;
    while (steps_ < until) {
      Thread* const t = next();
      if (t == nullptr) return false;
      if (++actions_ % kAskEvery == 0 && cancelled && cancelled()) return false;
      act(*t, program_.threads[static_cast<std::size_t>(t - threads_.data())][t->at++], told);
    }
    return true;
  }
  std::uint64_t ops() const { return ops_; }
  std::uint64_t steps() const { return steps_; }
  std::uint64_t samples() const { return samples_; }

 private:
  struct Thread {
    std::size_t at = 0;
    Nanos time = 0;
  };
  using Told = std::span<pilot::PilotPredictor* const>;

  Thread* next() {
    Thread* first = nullptr;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      Thread& t = threads_[i];
      if (t.at < program_.threads[i].size() && (first == nullptr || t.time < first->time)) first = &t;
    }
    return first;
  }
  ExtentId take(const Action& action) {
    ExtentId id = next_;
    if (free_.empty()) {
      ++next_;
    } else {
      id = free_.back();
      free_.pop_back();
    }
    table_.ensure(id);
    table_[id] = Extent{};
    table_[id].bytes = action.bytes;
    table_[id].where = Where::kResident;
    return extents_[action.object] = id;
  }
  void act(Thread& t, const Action& action, Told told) {
    switch (action.kind) {
      case Action::Kind::kWork: t.time += action.duration; break;
      case Action::Kind::kOpBegin: op(t, action, told); break;
      case Action::Kind::kAdopt: take(action); break;  // nobody is told
      case Action::Kind::kBirth: {
        const ExtentId id = take(action);
        table_[id].shared = action.flag;
        for (pilot::PilotPredictor* const each : told) each->on_birth(id, action.bytes);
        break;
      }
      case Action::Kind::kDeath: death(action, told); break;
      case Action::Kind::kSample:
        ++samples_;
        for (pilot::PilotPredictor* const each : told) each->on_sample(action.sample);
        break;
      case Action::Kind::kStep:
        ++steps_;
        for (pilot::PilotPredictor* const each : told) each->on_step(t.time);
        break;
      default: break;
    }
  }
  void op(const Thread& t, const Action& action, Told told) {
    ++ops_;
    operands_.clear();
    for (const ObjectRef& ref : action.operands) {
      const ExtentId id = extents_[ref.object];
      const bool known = std::find(operands_.begin(), operands_.end(), id) != operands_.end();
      if (id != kNoExtent && !known) operands_.push_back(id);
    }
    const OpEvent event{action.site, operands_, action.in_backward, t.time, {}, action.graph};
    for (pilot::PilotPredictor* const each : told) each->on_op(event);
  }
  void death(const Action& action, Told told) {
    const ExtentId id = std::exchange(extents_[action.object], kNoExtent);
    if (id == kNoExtent) return;
    for (pilot::PilotPredictor* const each : told) each->on_death(id, table_[id].bytes);
    table_[id] = Extent{};
    free_.push_back(id);
  }

  const Program& program_;
  ExtentTable& table_;
  std::vector<ExtentId> extents_;  // by object
  std::vector<Thread> threads_;
  std::vector<ExtentId> free_, operands_;
  ExtentId next_ = 0;
  std::uint64_t steps_ = 0, ops_ = 0, samples_ = 0, actions_ = 0;
};

std::uint64_t steps_of(const Program& program) {
  const auto is_step = [](const Action& action) { return action.kind == Action::Kind::kStep; };
  std::int64_t steps = 0;
  for (const std::vector<Action>& actions : program.threads) steps += std::ranges::count_if(actions, is_step);
  return static_cast<std::uint64_t>(steps);
}

}  // namespace

Status PilotTraining::begin_with(std::string_view model) {
  if (auto facts = pilot::model_facts(model); !facts) return facts.error();
  model_ = model;
  return {};
}

Taught PilotTraining::learn(const Program& program, unsigned held_out, const std::function<bool()>& cancelled) {
  ExtentTable table;
  auto pilot = std::make_unique<pilot::PilotPredictor>(table, options());
  if (!model_.empty() && !pilot->begin_with(model_)) return {};  // it was checked when it came
  const std::uint64_t steps = steps_of(program), held = steps * std::min(held_out, 100U) / 100;
  Walk walk(program, table);
  // Where nothing is held out, what follows the last step is of no step.
  walk.go(steps - held, std::array{pilot.get()}, cancelled);
  Taught taught{.steps = walk.steps(), .ops = walk.ops(), .samples = walk.samples(), .held_steps = held};
  if (cancelled && cancelled()) return {};
  std::string model = pilot->learnt();
  if (held > 0) {
    auto blank = std::make_unique<pilot::PilotPredictor>(*pilot);
    blank->forget_all();
    const pilot::Chooser::Score had = pilot->score().choices, none = blank->score().choices;
    walk.go(held, std::array{pilot.get(), blank.get()}, cancelled);
    if (cancelled && cancelled()) return {};
    const pilot::Chooser::Score after = pilot->score().choices, before = blank->score().choices;
    taught.choices = after.choices - had.choices;
    taught.right_after = after.right - had.right;
    taught.choices_before = before.choices - none.choices;
    taught.right_before = before.right - none.right;
  }
  model_ = std::move(model);
  return taught;
}

}  // namespace outsize::sim
