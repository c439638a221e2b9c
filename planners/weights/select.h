// Which weights are away, and in which of their gaps: as if the links were infinitely fast.
//
// Every weight starts above. As long as some op does not fit, the gap that covers most of the
// overflow is taken: min(overflow, weight), summed over the ops within the gap. That rule, and that
// "a coefficient is introduced for single offloading", is what the talk says (chain.h). Decided
// here:
//   * The three solvers differ in the gaps they may take:
//       single    forward to backward only, the special case of the talk;
//       greedy    either gap, but only one a weight: a weight leaves once a step;
//       greedy*   either gap, and both: a weight may leave twice.
//   * The coefficient multiplies what a forward-to-backward gap covers, because leaving so is
//     cheaper: no op has to wait for the send. In greedy* the second gap of a weight, whichever it
//     is, counts without it.
//   * Overflow is summed over ops. `by_time` weighs each op with its time instead.
//   * At a tie: the lower layer, then forward to backward.
#pragma once

#include <array>
#include <vector>

#include "planners/weights/chain.h"

namespace outsize::weights {

enum class Solver : unsigned char { kSingle, kGreedy, kGreedyStar };

inline const char* name_of(Solver solver) {
  return solver == Solver::kSingle ? "single" : solver == Solver::kGreedy ? "greedy" : "greedy*";
}

struct Options {
  // The coefficient, a ratio: 3/2 unless said otherwise, since leaving twice moves three times the
  // weight's bytes and leaving once moves them twice.
  std::int64_t coefficient_num = 3, coefficient_den = 2;
  bool by_time = false;
};

enum Gap : unsigned char { kForwardToBackward, kBackwardToForward };

struct Away {
  std::array<bool, 2> in{false, false};  // by Gap
  bool any() const { return in[0] || in[1]; }
};

// Whether `op` lies strictly within that gap of the layer: the weight is not used, and may be away.
inline bool within(const Timeline& line, std::size_t layer, Gap gap, std::size_t op) {
  if (gap == kForwardToBackward) return op > line.forward_op(layer) && op < line.backward_op(layer);
  return op < line.forward_op(layer) || op > line.backward_op(layer);
}

// One entry a layer. kOutOfBudget: what the solver may take does not suffice for this memory.
Result<std::vector<Away>> select(const Chain& chain, Bytes memory, Solver solver,
                                 const Options& options);

}  // namespace outsize::weights
