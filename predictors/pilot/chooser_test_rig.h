// For tests of the chooser: a network that is gone through op by op, and a tally of what was said rightly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "predictors/pilot/chooser.h"

namespace outsize::pilot {

inline constexpr unsigned kSeed = 20261205;
inline constexpr Token kStepEnds = 1;
inline constexpr std::int64_t kNoise = 70, kPath = 80;  // names of features

struct Tally {
  int choices = 0, right = 0;
  void add(bool is_right) {
    ++choices;
    right += is_right ? 1 : 0;
  }
  void add(const Tally& other) {
    choices += other.choices;
    right += other.right;
  }
  double share() const { return choices == 0 ? 0 : static_cast<double>(right) / choices; }
};

// Steps through a network, with what a chooser said ahead of each op.
class World {
 public:
  explicit World(const ChooserOptions& options = {}) : chooser(options) {}

  void tell(const std::vector<int>& path) {
    std::vector<std::int64_t> encoded{kNoise, 1, static_cast<std::int64_t>(random_()), kPath,
                                      static_cast<std::int64_t>(path.size())};
    encoded.insert(encoded.end(), path.begin(), path.end());
    tell_encoded(encoded);
  }
  void tell_encoded(const std::vector<std::int64_t>& encoded) {
    sample_.read(encoded);
    trail_.begin_sample();
  }
  // What is about to run, of a kind (0: nobody knows): whether it was said.
  // `relative`: its name without the branch that it follows; 0 of a branch.
  bool go(Token token, bool backward = false, std::uint32_t kind = 0, Token relative = 0) {
    const NodeId node = network.node(token, backward, relative);
    if (kind != 0) network.is_of(node, kind, 0);
    const bool said = chooser.choose(standing()).to == node;
    chooser.learn(standing(), node);
    network.pass(running_, node, step_);
    if (const ClassId choice = network.class_of(network[node]); choice != kNobody) trail_.enter(choice, node);
    running_ = node;
    instances_.run(node);
    ++op_;
    return said;
  }
  // What would be said now.
  const Node& said() { return network[chooser.choose(standing()).to]; }
  // How many different things have come after the running op; whether that has.
  std::size_t ways() const { return network[running_].ways.size(); }
  bool came_before(Token token) {
    const NodeId node = network.node(token, false);
    const std::vector<Way>& ways = network[running_].ways;
    return std::any_of(ways.begin(), ways.end(), [&](const Way& way) { return way.to == node; });
  }
  // The running op works on a weight.
  void use(Role role, bool backward = false) {
    const ThingId weight = network.lasting(role);
    network.uses(running_, {&weight, 1});
    instances_.touch(weight);
    if (backward) return instances_.pop(weight);
    instances_.push(weight, {op_, kNobody, false, true});
    network.used_forward(weight);
  }
  // The running op has made a node of autograd's graph; backward returns to what `maker` made.
  void make() { instances_.push(network.graph_node(running_), {op_, kNobody, false, true}); }
  void return_to(Token maker) {
    const ThingId thing = network.graph_node(network.node(maker, false));
    network[running_].returns_to = thing;
    instances_.pop(thing);
  }
  void end_step() {
    go(kStepEnds);
    instances_.clear();
    trail_.begin_step();
    ++step_;
  }
  // As many of `experts` as that, each once, in any order.
  std::vector<int> some(int experts, int count) {
    std::vector<int> all(static_cast<std::size_t>(experts));
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t i = all.size(); i-- > 1;) std::swap(all[i], all[random_() % (i + 1)]);
    all.resize(static_cast<std::size_t>(count));
    return all;
  }
  int any(int experts) { return static_cast<int>(random_() % static_cast<unsigned>(experts)); }

  Network network;
  Chooser chooser;

 private:
  Standing standing() const { return {network, instances_, trail_, sample_, running_}; }

  Instances instances_;
  Trail trail_;
  Sample sample_;
  std::mt19937 random_{kSeed};
  NodeId running_ = network.node(kStepEnds, false);
  std::uint64_t step_ = 1, op_ = 0;
};

}  // namespace outsize::pilot
