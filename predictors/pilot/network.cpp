#include "predictors/pilot/network.h"

#include <algorithm>
#include <utility>

namespace outsize::pilot {

NodeId Network::node(Token token, bool backward, Token relative) {
  if (nodes_.size() >= kNodesMax && !index_.contains(token)) token = kTooMany;
  const auto [at, fresh] = index_.try_emplace(token, static_cast<NodeId>(nodes_.size()));
  if (fresh) {
    Node& node = nodes_.emplace_back();
    node.token = token;
    node.relative = token == kTooMany ? 0 : relative;
    node.backward = backward;
  }
  return at->second;
}

ThingId Network::lasting(Role role) {
  if (things_.size() >= kThingsMax) {
    const auto known = lasting_.find(role);
    return known == lasting_.end() ? kNobody : known->second;
  }
  const auto [at, fresh] = lasting_.try_emplace(role, static_cast<ThingId>(things_.size()));
  if (fresh) things_.push_back({role});
  return at->second;
}

ThingId Network::graph_node(NodeId id) {
  Node& node = nodes_[id];
  if (node.makes == kNobody && things_.size() < kThingsMax) {
    node.makes = static_cast<ThingId>(things_.size());
    things_.push_back({kNoRole, id, 0});
  }
  return node.makes;
}

ThingId Network::birth(NodeId id, std::size_t order, Bytes bytes) {
  Node& node = nodes_[id];
  while (node.births.size() <= order) {
    if (things_.size() >= kThingsMax) return kNobody;
    node.births.push_back(static_cast<ThingId>(things_.size()));
    things_.push_back({kNoRole, id, bytes});
  }
  things_[node.births[order]].bytes = bytes;
  return node.births[order];
}

void Network::is_of(NodeId id, std::uint32_t kind, IdiomClass idiom) {
  Node& node = nodes_[id];
  if (node.kin != kNobody && node.kind == kind && node.idiom == idiom) return;
  node.kind = kind;
  node.idiom = idiom;
  const auto [at, fresh] = kin_of_.try_emplace(kind, static_cast<std::uint32_t>(kin_.size()));
  if (fresh) kin_.push_back(1);
  node.kin = at->second;
  node.scale = kin_[node.kin];
}

void Network::took(NodeId id, Nanos nanos) {
  Node& node = nodes_[id];
  if (node.kin == kNobody) return;
  float& kin = kin_[node.kin];
  // Waits are in it, where there were any: so one long time says little.
  const Nanos expected = std::max<Nanos>(time_of(node), 1), taken = std::clamp(nanos, expected / 4, 4 * expected);
  const bool fresh = node.time == 0;
  // Corrected is what was expected now, not what it took then: or each change of all kin would stay with this one.
  node.time = fresh ? nanos : expected + (taken - expected) / 4;
  node.scale = kin;
  if (fresh) return;
  constexpr float kMost = 1 << 20;
  const float by = static_cast<float>(taken) / static_cast<float>(expected);
  kin = std::clamp(kin * (1 + (by - 1) / 4), 1 / kMost, kMost);
}

// One that stands for both.
ThingId Network::either(ThingId known, ThingId other) {
  if (known == other) return known;
  if (things_[known].role != kNoRole || things_[other].role != kNoRole) return other;
  if (things_[known].among.empty()) {
    if (things_.size() >= kThingsMax) return other;
    things_.push_back({.among = {known, other}});
    return static_cast<ThingId>(things_.size() - 1);
  }
  std::vector<ThingId>& among = things_[known].among;
  if (std::find(among.begin(), among.end(), other) != among.end()) return known;
  if (among.size() >= kAmongMax) among.erase(among.begin());
  among.push_back(other);
  return known;
}

void Network::become(std::vector<ThingId>& known, std::span<const ThingId> things) {
  const std::size_t both = std::min(known.size(), things.size());
  for (std::size_t i = 0; i < both; ++i) known[i] = either(known[i], things[i]);
  known.insert(known.end(), things.begin() + static_cast<std::ptrdiff_t>(both), things.end());
}

bool Network::are_alike(ThingId a, ThingId b) const {
  const auto is_among = [this](ThingId one, ThingId several) {
    const std::vector<ThingId>& among = things_[several].among;
    return std::find(among.begin(), among.end(), one) != among.end();
  };
  return a == b || is_among(a, b) || is_among(b, a);
}

// In that order, with others in between.
bool Network::part_of(std::span<const ThingId> things, std::span<const ThingId> known) const {
  auto at = known.begin();
  for (const ThingId thing : things) {
    at = std::find_if(at, known.end(), [&](ThingId each) { return are_alike(thing, each); });
    if (at == known.end()) return false;
    ++at;
  }
  return true;
}

// Grown by those that had no name before, each at its place.
void Network::grow(Node& node, std::span<const ThingId> things) {
  std::vector<ThingId>& all = grown_;
  all.clear();
  std::size_t known = 0, more = node.used;
  for (const ThingId thing : things) {
    if (known < node.used && are_alike(thing, node.uses[known])) all.push_back(node.uses[known++]);
    else if (more < node.uses.size()) all.push_back(either(node.uses[more++], thing));
    else all.push_back(thing);
  }
  all.insert(all.end(), node.uses.begin() + static_cast<std::ptrdiff_t>(more), node.uses.end());
  node.uses.swap(all);
}

void Network::uses(NodeId id, std::span<const ThingId> things, bool nameless) {
  Node& node = nodes_[id];
  const std::size_t used = node.used;
  if (nameless && things.size() < used && part_of(things, node.uses_now())) return;
  if (things.size() > used && part_of(node.uses_now(), things)) grow(node, things);
  else become(node.uses, things);
  node.used = static_cast<std::uint32_t>(things.size());
}

bool Network::pass(NodeId from, NodeId to, std::uint64_t step) {
  Node &a = nodes_[from], &b = nodes_[to];
  b.again = b.again || b.step == step;
  b.step = step;
  order(to, step);
  for (Way& way : a.ways) {
    if (way.to != to) continue;
    ++way.count;
    return false;
  }
  if (a.token == kTooMany || b.token == kTooMany) return false;
  if (a.ways.size() < kWaysMax) {
    a.ways.push_back({to, 1});
  } else {
    const auto rarer = [](const Way& x, const Way& y) { return x.count < y.count; };
    *std::min_element(a.ways.begin() + 1, a.ways.end(), rarer) = {to, 1};  // the first says of what class and kind they are
  }
  if (a.ways.size() == 1) return false;
  join(a.ways[0].to, to);
  return true;
}

void Network::number(ClassId choice, std::size_t from) {
  const std::vector<NodeId>& nodes = members_[choice].nodes;
  for (std::size_t i = from; i < nodes.size(); ++i) nodes_[nodes[i]].place = static_cast<std::uint32_t>(i);
}

// What runs after another stands behind it.
void Network::order(NodeId id, std::uint64_t step) {
  const ClassId choice = class_of(nodes_[id]);
  if (choice == kNobody) return;
  Members& members = members_[choice];
  const NodeId before = std::exchange(members.latest, id);
  const bool same_step = std::exchange(members.step, step) == step;
  if (!same_step || nodes_[id].again || nodes_[before].again || members.nodes.size() > kOrderedMax) return;
  const auto from = static_cast<std::ptrdiff_t>(nodes_[id].place);
  const auto to = static_cast<std::ptrdiff_t>(nodes_[before].place);
  if (from > to || nodes_[id].backward != nodes_[before].backward) return;
  const auto begin = members.nodes.begin();
  std::rotate(begin + from, begin + from + 1, begin + to + 1);
  number(choice, static_cast<std::size_t>(from));
}

ClassId Network::find(ClassId id) const {
  while (parents_[id] != id) {
    parents_[id] = parents_[parents_[id]];
    id = parents_[id];
  }
  return id;
}

void Network::join(NodeId from, NodeId to) {
  for (const NodeId id : {from, to}) {
    if (nodes_[id].choice != kNobody) continue;
    nodes_[id].choice = static_cast<ClassId>(parents_.size());
    parents_.push_back(nodes_[id].choice);
    nodes_[id].place = 0;
    members_.push_back({{id}});
  }
  const ClassId a = find(nodes_[from].choice), b = find(nodes_[to].choice);
  if (a == b) return;
  const ClassId one = std::min(a, b), other = std::max(a, b);
  parents_[other] = one;
  std::vector<NodeId>& nodes = members_[one].nodes;
  const std::size_t known = nodes.size();
  nodes.insert(nodes.end(), members_[other].nodes.begin(), members_[other].nodes.end());
  members_[other].nodes.clear();
  number(one, known);
}

std::array<std::uint64_t, kIdioms> Network::idioms() const {
  std::array<std::uint64_t, kIdioms> sums{};
  for (const Node& node : nodes_) {
    const Idioms& idioms = idioms_of(node.idiom);
    for (std::size_t i = 0; i < kIdioms; ++i) sums[i] += idioms[i];
  }
  return sums;
}

Bytes Network::table_bytes() const {
  // A node's lists are a few entries each.
  constexpr std::size_t kNode = sizeof(Node) + 64 + sizeof(Token) + sizeof(NodeId);
  return static_cast<Bytes>(nodes_.size() * kNode + things_.size() * (sizeof(Thing) + sizeof(Role)));
}

}  // namespace outsize::pilot
