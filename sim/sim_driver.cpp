#include "sim/sim_driver.h"

#include <algorithm>
#include <utility>

#include "sim/mad_policy.h"
#include "sim/oracle.h"

namespace outsize::sim {
namespace {

constexpr unsigned kAskEvery = 1024;  // turns between two looks at `cancelled`

}  // namespace

SimDriver::SimDriver(const Program& program, const SimOptions& options)
    : program_(program), options_(options),
      log_([this](std::string_view line) { result_.log += line; }), checker_(options.budget),
      link_(options.link), work_(options.costs), random_(options.link.seed + 1) {
  objects_.resize(program.objects);
  Policy policy = this->policy();
  predictor_ = policy.predictor.get();
  EngineOptions engine_options;
  engine_options.budget = options.budget;
  engine_options.reading_max = options.reading_max;
  engine_options.writing_max = options.writing_max;
  engine_ = std::make_unique<Engine>(engine_options, std::move(policy.predictor),
                                     std::move(policy.planner), table_);
  if (options.keep_log) {
    log_.header(options.policy, options.budget, options.reading_max, options.writing_max, options.model_name);
    engine_->set_log(&log_);
  }
  timeline_ = options.timeline;
  threads_.resize(program.threads.size());
}

Policy SimDriver::policy() const {
  if (mad()) return make_mad_policy(table_, options_.link.seed);
  Beginning beginning{.model = options_.model};
  if (options_.policy == "oracle") beginning.recording = recording_of(program_);
  return make_policy(options_.policy, table_, std::move(beginning));
}

SimDriver::~SimDriver() = default;

SimResult SimDriver::run() {
  for (unsigned turn = 1; !result_.fatal; ++turn) {
    if (turn % kAskEvery == 0 && options_.cancelled && options_.cancelled()) {
      result_.cancelled = true;
      result_.stats = engine_->stats();
      return std::move(result_);
    }
    for (; !late_.empty(); late_.pop_back()) death(*late_.back());
    ThreadId next = 0;
    bool ready = false, done = true;
    for (ThreadId id = 0; id < threads_.size(); ++id) {
      done = done && threads_[id].state == State::kDone;
      if (threads_[id].state != State::kReady) continue;
      if (!ready || threads_[id].time < threads_[next].time) next = id;
      ready = true;
    }
    if (done) break;
    if (link_.busy() && (!ready || link_.next_end() <= threads_[next].time)) {
      if (!ready) link_.nobody_works(link_.next_end() - now_);
      finish_transfer();
      continue;
    }
    if (!ready) {
      problem("every thread waits and nothing moves");
      break;
    }
    now_ = std::max(now_, threads_[next].time);
    act(next);
  }
  for (const Thread& t : threads_) result_.time = std::max(result_.time, t.time);
  settle();
  if (!result_.fatal) judge_rights();
  result_.stats = engine_->stats();
  result_.foresight = engine_->foresight();
  result_.recognized = predictor_->recognized();
  result_.peak = checker_.resident_peak();
  for (const std::string& violation : checker_.violations()) problem(violation);
  if (options_.judge && !result_.fatal && checker_.resident() != engine_->stats().resident) {
    problem("the judge counts " + std::to_string(checker_.resident()) + " resident bytes, the engine " +
            std::to_string(engine_->stats().resident));
  }
  judge_prefetches();
  return std::move(result_);
}

// Every byte that came ahead of need was used, went, or is waiting here.
void SimDriver::judge_prefetches() {
  const EngineStats& stats = engine_->stats();
  Bytes foreseen = 0, hinted = 0;
  for (ExtentId id = 0; id < table_.size(); ++id) {
    const Extent& e = table_[id];
    if (e.prefetched != Prefetched::kNo) (e.prefetched == Prefetched::kForeseen ? foreseen : hinted) += e.bytes;
  }
  if (stats.prefetched == stats.prefetch_hit + stats.prefetch_missed + foreseen + hinted &&
      engine_->foreseen().open == foreseen) {
    return;
  }
  problem("of " + std::to_string(stats.prefetched) + " prefetched bytes " + std::to_string(stats.prefetch_hit) +
          " were used and " + std::to_string(stats.prefetch_missed) + " not, " + std::to_string(foreseen) +
          " that were foreseen (the account says " + std::to_string(engine_->foreseen().open) + ") and " +
          std::to_string(hinted) + " that were hinted wait");
}

// Nobody runs any more; what a planner still moves must come to an end.
void SimDriver::settle() {
  std::size_t left = 100 + 4 * bytes_.size();
  while (link_.busy() && !result_.fatal) {
    if (left-- == 0) {
      if (mad()) return;
      problem("the planner moves bytes to and fro without end");
      return;
    }
    finish_transfer();
  }
}

void SimDriver::act(ThreadId id) {
  Thread& t = threads_[id];
  const auto& actions = program_.threads[id];
  if (t.at == actions.size()) {
    t.state = State::kDone;
    return;
  }
  const Action& action = actions[t.at];
  if (skipped(t, action) || perform(id, t, action)) ++t.at;
}

// Inside an op that was refused, or behind an allocation that was.
bool SimDriver::skipped(Thread& t, const Action& action) {
  if (t.skip == 0 && !t.skip_rest) return false;
  switch (action.kind) {
    case Action::Kind::kOpBegin: ++t.skip; return true;
    case Action::Kind::kOpEnd:
      if (t.skip > 0) {
        --t.skip;
        return true;
      }
      t.skip_rest = false;
      t.touched = 0;
      return false;
    case Action::Kind::kDeath:
    case Action::Kind::kUnpin:
    case Action::Kind::kStep:
    case Action::Kind::kSample:
    case Action::Kind::kBudget: return false;
    default: return true;
  }
}

// False where the action must be taken up again (a raw access had to wait) or the thread waits.
bool SimDriver::perform(ThreadId id, Thread& t, const Action& action) {
  Input input;
  input.thread = id;
  input.now = now_;
  switch (action.kind) {
    case Action::Kind::kOpBegin: return begin_op(id, t, action);
    case Action::Kind::kOpEnd: return end_op(id, t, action);
    case Action::Kind::kBirth: return birth(id, t, action);
    case Action::Kind::kPin: return pin(id, t, action);
    case Action::Kind::kWork: {
      const Nanos duration = action.duration + work_.owed();
      t.time = now_ + duration;
      if (timeline_) tell_work(t, duration);
      return true;
    }
    case Action::Kind::kAdopt: adopt(action); return true;
    case Action::Kind::kDeath: death(action); return true;
    case Action::Kind::kSample:
      input.thread = 0;  // of nobody's ops in particular
      input.kind = Input::Kind::kSample;
      input.sample = action.sample;
      feed(input);
      return true;
    case Action::Kind::kStep:
    case Action::Kind::kBudget: after_step(action); return true;
    default: break;
  }
  const ExtentId extent = extent_of(action.object);
  if (extent == kNoExtent) return true;
  input.extent = extent;
  switch (action.kind) {
    case Action::Kind::kRawAccess: return access(t, extent, action.flag);
    case Action::Kind::kExpose: input.kind = Input::Kind::kExpose; break;
    case Action::Kind::kHint:
      input.kind = Input::Kind::kHint;
      input.flag = action.flag;
      break;
    case Action::Kind::kUnpin:
      if (objects_[action.object].pins == 0) return true;  // the pin was refused
      --objects_[action.object].pins;
      input.kind = Input::Kind::kUnpin;
      break;
    default:  // kShare
      if (!memory_.cell(extent).resident) return true;
      input.kind = Input::Kind::kTouch;
      if (feed(input) == Outcome::kWait) return true;  // refused
      if (memory_.cell(extent).guarded) problem("a birth went into a guarded extent");
      memory_.change(extent);
      return true;
  }
  feed(input);
  return true;
}

bool SimDriver::begin_op(ThreadId id, Thread& t, const Action& action) {
  operands_.clear();
  for (const ObjectRef& ref : action.operands) {
    const ExtentId extent = extent_of(ref.object);
    if (extent != kNoExtent) operands_.push_back({extent, ref.access});
  }
  Input input;
  input.kind = Input::Kind::kOpBegin;
  input.thread = id;
  input.site = action.site;
  input.in_backward = action.in_backward;
  input.graph = action.graph;
  input.now = now_;
  input.operands = operands_;
  t.ops.push_back(t.at);
  t.state = State::kWaits;
  t.since = now_;
  if (feed(input) == Outcome::kGo) granted(id);
  if (timeline_) tell_wait(id);
  if (t.state == State::kReady) plan();
  return false;  // granted() and refused() move on
}

// The thread's op or allocation may go on.
void SimDriver::granted(ThreadId id) {
  Thread& t = threads_[id];
  const Action& action = program_.threads[id][t.at];
  result_.stall += now_ - t.since;
  if (timeline_) timeline_->goes_on(id, now_);
  t.state = State::kReady;
  t.time = now_;
  if (action.kind == Action::Kind::kPin) {
    t.pinning = true;
    return;
  }
  ++t.at;
  if (action.kind == Action::Kind::kBirth) {
    memory_.born(t.extent, false);
    take_pages(t.extent);
    objects_[action.object].extent = t.extent;
    counts(t.extent);
    if (objects_[action.object].dead) late_.push_back(&action);  // on another thread, which did not wait
    return;
  }
  op_runs(action);
}

void SimDriver::refused(ThreadId id, Refusal refusal) {
  Thread& t = threads_[id];
  if (program_.threads[id][t.at].kind == Action::Kind::kShare) {  // the op goes on without it
    ++result_.refused_budget;
    return;
  }
  const Action& action = program_.threads[id][t.at++];
  result_.stall += now_ - t.since;
  if (timeline_) timeline_->goes_on(id, now_);
  t.state = State::kReady;
  t.time = now_;
  ++(refusal == Refusal::kIo ? result_.refused_io : result_.refused_budget);
  if (action.kind == Action::Kind::kBirth) {
    free_ids_.push_back(t.extent);
    t.skip_rest = !t.ops.empty();
  } else if (action.kind == Action::Kind::kOpBegin) {
    t.ops.pop_back();
    ++t.skip;
  }
}

// Small storages that did not fit with the rest of an op: it reaches them through raw accesses.
bool SimDriver::loose(ExtentId extent) const {
  return table_[extent].shared && table_[extent].pins == 0;
}

// A kernel reads its operands as soon as it runs, and writes some.
void SimDriver::op_runs(const Action& action) {
  for (const ObjectRef& ref : action.operands) {
    const ExtentId extent = extent_of(ref.object);
    if (extent == kNoExtent || loose(extent)) continue;
    if (const char* wrong = memory_.wrong(extent)) {
      problem("an op began and for extent " + std::to_string(extent) + " " + wrong);
    }
  }
  for (const ObjectRef& ref : action.operands) {
    const ExtentId extent = extent_of(ref.object);
    if (extent == kNoExtent || ref.access == Access::kRead || loose(extent)) continue;
    if (memory_.cell(extent).guarded) problem("an op writes to a guarded extent");
    memory_.change(extent);
  }
}

bool SimDriver::end_op(ThreadId id, Thread& t, const Action& action) {
  if (t.ops.empty()) return true;
  const Action& begun = program_.threads[id][t.ops.back()];
  while (action.flag && t.touched < begun.operands.size()) {
    const ObjectRef ref = begun.operands[t.touched];
    const ExtentId extent = extent_of(ref.object);
    const std::int64_t faults = engine_->stats().faults;
    if (extent != kNoExtent && !access(t, extent, ref.access == Access::kWrite)) {
      ++result_.faults_in_ops;
      return false;
    }
    result_.faults_in_ops += engine_->stats().faults - faults;
    ++t.touched;
  }
  t.touched = 0;
  t.ops.pop_back();
  Input input;
  input.kind = Input::Kind::kOpEnd;
  input.thread = id;
  feed(input);
  return true;
}

bool SimDriver::birth(ThreadId id, Thread& t, const Action& action) {
  if (!room_below(action.bytes)) {
    t.extent = new_extent();
    t.since = now_;
    refused(id, Refusal::kIo);
    return false;
  }
  Input input;
  input.kind = Input::Kind::kAlloc;
  input.thread = id;
  input.extent = t.extent = new_extent();
  input.bytes = action.bytes;
  input.flag = action.flag;
  input.now = now_;
  bytes_[t.extent] = action.bytes;
  t.state = State::kWaits;
  t.since = now_;
  if (feed(input) == Outcome::kGo) granted(id);
  if (timeline_) tell_wait(id);
  return false;
}

void SimDriver::adopt(const Action& action) {
  Input input;
  input.kind = Input::Kind::kAdopt;
  input.extent = new_extent();
  input.bytes = action.bytes;
  input.flag = action.flag;
  bytes_[input.extent] = action.bytes;
  objects_[action.object].extent = input.extent;
  memory_.born(input.extent, action.flag);
  largest_ = std::max(largest_, action.bytes);
  if (action.flag) counts_file(input.extent, true);  // it needs no room of ours until it is changed
  else counts(input.extent);
  feed(input);
}

void SimDriver::death(const Action& action) {
  const ExtentId extent = extent_of(action.object);
  objects_[action.object].dead = true;
  if (extent == kNoExtent) return;
  objects_[action.object].extent = kNoExtent;
  if (counted_[extent]) alive_ -= bytes_[extent];
  counted_[extent] = false;
  counts_file(extent, false);
  Input input;
  input.kind = Input::Kind::kDeath;
  input.extent = extent;
  memory_.cell(extent).live = false;
  feed(input);
}

// As the live driver does: an op of its own makes the extent resident, a pin keeps it.
bool SimDriver::pin(ThreadId id, Thread& t, const Action& action) {
  const ExtentId extent = extent_of(action.object);
  if (extent == kNoExtent) return true;
  Input input;
  if (t.pinning) {
    t.pinning = false;
    ++objects_[action.object].pins;
    input.kind = Input::Kind::kPin;
    input.extent = extent;
    feed(input);
    input = Input{};
    input.kind = Input::Kind::kOpEnd;
    input.thread = id;
    feed(input);
    return true;
  }
  operands_.assign(1, {extent, Access::kWrite});
  input.kind = Input::Kind::kOpBegin;
  input.thread = id;
  input.now = now_;
  input.operands = operands_;
  t.extent = extent;
  t.state = State::kWaits;
  t.since = now_;
  if (feed(input) == Outcome::kGo) granted(id);
  if (timeline_) tell_wait(id);
  return false;
}

// A load or store that no dispatcher sees. False: it faulted and must be tried again.
bool SimDriver::access(Thread& t, ExtentId extent, bool write) {
  for (int attempt = 0; !memory_.reachable(extent, write); ++attempt) {
    const bool here = memory_.cell(extent).resident;
    if (here && attempt > 0) {
      problem("a write to guarded extent " + std::to_string(extent) + " was resumed without unguarding");
      return true;
    }
    t.state = State::kFaults;
    t.extent = extent;
    t.since = now_;
    Input input;
    input.kind = Input::Kind::kFault;
    input.extent = extent;
    input.flag = write;
    feed(input);
    if (t.state == State::kFaults) {
      if (timeline_) tell_raw_wait(t);
      return false;
    }
  }
  if (const char* wrong = memory_.wrong(extent)) {
    problem("a raw access came and for extent " + std::to_string(extent) + " " + wrong);
  }
  if (write) memory_.change(extent);
  return true;
}

void SimDriver::after_step(const Action& action) {
  Input input;
  input.now = now_;
  if (action.kind == Action::Kind::kBudget) {
    input.kind = Input::Kind::kBudget;
    input.bytes = action.bytes;
    feed(input);
    return;
  }
  input.kind = Input::Kind::kStep;
  feed(input);
  if (timeline_) timeline_->step(now_);
  result_.at_step.push_back(engine_->stats());
  result_.time_at_step.push_back(now_);
  result_.stall_at_step.push_back(result_.stall);
}

ExtentId SimDriver::new_extent() {
  if (free_ids_.empty()) {
    bytes_.push_back(0);
    counted_.push_back(false);
    staged_.push_back(false);
    of_file_.push_back(false);
    return static_cast<ExtentId>(bytes_.size() - 1);
  }
  const ExtentId id = free_ids_.back();
  free_ids_.pop_back();
  return id;
}

}  // namespace outsize::sim
