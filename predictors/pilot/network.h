// What is known of a network from the steps that were seen: a node for each token (tokens.h), with what such an op
// works on, bears and sees die, how long it takes and what came after it.
//
// *Things* are what ops work on, told so that it means something in another step: what lasts, by its role; what a
// step bears, by the node that bore it and the how-manieth birth there it was, nodes of autograd's graph among it; where an
// op works now on this and now on that, by all of them. Of one thing there may be several at a time, one for each time
// that its node ran (instances.h).
//
// Costs: O(operands) an op. Bounded: past kNodesMax nodes new tokens are all one node, past kThingsMax new things none.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/idioms.h"
#include "core/base/large_table.h"
#include "predictors/pilot/tokens.h"

namespace outsize::pilot {

using NodeId = std::uint32_t;
using ThingId = std::uint32_t;
using ClassId = std::uint32_t;
class ModelReader;  // model.h
class ModelWriter;
inline constexpr std::uint32_t kNobody = 0xffffffffU;

struct Thing {
  Role role = kNoRole;  // it lasts; else
  NodeId node = kNobody;  // was born there
  Bytes bytes = 0;      // of the last one born
  bool forward = false;   // it lasts, and forward has used it
  std::vector<ThingId> among = {};  // or it is one of these, whichever was made last
};

struct Way {
  NodeId to = kNobody;
  std::uint32_t count = 0;
};

struct Node {
  Token token = 0;
  Token relative = 0;            // without its anchor (Tokens::relative); 0 of an anchor
  Nanos time = 0;                // until the next op
  float scale = 1;               // of its kin, then
  std::uint32_t kin = kNobody;   // all nodes of its kind
  std::vector<ThingId> uses;     // distinct, in operand order; as many as ever were, of which now
  std::uint32_t used = 0;        // are used, or were before they had no name
  std::vector<ThingId> births;   // as many as ever were, of which the last time
  std::uint32_t born = 0;        // were born
  Bytes pooled = 0, pooled_died = 0;  // of extents that small storages share: mean of a run
  std::vector<ThingId> deaths;   // in it or after it, before the next op; as many as ever were, of which the last time
  std::uint32_t died = 0;        // died
  Bytes died_bytes = 0;          // the last time
  std::vector<Way> ways;         // in the order of first sight
  ClassId choice = kNobody;      // it was chosen among several: their class (Network::class_of)
  std::uint64_t step = 0;        // in which it ran last
  std::uint32_t place = 0;       // among the members of its class
  // Autograd's graph: the node that such an op makes, as a thing; and whose turn it is in backward when such an op runs.
  ThingId makes = kNobody, returns_to = kNobody;
  bool made = false;             // the last time it made one
  bool backward = false;
  IdiomClass idiom = kNoIdiomClass;
  std::uint32_t kind = 0;        // of its op (kind_of)
  bool again = false;            // it ran more than once in some step

  std::span<const ThingId> uses_now() const { return std::span(uses).first(used); }
  std::span<const ThingId> births_now() const { return std::span(births).first(born); }
  std::span<const ThingId> deaths_now() const { return std::span(deaths).first(died); }
};

class Network {
 public:
  static constexpr std::size_t kNodesMax = 1U << 17;
  static constexpr std::size_t kThingsMax = 1U << 19;
  static constexpr std::size_t kWaysMax = 256;  // of a node; beyond, the rarest makes way

  NodeId node(Token token, bool backward, Token relative = 0);
  // The same for an op that comes after `before`: mostly it is the one that came there first, and nothing has to be looked up.
  NodeId node_after(NodeId before, Token token, bool backward, Token relative) {
    const std::vector<Way>& ways = nodes_[before].ways;
    if (!ways.empty() && nodes_[ways[0].to].token == token) return ways[0].to;
    return node(token, backward, relative);
  }
  // What such an op is.
  void is_of(NodeId node, std::uint32_t kind, IdiomClass idiom);
  // How long it took.
  void took(NodeId node, Nanos nanos);
  // How long it will take: as the last time, and as ops of its kind fared since. So a larger sample shows while it runs.
  Nanos time_of(const Node& node) const {
    if (node.kin == kNobody) return node.time;
    return static_cast<Nanos>(static_cast<float>(node.time) * (kin_[node.kin] / node.scale));
  }
  void used_forward(ThingId thing) { things_[thing].forward = true; }
  // kNobody where there are too many.
  ThingId lasting(Role role);
  // The `order`-th birth of `node`; kNobody where there are too many.
  ThingId birth(NodeId node, std::size_t order, Bytes bytes);
  // The node of autograd's graph that such an op makes; kNobody where there are too many.
  ThingId graph_node(NodeId node);
  // `node` works on these now, and maybe on others that are `nameless`, as small storages share them: where samples differ in
  // size, what has a name with a large sample may have none with the next. O(things + those known
  // before).
  void uses(NodeId node, std::span<const ThingId> things, bool nameless = false);
  // It has seen those die.
  void deaths(NodeId node, std::span<const ThingId> things) {
    nodes_[node].died = static_cast<std::uint32_t>(things.size());
    become(nodes_[node].deaths, things);
  }
  // `to` ran after `from`, in that step. True where `from` had gone another way until now, and never this one.
  bool pass(NodeId from, NodeId to, std::uint64_t step);

  Node& operator[](NodeId id) { return nodes_[id]; }
  const Node& operator[](NodeId id) const { return nodes_[id]; }
  const Thing& thing(ThingId id) const { return things_[id]; }
  std::size_t nodes() const { return nodes_.size(); }
  std::size_t things() const { return things_.size(); }
  // Nodes that were chosen among are of one class, and with them all that were chosen among with any of them.
  ClassId class_of(const Node& node) const { return node.choice == kNobody ? kNobody : find(node.choice); }
  // In an order in which steps have run them, as far as they agree on one.
  std::span<const NodeId> members(ClassId choice) const { return members_[choice].nodes; }
  // Of the choice that is made after `node`; kNobody where only one thing ever came, and that always.
  ClassId choice_after(const Node& node) const {
    return node.ways.empty() ? kNobody : class_of(nodes_[node.ways[0].to]);
  }
  // The kind of op that came first after `node`, where such a choice is made.
  std::uint32_t kind_after(const Node& node) const { return nodes_[node.ways[0].to].kind; }
  std::size_t classes() const { return parents_.size(); }
  std::array<std::uint64_t, kIdioms> idioms() const;  // of all nodes
  Bytes table_bytes() const;
  // As part of a saved model. An empty one is loaded; what has been refused leaves it of no use.
  void save(ModelWriter& out) const;
  void load(ModelReader& in);

 private:
  void load_thing(ModelReader& in, ThingId id);
  void load_node(ModelReader& in, NodeId id);
  void check_things(ModelReader& in) const;
  void load_classes(ModelReader& in);
  ClassId find(ClassId id) const;
  void join(NodeId from, NodeId to);
  void order(NodeId id, std::uint64_t step);
  void number(ClassId choice, std::size_t from);
  bool are_alike(ThingId a, ThingId b) const;
  bool part_of(std::span<const ThingId> things, std::span<const ThingId> known) const;
  void grow(Node& node, std::span<const ThingId> things);
  void become(std::vector<ThingId>& known, std::span<const ThingId> things);
  ThingId either(ThingId known, ThingId other);
  static constexpr std::size_t kAmongMax = 32;
  static constexpr Token kTooMany = 0;

  LargeTable<Node> nodes_;
  std::vector<float> kin_;      // how much longer they took than when they were seen first
  std::unordered_map<std::uint32_t, std::uint32_t> kin_of_;  // by kind of op
  std::vector<ThingId> grown_;  // scratch
  std::vector<Thing> things_;
  std::unordered_map<Token, NodeId> index_;
  std::unordered_map<Role, ThingId> lasting_;
  mutable std::vector<ClassId> parents_;
  struct Members {
    std::vector<NodeId> nodes;
    NodeId latest = kNobody;  // that ran
    std::uint64_t step = 0;   // in this one
  };
  static constexpr std::size_t kOrderedMax = 512;  // of larger classes no order is kept
  std::vector<Members> members_;  // by class that is its own parent
};

}  // namespace outsize::pilot
