#include "predictors/pilot/block_graph.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace outsize::pilot {
namespace {

Nanos time_to_come(Bytes bytes, std::uint64_t rate) {
  return bytes * 1'000 / static_cast<Bytes>(std::max<std::uint64_t>(rate / 1'000'000, 1));
}

}  // namespace

std::uint32_t BlockGraph::node(Token token) {
  const auto [at, is_new] = index_.try_emplace(token, static_cast<std::uint32_t>(nodes_.size()));
  if (is_new) nodes_.emplace_back().token = token;
  return at->second;
}

void BlockGraph::pass(std::uint32_t from, std::uint32_t to) {
  std::vector<BlockEdge>& next = nodes_[from].next;
  const auto at = std::find_if(next.begin(), next.end(), [to](const BlockEdge& e) { return e.block == to; });
  if (at != next.end()) {
    ++at->count;
    return;
  }
  next.push_back({to, 1});
  Node& target = nodes_[to];
  target.several_before = target.several_before || (target.before != kNoBlock && target.before != from);
  target.before = from;
}

void BlockGraph::step(std::span<const TokenUse> path) {
  if (path.empty()) return;
  ++steps_;
  std::uint32_t last = kNoBlock;
  for (const TokenUse& use : path) {
    const std::uint32_t now = node(use.token);
    Node& n = nodes_[now];
    ++n.count;
    n.time += use.time;
    n.idiom = use.idiom;
    if (n.lasting.empty()) n.lasting.assign(use.lasting.begin(), use.lasting.end());
    if (last == kNoBlock) n.starts = true;
    else pass(last, now);
    last = now;
  }
  nodes_[last].ends = true;
}

// Into the block of the one before it.
bool BlockGraph::joined(const Node& to) const {
  if (to.starts || to.several_before || to.before == kNoBlock) return false;
  return !nodes_[to.before].ends && nodes_[to.before].next.size() == 1;
}

// Greedily: a piece ends where the next op would bring too many bytes, or as soon as it computes for longer than what
// comes next takes, as far as one knows: a piece like this one.
void BlockGraph::cut(const Run& run, const BlockLimits& limits, std::vector<Run>& out) const {
  std::unordered_set<Role> there;
  Bytes bytes = 0;
  Nanos time = 0;
  out.emplace_back();
  for (const std::uint32_t at : run) {
    Bytes more = 0;
    for (const Lasting& lasting : nodes_[at].lasting) more += there.contains(lasting.role) ? 0 : lasting.bytes;
    const bool too_much = limits.bytes > 0 && bytes + more > limits.bytes;
    const bool long_enough = limits.rate > 0 && bytes > 0 && time >= time_to_come(bytes, limits.rate);
    if (!out.back().empty() && more > 0 && (too_much || long_enough)) {
      out.emplace_back();
      there.clear();
      bytes = time = 0;
    }
    out.back().push_back(at);
    for (const Lasting& lasting : nodes_[at].lasting) bytes += there.insert(lasting.role).second ? lasting.bytes : 0;
    time += time_of(nodes_[at]);
  }
}

std::vector<BlockGraph::Run> BlockGraph::runs() const {
  std::vector<Run> found;
  for (std::uint32_t at = 0; at < nodes_.size(); ++at) {
    if (joined(nodes_[at])) continue;
    Run run{at};
    for (const Node* n = &nodes_[at]; n->next.size() == 1 && joined(nodes_[n->next[0].block]); n = &nodes_[run.back()]) {
      run.push_back(n->next[0].block);
    }
    found.push_back(std::move(run));
  }
  return found;
}

Block BlockGraph::block_of(const Run& run) const {
  Block block;
  std::unordered_set<Role> there;
  for (const std::uint32_t at : run) {
    block.tokens.push_back(nodes_[at].token);
    block.time += time_of(nodes_[at]);
    const Idioms& idioms = idioms_of(nodes_[at].idiom);
    for (std::size_t i = 0; i < kIdioms; ++i) block.idioms[i] += idioms[i];
    for (const Lasting& lasting : nodes_[at].lasting) {
      if (!there.insert(lasting.role).second) continue;
      block.lasting.push_back(lasting);
      block.bytes += lasting.bytes;
    }
  }
  return block;
}

std::vector<Block> BlockGraph::blocks(const BlockLimits& limits) const {
  std::vector<Run> pieces;
  for (const Run& run : runs()) cut(run, limits, pieces);
  std::vector<std::uint32_t> first_of(nodes_.size(), kNoBlock);  // the block that begins with that node
  for (std::uint32_t i = 0; i < pieces.size(); ++i) first_of[pieces[i][0]] = i;
  std::vector<Block> found;
  for (const Run& piece : pieces) {
    found.push_back(block_of(piece));
    for (const BlockEdge& edge : nodes_[piece.back()].next) {
      found.back().next.push_back({first_of[edge.block], edge.count});
    }
  }
  for (Block& block : found) {
    std::sort(block.next.begin(), block.next.end(), [&](const BlockEdge& a, const BlockEdge& b) {
      return a.count != b.count ? a.count > b.count : found[a.block].tokens[0] < found[b.block].tokens[0];
    });
  }
  return found;
}

BaseType BlockGraph::base_type() const {
  BaseTypeScale scale;
  for (const Node& node : nodes_) scale.weigh(mark_of(node.idiom), node.time);
  return scale.type();
}

std::size_t BlockGraph::decisions() const {
  return static_cast<std::size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.next.size() > 1; }));
}

}  // namespace outsize::pilot
