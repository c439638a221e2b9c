#include "sim/training_program.h"

#include <algorithm>
#include <utility>

#include "sim/random.h"

namespace outsize::sim {
namespace {

class Trainer {
 public:
  explicit Trainer(const TrainingOptions& options) : options_(options), random_(options.path_seed) {
    program_.threads.emplace_back();
  }

  Program run() {
    for (int layer = 0; layer < options_.layers; ++layer) {
      begin(1, {});
      weights_.push_back(birth(options_.weight));
      end();
    }
    grads_.assign(weights_.size(), kNoObject);
    states_.resize(weights_.size());
    for (int step = 0; step < options_.steps; ++step) {
      choose_path(step);
      if (!options_.grads_stay) zero_grad();
      if (options_.tells) tell(step);
      forward();
      backward();
      optimize();
      add(Action::Kind::kStep);
    }
    return std::move(program_);
  }

 private:
  static constexpr ObjectId kNoObject = ~ObjectId{0};

  Action& add(Action::Kind kind) {
    Action& action = program_.threads.back().emplace_back();
    action.kind = kind;
    return action;
  }
  void begin(SiteId site, std::vector<ObjectRef> operands, bool in_backward = false) {
    Action& action = add(Action::Kind::kOpBegin);
    action.site = site;
    action.operands = std::move(operands);
    action.in_backward = in_backward;
  }
  ObjectId birth(Bytes bytes) {
    Action& action = add(Action::Kind::kBirth);
    action.object = program_.objects++;
    action.bytes = bytes;
    return action.object;
  }
  void end() {
    add(Action::Kind::kWork).duration = options_.op_time;
    add(Action::Kind::kOpEnd).flag = true;
  }
  void death(ObjectId object) { add(Action::Kind::kDeath).object = object; }

  void choose_path(int step) {
    path_.clear();
    const int layers = options_.layers;
    if (options_.path_length != 0) return take_cells();
    if (options_.path_seed != 0) return take_any(layers - options_.skipped_layers);
    const bool changed = step == options_.changed_step;
    for (int i = 0; i < layers - (changed ? options_.skipped_layers : 0); ++i) {
      path_.push_back(changed ? (i * 7 + 3) % layers : i);
    }
  }
  // So many of all, each once.
  void take_any(int count) {
    for (int layer = 0; layer < options_.layers; ++layer) path_.push_back(layer);
    for (std::size_t i = path_.size(); i-- > 1;) std::swap(path_[i], path_[random_.below(i + 1)]);
    path_.resize(static_cast<std::size_t>(count));
  }
  void take_cells() {
    while (path_.size() < static_cast<std::size_t>(options_.path_length)) {
      int layer = 0;
      while (layer + 1 < options_.layers && random_.below(2) == 0) ++layer;
      path_.push_back(layer);
    }
  }
  void tell(int step) {
    std::vector<std::int64_t>& sample = add(Action::Kind::kSample).sample;
    sample = {7, 1, step, 8, static_cast<std::int64_t>(path_.size())};
    sample.insert(sample.end(), path_.begin(), path_.end());
  }
  void zero_grad() {
    for (ObjectId& grad : grads_) {
      if (grad != kNoObject) death(grad);
      grad = kNoObject;
    }
  }
  void forward() {
    activations_.clear();
    begin(2, {});
    activations_.push_back(birth(options_.activation));
    end();
    for (const int layer : path_) {
      begin(100 + static_cast<SiteId>(layer), {{weights_[at(layer)]}, {activations_.back()}});
      const ObjectId out = birth(options_.activation);
      end();
      activations_.push_back(out);
    }
  }
  void backward() {
    begin(3, {{activations_.back()}}, true);
    ObjectId flow = birth(options_.activation);
    end();
    for (std::size_t i = path_.size(); i-- > 0;) {
      const int layer = path_[i];
      ObjectId& grad = grads_[at(layer)];
      const SiteId site = 10'000 + static_cast<SiteId>(layer);
      std::vector<ObjectRef> operands{{weights_[at(layer)]}, {activations_[i]}, {flow}};
      if (grad != kNoObject) operands.push_back({grad, Access::kWrite});
      begin(site, operands, true);
      if (grad == kNoObject) grad = birth(options_.weight);
      const ObjectId next = birth(options_.activation);
      end();
      death(flow);
      death(activations_[i + 1]);
      flow = next;
    }
    death(flow);
    death(activations_[0]);
  }
  void optimize() {
    for (std::size_t layer = 0; layer < weights_.size(); ++layer) {
      if (grads_[layer] == kNoObject) continue;
      std::vector<ObjectRef> operands{{weights_[layer], Access::kWrite}, {grads_[layer]}};
      for (const ObjectId state : states_[layer]) operands.push_back({state, Access::kWrite});
      begin(20'000 + layer, operands);
      if (states_[layer].empty()) {
        for (int i = 0; i < options_.states; ++i) states_[layer].push_back(birth(options_.weight));
      }
      end();
    }
  }
  static std::size_t at(int layer) { return static_cast<std::size_t>(layer); }

  TrainingOptions options_;
  Random random_;
  Program program_;
  std::vector<int> path_;
  std::vector<ObjectId> weights_, grads_, activations_;
  std::vector<std::vector<ObjectId>> states_;
};

}  // namespace

Program training_program(const TrainingOptions& options) { return Trainer(options).run(); }

Bytes peak_bytes(const Program& program) {
  std::vector<Bytes> bytes(program.objects, 0);
  Bytes sum = 0, peak = 0;
  for (const auto& actions : program.threads) {
    for (const Action& action : actions) {
      if (action.kind == Action::Kind::kBirth || action.kind == Action::Kind::kAdopt) {
        sum += bytes[action.object] = action.bytes;
      }
      if (action.kind == Action::Kind::kDeath) sum -= std::exchange(bytes[action.object], 0);
      peak = std::max(peak, sum);
    }
  }
  return peak;
}

}  // namespace outsize::sim
