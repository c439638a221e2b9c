// DeepUM's foresight on blocks of addresses: an execution ID is an op site with the addresses that it is given; what the
// op used, its results included, is learned by the tables of predictors/deepum when it is over; the chain says which blocks
// the running op and the next N are expected to use. N is cut to what the device has room for, as docs/adr/0010-deepum.md
// has it and why.
//
// A driver sees faults only. Here the tables learn all blocks that an op uses, in DeepUM's favour: what was prefetched is
// remembered as well as what faulted.
#pragma once

#include <span>
#include <vector>

#include "predictors/deepum/chain.h"
#include "sim/uvm/blocks.h"

namespace outsize::sim::uvm {

class Foresight {
 public:
  explicit Foresight(const deepum::PredictorOptions& options) : chain_(options) {}

  // An op begins: where its operands lie.
  void begin(SiteId site, bool in_backward, std::span<const Bytes> addresses);
  // The running op uses it.
  void used(BlockId block);
  // What the running op and the next ones are expected to use, the soonest first, `most` blocks at most, and of the next
  // ones only those ops of which everything is in it.
  std::span<const BlockId> expected(std::size_t most);
  Bytes table_bytes() const { return chain_.bytes(); }

 private:
  deepum::Chain chain_;
  std::vector<BlockId> used_;           // by the running op, in order
  std::vector<std::uint64_t> used_at_;  // by block: the op that used it last
  std::vector<BlockId> expected_;
  std::vector<std::uint64_t> noted_at_;
  std::uint64_t ops_ = 0, asked_ = 0;
};

}  // namespace outsize::sim::uvm
