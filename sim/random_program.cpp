#include "sim/random_program.h"

#include <algorithm>

#include "sim/random.h"

namespace outsize::sim {
namespace {

class Writer {
 public:
  Writer(const RandomProgramOptions& options, Program& program, Random& random)
      : options_(options), program_(program), random_(random) {}

  void thread(std::vector<ObjectId> shared, Nanos start) {
    program_.threads.emplace_back();
    shared_ = std::move(shared);
    work(start);
    for (int i = 0; i < options_.actions; ++i) outermost();
    while (!pinned_.empty()) unpin();
  }
  // Shared objects: they live from the start to the end.
  std::vector<ObjectId> adopt_shared() {
    std::vector<ObjectId> shared;
    const auto count = random_.between(0, 5);
    for (std::int64_t i = 0; i < count; ++i) shared.push_back(adopt(!options_.adopt_beyond || random_.chance(50)));
    return shared;
  }
  void begin_thread() { program_.threads.emplace_back(); }

 private:
  Action& add(Action::Kind kind) {
    Action& action = program_.threads.back().emplace_back();
    action.kind = kind;
    return action;
  }
  void work(Nanos duration) { add(Action::Kind::kWork).duration = duration; }
  Bytes size() {
    if (random_.chance(options_.big_percent)) return options_.budget * random_.between(20, 110) / 100;
    return std::max<Bytes>(kPageBytes, options_.budget * random_.between(1, 16) / 100);
  }
  ObjectId new_object() { return program_.objects++; }

  ObjectId adopt(bool absent) {
    Action& action = add(Action::Kind::kAdopt);
    action.object = new_object();
    action.bytes = size();
    action.flag = absent;
    return action.object;
  }
  void birth() {
    Action& action = add(Action::Kind::kBirth);
    action.object = new_object();
    action.bytes = size();
    alive_.push_back(action.object);
    if (!random_.chance(30)) return;
    action.bytes = kSharedBytes;
    action.flag = true;
    const ObjectId object = action.object;
    add(Action::Kind::kShare).object = object;
  }
  bool may_die(ObjectId object) const {
    return std::find(pinned_.begin(), pinned_.end(), object) == pinned_.end();
  }
  void death() {
    if (alive_.empty()) return;
    const std::size_t at = random_.below(alive_.size());
    if (!may_die(alive_[at])) return;
    add(Action::Kind::kDeath).object = alive_[at];
    alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  // Old and young objects both.
  bool pick(ObjectId& object) {
    if (!shared_.empty() && random_.chance(25)) {
      object = shared_[random_.below(shared_.size())];
      return true;
    }
    if (alive_.empty()) return false;
    const std::size_t window = random_.chance(50) ? std::min<std::size_t>(4, alive_.size()) : alive_.size();
    object = alive_[alive_.size() - 1 - random_.below(window)];
    return true;
  }
  void on_some(Action::Kind kind) {
    ObjectId object = 0;
    if (!pick(object)) return;
    Action& action = add(kind);
    action.object = object;
    action.flag = random_.chance(40);
  }
  void pin() {
    ObjectId object = 0;
    if (!pick(object) || !pinned_.empty()) return;
    add(Action::Kind::kPin).object = object;
    pinned_.push_back(object);
  }
  void unpin() {
    if (pinned_.empty()) return;
    add(Action::Kind::kUnpin).object = pinned_.back();
    pinned_.pop_back();
  }

  void op(int depth) {
    Action begin;
    begin.kind = Action::Kind::kOpBegin;
    begin.site = 1 + random_.below(12);
    begin.in_backward = random_.chance(30);
    const auto count = random_.chance(4) ? random_.between(10, 30) : random_.between(0, 4);
    for (std::int64_t i = 0; i < count; ++i) {
      ObjectId object = 0;
      if (!pick(object)) break;
      const Access access = random_.chance(35) ? Access::kWrite : Access::kRead;
      begin.operands.push_back({object, access});
      if (random_.chance(10)) begin.operands.push_back({object, Access::kWrite});
    }
    program_.threads.back().push_back(begin);
    const std::size_t older = alive_.size();
    const bool composite = depth == 0 && random_.chance(4);
    const auto inner = composite ? random_.between(20, 60) : random_.between(0, depth > 0 ? 3 : 5);
    for (std::int64_t i = 0; i < inner; ++i) {
      if (composite && random_.chance(70)) {
        bearing_op();
      } else {
        inside(depth, older);
      }
    }
    work(random_.between(1, 4'000'000));
    add(Action::Kind::kOpEnd).flag = random_.chance(60);
  }
  // What composite ops are made of.
  void bearing_op() {
    Action& begin = add(Action::Kind::kOpBegin);
    begin.site = 13 + random_.below(4);
    ObjectId object = 0;
    if (pick(object)) begin.operands.push_back({object, Access::kRead});
    Action& action = add(Action::Kind::kBirth);
    action.object = new_object();
    action.bytes = std::max<Bytes>(kPageBytes, options_.budget * random_.between(1, 6) / 100);
    alive_.push_back(action.object);
    add(Action::Kind::kOpEnd);
  }
  void inside(int depth, std::size_t older) {
    const auto dice = random_.below(100);
    if (dice < 40) return birth();
    if (dice < 60 && depth < 3) return op(depth + 1);
    if (dice < 70) return on_some(Action::Kind::kShare);
    if (dice < 85 && alive_.size() > older) {  // temporaries
      add(Action::Kind::kDeath).object = alive_.back();
      alive_.pop_back();
      return;
    }
    if (dice < 87) return death();
    if (dice < 87 + static_cast<unsigned>(options_.raw_percent) / 2) return on_some(Action::Kind::kRawAccess);
    work(random_.between(1, 500'000));
  }
  void outermost() {
    const auto dice = random_.below(100);
    if (dice < static_cast<unsigned>(options_.raw_percent)) {
      return on_some(random_.chance(70) ? Action::Kind::kRawAccess : Action::Kind::kExpose);
    }
    if (dice < 62) return op(0);
    if (dice < 72) return birth();
    if (dice < 84 || alive_.size() > 60) return death();
    if (dice < 87) return on_some(Action::Kind::kShare);
    if (dice < 90) {
      add(Action::Kind::kStep);
      return;
    }
    if (dice < 92) {
      alive_.push_back(adopt(!options_.adopt_beyond || random_.chance(60)));
      return;
    }
    if (dice < 94 && options_.pins) return random_.chance(50) ? pin() : unpin();
    if (dice < 95 && options_.change_budget) {
      add(Action::Kind::kBudget).bytes = options_.budget * random_.between(60, 120) / 100;
      return;
    }
    if (options_.hints && random_.chance(70)) return on_some(Action::Kind::kHint);
    work(random_.between(1, 3'000'000));
  }

  const RandomProgramOptions& options_;
  Program& program_;
  Random& random_;
  std::vector<ObjectId> shared_, alive_, pinned_;
};

// The outermost actions again, with new objects for those born in it: what a training loop does.
void repeat_steps(Program& program, int times) {
  for (auto& actions : program.threads) {
    const std::vector<Action> once = actions;
    std::vector<bool> born(program.objects, false), dies(program.objects, false);
    for (const Action& action : once) {
      if (action.kind == Action::Kind::kBirth || action.kind == Action::Kind::kAdopt) born[action.object] = true;
      if (action.kind == Action::Kind::kDeath) dies[action.object] = true;
    }
    const ObjectId fresh = program.objects;
    auto end_step = [&](ObjectId shift) {  // what the step leaves behind dies, as gradients do
      for (ObjectId object = 0; object < fresh; ++object) {
        if (!born[object] || dies[object]) continue;
        actions.emplace_back().kind = Action::Kind::kDeath;
        actions.back().object = object + shift;
      }
      actions.emplace_back().kind = Action::Kind::kStep;
    };
    end_step(0);
    for (int i = 1; i < times; ++i) {
      const ObjectId shift = program.objects;
      program.objects += fresh;
      auto moved = [&](ObjectId object) { return born[object] ? object + shift : object; };
      for (Action action : once) {
        action.object = moved(action.object);
        for (ObjectRef& ref : action.operands) ref.object = moved(ref.object);
        actions.push_back(std::move(action));
      }
      end_step(shift);
    }
  }
}

}  // namespace

Program random_program(const RandomProgramOptions& options) {
  Program program;
  Random random(options.seed);
  Writer first(options, program, random);
  first.begin_thread();
  const std::vector<ObjectId> shared = first.adopt_shared();
  const std::vector<Action> prelude = std::move(program.threads.back());
  program.threads.clear();
  for (int i = 0; i < options.threads; ++i) {
    Writer writer(options, program, random);
    writer.thread(shared, random.between(1, 1000));
  }
  if (options.repeats) repeat_steps(program, 6);
  auto& main = program.threads.front();
  main.insert(main.begin(), prelude.begin(), prelude.end());
  return program;
}

FuzzCase fuzz_case(std::uint64_t seed) {
  Random random(seed * 7919 + 13);
  FuzzCase out;
  RandomProgramOptions& program = out.program;
  program.seed = seed;
  program.budget = random.between(4, 200) * kMiB;
  program.threads = static_cast<int>(random.between(1, 4));
  program.actions = static_cast<int>(random.between(10, 90));
  program.raw_percent = random.chance(40) ? 0 : 8;
  program.big_percent = random.chance(50) ? 0 : 4;
  program.pins = random.chance(25);
  program.adopt_beyond = random.chance(30);
  program.change_budget = random.chance(15);
  program.repeats = random.chance(30);
  if (program.repeats) program.actions = std::min(program.actions, 40);
  if (program.repeats && random.chance(50)) program.threads = 1;  // so that a step is as the one before
  SimOptions& sim = out.sim;
  sim.budget = program.budget;
  const auto dice = random.below(100);
  sim.policy = dice < 25 ? "lookahead" : dice < 50 ? "weights" : dice < 70 ? "deepum" : dice < 85 ? "ondemand"
               : dice < 92 || program.threads > 1 ? "mad" : "oracle";
  sim.reading_max = random.chance(50) ? 64 * kMiB : program.budget / 8;
  sim.writing_max = random.chance(50) ? 64 * kMiB : program.budget / 8;
  sim.link.read_rate = random.between(1, 40) * 100'000'000;
  sim.link.write_rate = random.between(1, 40) * 100'000'000;
  sim.link.seed = seed;
  sim.link.slow_one_in = random.chance(40) ? 10 : 0;
  const bool faults = random.chance(30);
  sim.link.fail_one_in = faults ? static_cast<std::uint64_t>(random.between(2, 40)) : 0;
  sim.no_slot_one_in = faults && random.chance(50) ? static_cast<std::uint64_t>(random.between(3, 40)) : 0;
  program.hints = random.chance(40);
  if (random.chance(25)) sim.spill_limit = program.budget * random.between(2, 30) / 10;
  if (random.chance(40)) {
    sim.link.single_read_rate = random.between(1, 20) * 100'000'000;
    sim.link.single_write_rate = random.between(1, 20) * 100'000'000;
    sim.costs = {.page = 100, .fresh = 300'000, .fresh_huge = 50'000, .warm_huge = 20'000, .cold = 16 * kMiB,
                 .command = 10'000, .transfer = 40'000, .mebibyte = 20'000};
  }
  return out;
}

}  // namespace outsize::sim
