// Sizes and switches of `deepum`. What the paper fixes and what is ours: docs/adr/0010-deepum.md.
//
// J. Jung, J. Kim, J. Lee: DeepUM: Tensor Migration and Prefetching in Unified Memory. ASPLOS 2023.
// What the paper calls a kernel is an op here.
#pragma once

#include <cstdint>

namespace outsize::deepum {

struct PredictorOptions {
  // Ops foreseen (the paper's prefetch degree N).
  std::uint32_t degree = 32;
  // Off: the chain ends with the next op.
  bool chaining = true;
  // Execution IDs remembered, each with its block table; the one longest not used makes way.
  std::uint32_t executions = 32'768;
  // How many of an op's operands go into its execution ID, besides its site. 0: the site alone.
  std::uint32_t key_operands = 8;
  // Contexts (three execution IDs before one, or sixteen) remembered of all together, each with what came next:
  // two of an op that runs.
  std::uint32_t records = 262'144;
  // Off: three alone, as in the paper.
  bool long_contexts = true;
  // A block table: rows x ways entries, each with `successors` on every one of `levels`.
  std::uint32_t rows = 8, ways = 2, successors = 4, levels = 2;
  // Blocks that are foreseen of one op at most.
  std::uint32_t walk = 64;
  // Names of extents remembered.
  std::uint32_t blocks = 262'144;
};

}  // namespace outsize::deepum
