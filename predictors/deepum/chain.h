// DeepUM's tables at work. An op that begins gets its execution ID, and the tables learn that it
// followed the ones before it. The chain then goes on ahead of it: which execution ID comes next, which
// blocks that uses from its start block to its end block, what comes after that, and so on, `degree`
// ops ahead. As long as it comes true, each op adds one at the end. When it does not, the chain starts
// again at the op that came instead.
//
// What a block is is the caller's: a name for extents (deepum.h), or 2 MiB of addresses (sim/uvm).
#pragma once

#include <span>
#include <utility>

#include "predictors/deepum/block_tables.h"
#include "predictors/deepum/executions.h"
#include "predictors/deepum/options.h"
#include "predictors/deepum/window.h"

namespace outsize::deepum {

class Chain {
 public:
  explicit Chain(const PredictorOptions& options);
  const PredictorOptions& options() const { return options_; }

  // The op whose name and arguments are `key` begins. To be followed by extend(), and before it by
  // learn() where the blocks are known by now.
  ExecutionId begin(std::uint64_t key);
  // What the op uses, or used, in order.
  void learn(ExecutionId id, std::span<const BlockId> blocks) { tables_.learn(id, blocks); }
  // From the end of what is foreseen, `degree` ops ahead of the running one.
  void extend();

  ExecutionId running() const { return running_; }  // kNone: no op has begun
  Position position() const { return position_; }   // of the op after the running one
  const Window& window() const { return window_; }
  Execution& of(ExecutionId id) { return executions_[id]; }
  const Execution& of(ExecutionId id) const { return executions_[id]; }
  // Blocks that it is expected to use; a view until the next call of anything here.
  std::span<const BlockId> blocks_of(ExecutionId id) { return tables_.walk(id); }
  // An op came that was not foreseen: what stood in the chain is no longer expected.
  bool take_rekeyed() { return std::exchange(rekeyed_, false); }
  Bytes bytes() const { return executions_.bytes() + tables_.bytes() + window_.bytes(); }

 private:
  // Ops the chain may gain in one op: bounds the cost of starting again.
  static constexpr std::uint32_t kExtendMax = 8;
  PredictorOptions options_;
  Executions executions_;
  BlockTables tables_;
  Window window_;
  Context context_;                // before the running op
  Context end_context_;            // before the chain's last op
  ExecutionId running_ = kNone;
  Position position_ = 0;
  bool rekeyed_ = false;
};

}  // namespace outsize::deepum
