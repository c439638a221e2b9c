// Execution blocks, the unit of prediction and of prefetch in DyNN-Offload (Ren et al., HPCA 2024): runs of ops with
// one way in, so that once one has begun its ops are certain. How that system cuts them is not public; this is ours.
//
// Of every token (tokens.h) that a step has shown it is kept what came after it and what before. Two tokens are of one
// block where neither was ever seen beside another: every step that goes a way of its own may split such runs, never
// join them. Then long runs are cut, with the times and the rate of now: a block's bytes have to fit a buffer, and while
// it computes the next one's have to come, as far as it is one like it. Whoever wants the same cuts later keeps them.
//
// What kind of work a block is: the sum of its ops' idioms (core/base/idioms.h), with its time and its bytes.
//
// A block's name is its first token. Costs: a step O(ops) where few ways part, blocks O(tokens) when asked.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/idioms.h"
#include "predictors/pilot/tokens.h"

namespace outsize::pilot {

// Something that lasts, and that an op works on.
struct Lasting {
  Role role = kNoRole;
  Bytes bytes = 0;
};

struct TokenUse {
  Token token = 0;
  Nanos time = 0;  // until the next op, without waits
  std::span<const Lasting> lasting = {};
  IdiomClass idiom = kNoIdiomClass;
};

struct BlockLimits {
  Bytes bytes = 0;         // of one block: half of what two buffers hold; 0: none
  std::uint64_t rate = 0;  // bytes a second that come; 0: no block is cut for the sake of time
};

struct BlockEdge {
  std::uint32_t block = 0;
  std::uint64_t count = 0;  // steps went on there so often
};

struct Block {
  std::vector<Token> tokens;  // in order; the first names it
  Nanos time = 0;             // mean
  Bytes bytes = 0;            // of what lasts
  std::vector<Lasting> lasting;  // in the order of first use
  std::array<std::uint32_t, kIdioms> idioms{};  // of all its ops
  std::vector<BlockEdge> next;  // the most frequent first, then by token
};

inline constexpr std::uint32_t kNoBlock = 0xffffffffU;

class BlockGraph {
 public:
  // What a step did, from its first op to its last.
  void step(std::span<const TokenUse> path);
  std::uint64_t steps() const { return steps_; }
  std::size_t tokens() const { return nodes_.size(); }

  // As the steps so far tell; in the order in which their first tokens were first seen.
  std::vector<Block> blocks(const BlockLimits& limits) const;
  // As its ops say, weighed by the time that they took.
  BaseType base_type() const;
  // Of tokens with several successors: where a path is decided.
  std::size_t decisions() const;

 private:
  struct Node {
    Token token = 0;
    std::uint64_t count = 0;
    Nanos time = 0;  // sum
    IdiomClass idiom = kNoIdiomClass;
    std::vector<Lasting> lasting;
    bool starts = false, ends = false, several_before = false;
    std::uint32_t before = kNoBlock;  // the only one
    std::vector<BlockEdge> next;      // to nodes, in the order of first sight
  };
  std::uint32_t node(Token token);
  void pass(std::uint32_t from, std::uint32_t to);
  bool joined(const Node& to) const;
  using Run = std::vector<std::uint32_t>;  // nodes
  std::vector<Run> runs() const;
  void cut(const Run& run, const BlockLimits& limits, std::vector<Run>& out) const;
  Block block_of(const Run& run) const;
  Nanos time_of(const Node& node) const { return node.count == 0 ? 0 : node.time / static_cast<Nanos>(node.count); }

  std::vector<Node> nodes_;
  std::unordered_map<Token, std::uint32_t> index_;
  std::uint64_t steps_ = 0;
};

}  // namespace outsize::pilot
