#include "predictors/pilot/plan.h"

#include <algorithm>
#include <utility>

namespace outsize::pilot {

using steps::kNone;

Plan::Played& Plan::played(ExtentId id) {
  if (id >= played_.size()) played_.resize(id + 1 + id / 2);
  return played_[id];
}

std::uint32_t Plan::object_of(ExtentId id) {
  Played& p = played(id);
  if (p.plan == number_) return p.object;
  p = {number_, record_.add_object({0, kNone, kNone, kNone})};
  holder_.push_back(id);
  return p.object;
}

// What will be meant by `thing`; kNone where there will be none.
Plan::Found Plan::resolve(const World& world, ThingId thing) {
  if (const Role role = world.network.thing(thing).role; role != kNoRole) {
    const ExtentId id = world.tokens.holder(role);
    return {id == kNoExtent ? kNone : object_of(id), thing};
  }
  if (const StepUses::Use* const use = saved(world, thing)) return {object_of(use->id), use->thing, use->id};
  return latest(world, thing);
}

Plan::Found Plan::latest(const World& world, ThingId thing) {
  const Meant latest = meant(world.network, world.instances, thing);
  if (latest.instance == nullptr) return {};
  const Instance& is = *latest.instance;
  return {is.planned ? is.object : object_of(is.object), latest.thing};
}

// What is meant by it, if the op whose gradient is made worked on such a thing or bore it; else null.
const StepUses::Use* Plan::saved(const World& world, ThingId thing) const {
  const std::vector<ThingId>& among = world.network.thing(thing).among;
  for (const StepUses::Use& use : saved_) {
    if (use.thing == kNobody || !world.uses.alive(use)) continue;
    if (use.thing == thing || std::find(among.begin(), among.end(), use.thing) != among.end()) return &use;
  }
  return nullptr;
}

void Plan::take_turn(const World& world, const Node& node) {
  if (node.backward && node.returns_to == kNobody) return;  // it goes on
  saved_ = {};
  if (!node.backward) {
    turn_ = 0;
    return;
  }
  const Instance* const made = world.instances.top(node.returns_to);
  if (made != nullptr && made->planned) {
    beyond_ = true;
    return;
  }
  std::uint32_t number = made != nullptr ? made->object : 0;
  // In a graph that is gone through again nothing is there that was not passed.
  if (!beyond_ && (number == 0 || (turn_ != 0 && number >= turn_))) {
    const std::uint32_t before = world.graph.before(turn_, world.network.thing(node.returns_to).node);
    if (before != 0) number = before;
  }
  if (number == 0) return;
  turn_ = number;
  saved_ = world.uses.of(world.graph.op_of(number));
}

void Plan::use(const World& world, const Node& node) {
  for (const ThingId thing : node.uses_now()) {
    const std::uint32_t object = resolve(world, thing).object;
    if (object != kNone) record_.accesses.push_back(object);
    if (world.network.thing(thing).role == kNoRole) continue;
    world.instances.touch(thing);
    if (node.backward) world.instances.pop(thing);
    else world.instances.push(thing, {world.op + record_.size(), kNobody, true, true});
  }
}

// What small storages share comes with the op that works on it time and again or follows another there, and with what
// backward returns to.
void Plan::use_shared(const World& world, NodeId id, const Node& node) {
  world.habits.at(id, [&](ExtentId extent) { tell_shared(extent); });
  if (node.returns_to == kNobody) return;
  for (const StepUses::Use& use : saved_) {
    if (use.thing == kNobody && world.uses.alive(use)) tell_shared(use.id);
  }
}

// Once in a while: it stays that long.
void Plan::tell_shared(ExtentId id) {
  const std::uint32_t object = object_of(id), op = record_.size() - 1;
  if (object >= told_.size()) told_.resize(object + 1 + object / 2, 0);
  if (told_[object] > op) return;
  told_[object] = op + kToldAgain;
  record_.accesses.push_back(object);
}

Bytes Plan::bytes_of(const World& world, std::uint32_t object) const {
  const ExtentId id = holder_[object];
  return id == kNoExtent ? record_.objects[object].bytes : world.table[id].bytes;
}

void Plan::change(const World& world, const Node& node, std::uint32_t op) {
  for (const ThingId thing : node.births_now()) {
    const std::uint32_t object = record_.add_object({world.network.thing(thing).bytes, op, kNone, kNone});
    holder_.push_back(kNoExtent);
    record_.births.push_back(object);
    world.instances.push(thing, {world.op + op + 1, object, true, !node.backward});
  }
  // Of what small storages share it is known how much, not in which op.
  pooled_ += node.pooled;
  if (pooled_ >= kSharedBytes) {
    record_.add_object({std::exchange(pooled_, 0), op, kNone, kNone});
    holder_.push_back(kNoExtent);
  }
  record_.ops[op].death_bytes += node.pooled_died;
  const auto died = [this](const Found& found) { return found.object != kNone && record_.objects[found.object].death_op != kNone; };
  for (const ThingId thing : node.deaths_now()) {
    Found dead = resolve(world, thing);
    if (dead.saved != kNoExtent && died(dead)) dead = latest(world, thing);
    if (dead.object == kNone || died(dead)) continue;
    record_.objects[dead.object].death_op = op;
    record_.ops[op].death_bytes += bytes_of(world, dead.object);
    if (dead.saved != kNoExtent) world.instances.remove(dead.thing, dead.saved);
    else if (world.network.thing(dead.thing).role == kNoRole) world.instances.pop(dead.thing);
  }
}

// The running op is the first of the plan, and has been passed already.
void Plan::begin(const World& world, NodeId running, bool begins, Position next) {
  ++number_;
  record_.clear(0);
  nodes_.clear();
  holder_.clear();
  told_.clear();
  pooled_ = 0;
  beyond_ = false;
  place_ = 1;
  base_ = next - 1;
  record_.add_op(0, 0);
  nodes_.push_back(running);
  const Node& node = world.network[running];
  turn_ = node.backward ? world.graph.latest_turn() : 0;
  saved_ = world.uses.of(world.graph.op_of(turn_));
  if (begins) change(world, node, 0);
  make_graph_node(world, node, 0);
}

// Of the running op it is not known yet whether it made one: as the last time.
void Plan::make_graph_node(const World& world, const Node& node, std::uint32_t op) {
  if (node.made && node.makes != kNobody) world.instances.push(node.makes, {world.op + op + 1, kNobody, true, true});
}

Nanos Plan::add(const World& world, NodeId id, Nanos at) {
  const Node& node = world.network[id];
  const std::uint32_t op = record_.size();
  record_.add_op(0, at);
  nodes_.push_back(id);
  world.instances.run(id);
  take_turn(world, node);
  use_shared(world, id, node);
  if (node.returns_to != kNobody) world.instances.pop(node.returns_to);
  use(world, node);
  change(world, node, op);
  make_graph_node(world, node, op);
  return at + std::max<Nanos>(world.network.time_of(node), 1);
}

void Plan::make(const World& world, Trail trail, NodeId running, bool begins, Position next, std::uint32_t ops) {
  static const Sample kNoSample;
  world.instances.begin_draft();
  begin(world, running, begins, next);
  Nanos at = std::max<Nanos>(world.network.time_of(world.network[running]), 1);
  int steps = 0;
  ends_ = false;
  while (record_.size() < ops) {
    // Of the next step's sample nothing is known yet: what depends on it would come for nothing.
    const Sample& sample = steps == 0 ? world.sample : kNoSample;
    const Choice chosen = world.chooser.choose({world.network, world.instances, trail, sample, running, world.base});
    running = chosen.to;
    if (running == kNobody || (steps > 0 && chosen.probability < Chooser::kUnlikely)) break;
    const Node& node = world.network[running];
    const ClassId choice = world.network.class_of(node);
    if (choice != kNobody) trail.enter(choice, running, node.kind);
    if (running != world.step_node) {
      at = add(world, running, at);
      continue;
    }
    ends_ = ++steps > world.steps;
    if (ends_) break;
    record_.ops.back().death_bytes += node.died_bytes;  // between two steps, as gradients do
    world.instances.clear();
    beyond_ = true;
    saved_ = {};
    trail.begin_step();
  }
  saved_ = {};
  open_ = record_.size() == ops;
  world.instances.end_draft();
  record_.finish(at);
  cut(world);
  outlook_.begin(record_, holder_, false);
}

void Plan::cut(const World& world) {
  blocks_ = world.blocks;
  in_block_.clear();
  if (!blocks_.any()) return;
  // Which block worked on it; where blocks have no bound of bytes nobody asks.
  std::vector<std::uint32_t> last(blocks_.bytes > 0 ? record_.objects.size() : 0, kNone);
  InBlock block;
  Bytes bytes = 0;
  const auto add = [&](std::uint32_t op) {
    if (blocks_.bytes == 0) return;
    for (std::uint32_t i = record_.ops[op].first_access; i < record_.accesses_end(op); ++i) {
      const std::uint32_t object = record_.accesses[i];
      if (std::exchange(last[object], block.number) != block.number) bytes += bytes_of(world, object);
    }
  };
  for (std::uint32_t op = 0; op < record_.size(); ++op) {
    const Bytes before = bytes;
    const bool chosen = world.network.class_of(world.network[nodes_[op]]) != kNobody;
    if (!chosen) add(op);
    if (op > 0 && (chosen || (blocks_.bytes > 0 && before > 0 && bytes > blocks_.bytes))) {
      block = {op, block.number + 1};
      bytes = 0;
    }
    add(op);
    in_block_.push_back(block);
  }
}

void Plan::want_blocks(std::span<Upcoming> out) const {
  const std::uint32_t next = std::min(place_, size() - 1);
  for (Upcoming& each : out) {
    const auto op = static_cast<std::uint32_t>(each.position - base_);
    each.position = wanted_at(op);
    each.in = std::max<Nanos>(record_.ops[in_block_[op].begin].at - record_.ops[next].at, 0);
  }
}

std::size_t Plan::to_bring(std::span<const Upcoming> upcoming) const {
  if (blocks_.buffers == 0 || in_block_.empty()) return upcoming.size();
  const std::uint32_t end = in_block_[std::min(place_, size() - 1)].number + blocks_.buffers;
  const auto beyond = [&](const Upcoming& each) {
    const Position op = each.position - base_;
    return op < in_block_.size() && in_block_[op].number >= end;
  };
  return static_cast<std::size_t>(std::find_if(upcoming.begin(), upcoming.end(), beyond) - upcoming.begin());
}

bool Plan::skip_to(NodeId node, std::uint32_t within) {
  const auto from = nodes_.begin() + place_;
  const auto to = nodes_.begin() + std::min(place_ + within, size());
  const auto at = std::find(from, to, node);
  if (at == to) return false;
  place_ = static_cast<std::uint32_t>(at - nodes_.begin()) + 1;
  return true;
}

void Plan::bear(ExtentId id, std::size_t order) {
  if (place_ == 0 || place_ > size()) return;
  const std::size_t at = record_.ops[place_ - 1].first_birth + order;
  if (at >= record_.births_end(place_ - 1)) return;
  played(id) = {number_, record_.births[at]};
  outlook_.hold(record_, record_.births[at], id);
}

void Plan::bury(ExtentId id) {
  Played& p = played(id);
  if (p.plan == number_ && outlook_.holders()[p.object] == id) outlook_.hold(record_, p.object, kNoExtent);
  p = {};
}

bool Plan::foresees(ExtentId id) const {
  if (id >= played_.size() || played_[id].plan != number_ || place_ >= size()) return false;
  return record_.use_from(played_[id].object, place_) == place_;
}

Position Plan::next_use(ExtentId id) const {
  if (id >= played_.size() || played_[id].plan != number_ || place_ >= size()) return kNever;
  const std::uint32_t object = played_[id].object;
  const std::uint32_t use = record_.use_from(object, place_);
  if (use != kNone) return wanted_at(use);
  // It will go by itself then, at no cost.
  const std::uint32_t death = record_.objects[object].death_op;
  return death != kNone && death >= place_ ? base_ + death : kNever;
}

}  // namespace outsize::pilot
