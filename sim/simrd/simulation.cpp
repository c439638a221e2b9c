#include "sim/simrd/simulation.h"

#include <algorithm>
#include <cmath>

namespace outsize::sim::simrd {
namespace {

constexpr unsigned kAskEvery = 4096;  // drops and actions between two looks at `cancelled`

class Simulation {
 public:
  Simulation(const Program& program, const RunOptions& options)
      : program_(program), options_(options), search_(options.policy, graph_) {
    made_in_.resize(program.tensors.size(), 0);
    last_op_.resize(program.storages.size(), kNoOp);
    life_.resize(program.storages.size(), 1);
    pins_.resize(program.storages.size(), 0);
    names_.resize(program.storages.size(), 0);
  }

  Outcome run();

 private:
  static constexpr OpId kNoOp = 0xffffffffU;
  // An op that waits for operands; `missing` of them, from `next` on, are to be computed again.
  struct Frame {
    TensorId tensor = 0;
    bool recompute = false;
    std::size_t missing = 0, next = 0;
  };

  const Op& op_of(TensorId tensor) const { return program_.ops[program_.tensors[tensor].op]; }
  StorageId storage_of(TensorId tensor) const { return program_.tensors[tensor].storage; }
  // A view is made by its own op and goes with its storage.
  bool is_there(TensorId tensor) const {
    const StorageId storage = storage_of(tensor);
    return graph_.resident(storage) && made_in_[tensor] == life_[storage];
  }
  void set_there(TensorId tensor) { made_in_[tensor] = life_[storage_of(tensor)]; }

  bool act(const Action& action);
  bool compute_first(OpId op);
  void begin_op(OpId op);
  bool materialize(TensorId tensor, bool recompute);
  void enter(TensorId tensor, bool recompute);
  bool finish(const Frame& frame);
  bool make_room(Bytes bytes);
  void run_op(TensorId tensor, bool recompute);
  void release(TensorId tensor);
  void keep(TensorId tensor);
  void pin(StorageId storage);
  void unpin(StorageId storage);
  void drop(StorageId storage);
  bool stop(Outcome::Status status) {
    outcome_.status = status;
    return false;
  }
  bool may_go_on();

  const Program& program_;
  const RunOptions& options_;
  dtr::StorageGraph graph_;
  dtr::VictimList droppable_;
  dtr::VictimSearch search_;
  Outcome outcome_;
  Nanos clock_ = 1;
  Bytes in_use_ = 0;
  unsigned until_ask_ = kAskEvery;

  std::vector<std::uint32_t> made_in_;  // by tensor: the life of its storage that it was made in
  std::vector<std::uint32_t> life_;     // by storage: grows when it is dropped
  std::vector<OpId> last_op_;           // by storage: the last op that made a tensor of it
  std::vector<std::int32_t> pins_;      // by storage
  std::vector<std::int64_t> names_;     // by storage
  std::vector<Frame> frames_;
  std::vector<TensorId> missing_;  // of all frames
  std::vector<StorageId> made_resident_, operand_storages_;
  dtr::Marks met_;
};

bool Simulation::may_go_on() {
  if (--until_ask_ > 0) return true;
  until_ask_ = kAskEvery;
  return !options_.cancelled || !options_.cancelled() || stop(Outcome::kCancelled);
}

Outcome Simulation::run() {
  for (const Action& action : program_.actions) {
    if (!may_go_on() || !act(action)) break;
  }
  outcome_.clock = clock_;
  outcome_.evaluations = search_.evaluations();
  return outcome_;
}

bool Simulation::act(const Action& action) {
  switch (action.kind) {
    case Action::kCompute:
      return compute_first(action.id);
    case Action::kShare:
      ++names_[storage_of(action.id)];
      return true;
    case Action::kRelease:
      release(action.id);
      return true;
    case Action::kKeep:
      if (!is_there(action.id) && !materialize(action.id, true)) return false;
      keep(action.id);
      return true;
  }
  return true;
}

// What is known of an op once it is asked for: its results are neighbours of its operands from now
// on, also while it waits.
void Simulation::begin_op(OpId id) {
  const Op& op = program_.ops[id];
  operand_storages_.clear();
  met_.clear();
  for (TensorId operand : program_.operands_of(op)) {
    const StorageId storage = storage_of(operand);
    if (met_.insert(storage)) operand_storages_.push_back(storage);
  }
  for (TensorId tensor = op.first_result; tensor < op.first_result + op.results; ++tensor) {
    const StorageId storage = storage_of(tensor);
    if (!program_.tensors[tensor].alias) {
      graph_.add(program_.storages[storage]);
      search_.added(storage);
    }
    ++names_[storage];
    if (last_op_[storage] == id) continue;  // a second view by the same op
    last_op_[storage] = id;
    graph_.facts(storage).compute += op.compute;
    for (StorageId operand : operand_storages_) graph_.connect(operand, storage);
  }
}

bool Simulation::compute_first(OpId id) {
  begin_op(id);
  const Op& op = program_.ops[id];
  if (!materialize(op.first_result, false)) return false;
  for (TensorId tensor = op.first_result; tensor < op.first_result + op.results; ++tensor) {
    graph_.facts(storage_of(tensor)).last_use = clock_;
  }
  return true;
}

// Recomputation can go as deep as the program is long: the frames are ours, not the machine's.
bool Simulation::materialize(TensorId tensor, bool recompute) {
  enter(tensor, recompute);
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    if (frame.next < missing_.size()) {
      const TensorId operand = missing_[frame.next];
      // It may have come back as another result of the same op.
      if (!is_there(operand)) {
        enter(operand, true);
        continue;
      }
      pin(storage_of(operand));
      ++frame.next;
      continue;
    }
    const Frame done = frame;
    frames_.pop_back();
    missing_.resize(done.missing);
    if (!finish(done)) return false;
  }
  return true;
}

void Simulation::enter(TensorId tensor, bool recompute) {
  const auto operands = program_.operands_of(op_of(tensor));
  for (TensorId operand : operands) graph_.facts(storage_of(operand)).last_use = clock_;
  const std::size_t missing = missing_.size();
  for (TensorId operand : operands) {
    if (is_there(operand)) {
      pin(storage_of(operand));
    } else {
      missing_.push_back(operand);
    }
  }
  frames_.push_back({tensor, recompute, missing, missing});
}

bool Simulation::finish(const Frame& frame) {
  const Op& op = op_of(frame.tensor);
  if (!make_room(op.bytes)) return false;
  run_op(frame.tensor, frame.recompute);
  for (TensorId operand : program_.operands_of(op)) unpin(storage_of(operand));
  if (outcome_.recompute > options_.recompute_limit) return stop(Outcome::kRecomputeExceeded);
  return true;
}

bool Simulation::make_room(Bytes bytes) {
  while (in_use_ + bytes > options_.budget) {
    if (droppable_.empty()) return stop(Outcome::kOutOfMemory);
    if (!may_go_on()) return false;
    drop(search_.choose(droppable_, clock_));
  }
  return true;
}

void Simulation::run_op(TensorId tensor, bool recompute) {
  const Op& op = op_of(tensor);
  clock_ += op.compute;
  (recompute ? outcome_.recompute : outcome_.compute) += op.compute;
  in_use_ += op.bytes;
  outcome_.peak = std::max(outcome_.peak, in_use_);
  // The result that was asked for comes last: this is the order in which they become droppable.
  made_resident_.clear();
  auto made = [&](TensorId result) {
    const StorageId storage = storage_of(result);
    if (!graph_.resident(storage)) made_resident_.push_back(storage);
  };
  Bytes twice = 0;
  for (TensorId other = op.first_result; other < op.first_result + op.results; ++other) {
    if (other == tensor) continue;
    if (is_there(other)) twice += program_.tensors[other].bytes;
    made(other);
  }
  made(tensor);
  in_use_ -= twice;
  for (StorageId storage : made_resident_) graph_.set_resident(storage, true);
  for (TensorId result = op.first_result; result < op.first_result + op.results; ++result) {
    set_there(result);
  }
  for (StorageId storage : made_resident_) droppable_.append(storage);
  search_.computed(made_resident_);
}

void Simulation::release(TensorId tensor) {
  const StorageId storage = storage_of(tensor);
  if (--names_[storage] == 0 && graph_.resident(storage) && !graph_.kept(storage)) drop(storage);
}

void Simulation::keep(TensorId tensor) {
  const StorageId storage = storage_of(tensor);
  if (graph_.kept(storage)) return;
  pin(storage);
  graph_.keep(storage);
}

void Simulation::pin(StorageId storage) {
  if (pins_[storage]++ == 0) droppable_.remove(storage);
}

void Simulation::unpin(StorageId storage) {
  if (--pins_[storage] == 0) droppable_.append(storage);
}

void Simulation::drop(StorageId storage) {
  graph_.set_resident(storage, false);
  ++life_[storage];
  in_use_ -= program_.storages[storage];
  droppable_.remove(storage);
  search_.dropped(storage);
}

}  // namespace

const char* to_string(Outcome::Status status) {
  switch (status) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kOutOfMemory:
      return "oom";
    case Outcome::kRecomputeExceeded:
      return "remat_exceeded";
    case Outcome::kCancelled:
      return "cancelled";
  }
  return "";
}

Outcome simulate(const Program& program, const RunOptions& options) {
  return Simulation(program, options).run();
}

Result<RunOptions> options_for(const Program& program, const dtr::Policy& policy, double ratio) {
  if (!(ratio > 0.0) || !(ratio <= 8.0)) {
    return Error{ErrorCode::kInvalidArgument, "The ratio is not above 0 and at most 8.", "", ""};
  }
  RunOptions options;
  options.policy = policy;
  options.budget = static_cast<Bytes>(static_cast<double>(program.peak) * ratio);
  options.recompute_limit = program.compute;
  return options;
}

}  // namespace outsize::sim::simrd
