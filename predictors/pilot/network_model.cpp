// The network as part of a saved model (model.h). Classes are told by their members alone, so that no reader meets
// parents that go round in a circle; when something ran is of one run and left out.
#include <algorithm>
#include <utility>

#include "predictors/pilot/model.h"
#include "predictors/pilot/network.h"

namespace outsize::pilot {
namespace {

constexpr std::uint64_t kBytesMax = static_cast<std::uint64_t>(kOpBytesMax);

std::uint64_t bounded(std::int64_t value, std::int64_t most) {
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(value, 0, most));
}

void save_ids(ModelWriter& out, const std::vector<ThingId>& ids, std::uint32_t now) {
  out.number(ids.size());
  for (const ThingId id : ids) out.number(id);
  out.number(now);
}

// An op may work on a thing several times: so there may be more than there are things.
void load_ids(ModelReader& in, std::size_t below, std::vector<ThingId>& ids, std::uint32_t& now) {
  ids.resize(in.count(Network::kThingsMax, "an op has too many things"));
  for (ThingId& id : ids) id = in.id(below, "there is no such thing");
  now = static_cast<std::uint32_t>(in.number(ids.size(), "an op has fewer things than it uses"));
}

}  // namespace

void Network::save(ModelWriter& out) const {
  out.number(nodes_.size());
  out.number(things_.size());
  for (const Thing& thing : things_) {
    out.number(thing.role);
    out.number(thing.node == kNobody ? 0 : thing.node + 1ULL);
    out.number(bounded(thing.bytes, kOpBytesMax));
    out.number(thing.forward ? 1 : 0);
    out.number(thing.among.size());
    for (const ThingId id : thing.among) out.number(id);
  }
  for (const Node& node : nodes_) {
    out.number(node.token);
    out.number(node.relative);
    out.number(node.makes == kNobody ? 0 : node.makes + 1ULL);
    out.number(node.returns_to == kNobody ? 0 : node.returns_to + 1ULL);
    out.number(bounded(node.time, kOpTimeMax));
    out.number(node.idiom);
    out.number(node.kind);
    save_ids(out, node.uses, node.used);
    save_ids(out, node.births, node.born);
    save_ids(out, node.deaths, node.died);
    for (const Bytes bytes : {node.pooled, node.pooled_died, node.died_bytes}) out.number(bounded(bytes, kOpBytesMax));
    out.number((node.backward ? 1U : 0U) | (node.again ? 2U : 0U) | (node.made ? 4U : 0U));
    out.number(node.ways.size());
    for (const Way& way : node.ways) {
      out.number(way.to);
      out.number(way.count);
    }
  }
  out.number(parents_.size());
  for (const Members& members : members_) {
    out.number(members.nodes.size());
    for (const NodeId id : members.nodes) out.number(id);
  }
}

void Network::load(ModelReader& in) {
  const std::size_t nodes = in.count(kNodesMax + 1, "too many nodes");
  const std::size_t things = in.count(kThingsMax, "too many things");
  nodes_.resize(nodes);
  things_.resize(things);
  for (ThingId id = 0; id < things && in.ok(); ++id) load_thing(in, id);
  for (NodeId id = 0; id < nodes && in.ok(); ++id) load_node(in, id);
  if (in.ok()) check_things(in);
  if (in.ok()) load_classes(in);
}

void Network::load_thing(ModelReader& in, ThingId id) {
  Thing& thing = things_[id];
  thing.role = in.any();
  thing.node = static_cast<NodeId>(in.number(nodes_.size(), "there is no such node")) - 1;  // from 0: kNobody
  thing.bytes = static_cast<Bytes>(in.number(kBytesMax, "a thing of too many bytes"));
  thing.forward = in.flag("what forward has used");
  thing.among.resize(in.count(kAmongMax, "a thing is too many things"));
  for (ThingId& one : thing.among) one = in.id(things_.size(), "there is no such thing");
  const bool born = thing.node != kNobody;
  if ((thing.role != kNoRole) + born + !thing.among.empty() > 1) in.refuse("a thing is of two kinds");
  if (thing.role != kNoRole && !lasting_.try_emplace(thing.role, id).second) in.refuse("two things of one role");
}

void Network::load_node(ModelReader& in, NodeId id) {
  constexpr std::uint64_t kTimesMax = UINT32_MAX;
  Node& node = nodes_[id];
  node.token = in.any();
  if (!index_.try_emplace(node.token, id).second) in.refuse("two nodes of one token");
  node.relative = in.any();
  for (ThingId* const of_graph : {&node.makes, &node.returns_to}) {  // from 0: kNobody
    *of_graph = static_cast<ThingId>(in.number(things_.size(), "there is no such thing")) - 1;
  }
  node.time = static_cast<Nanos>(in.number(static_cast<std::uint64_t>(kOpTimeMax), "an op takes too long"));
  node.idiom = static_cast<IdiomClass>(in.number(kIdiomClassesMax - 1, "an idiom class"));
  node.kind = static_cast<std::uint32_t>(in.number((1U << kKindBits) - 1, "a kind of op"));
  load_ids(in, things_.size(), node.uses, node.used);
  load_ids(in, things_.size(), node.births, node.born);
  load_ids(in, things_.size(), node.deaths, node.died);
  for (Bytes* const bytes : {&node.pooled, &node.pooled_died, &node.died_bytes}) {
    *bytes = static_cast<Bytes>(in.number(kBytesMax, "an op of too many bytes"));
  }
  const std::uint64_t flags = in.number(7, "what an op is");
  node.backward = (flags & 1) != 0;
  node.again = (flags & 2) != 0;
  node.made = (flags & 4) != 0;
  node.ways.resize(in.count(kWaysMax, "too many ways"));
  for (Way& way : node.ways) {
    way.to = in.id(nodes_.size(), "there is no such node");
    way.count = static_cast<std::uint32_t>(in.number(kTimesMax, "a way that is gone too often"));
  }
}

// What is born there was born there, and what is several things is so once.
void Network::check_things(ModelReader& in) const {
  for (const Thing& thing : things_) {
    for (const ThingId one : thing.among) {
      if (!things_[one].among.empty()) in.refuse("a thing is others that are others");
    }
  }
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    Bytes born = 0;
    const ThingId makes = nodes_[id].makes;
    if (makes != kNobody && things_[makes].node != id) in.refuse("a thing was born elsewhere");
    for (const ThingId one : nodes_[id].births) {
      born += things_[one].bytes;
      if (things_[one].node != id) in.refuse("a thing was born elsewhere");
      if (born > kOpBytesMax) in.refuse("an op of too many bytes");
      if (!in.ok()) return;
    }
  }
}

void Network::load_classes(ModelReader& in) {
  const std::size_t classes = in.count(nodes_.size(), "too many classes");
  parents_.resize(classes);
  members_.resize(classes);
  for (ClassId id = 0; id < classes; ++id) {
    parents_[id] = id;
    std::vector<NodeId>& members = members_[id].nodes;
    members.resize(in.count(nodes_.size(), "too many members"));
    for (NodeId& member : members) {
      member = in.id(nodes_.size(), "there is no such node");
      if (!in.ok()) return;
      if (nodes_[member].choice != kNobody) in.refuse("a node is of two classes");
      nodes_[member].choice = id;
    }
    number(id, 0);
  }
}

}  // namespace outsize::pilot
