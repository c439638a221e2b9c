// Names for extents that mean the same in every step, as addresses do for DeepUM: a *block*. Its
// extents come and go; at most one holds it at a time.
//
// A block is "the k-th birth of this op site, while n like it are alive": the least n that is free is
// taken, as a caching allocator hands out again the address that became free. What was alive before
// anybody looked has a name of its own, until it dies.
//
// Bounded: beyond `max` names a dead one is taken over, and where none is found the extent goes
// without a name, that is, unforeseen. Costs: O(1) but for a short search at a birth.
#pragma once

#include "core/residency/extent.h"
#include "predictors/deepum/key_index.h"

namespace outsize::deepum {

using BlockId = std::uint32_t;

class BlockNames {
 public:
  explicit BlockNames(std::uint32_t max) : max_(max) {}
  // The block that `id` holds; kNone if it has no name.
  BlockId of(ExtentId id) const { return id < held_.size() ? held_[id] : kNone; }
  // The same, but names it if it has none.
  BlockId seen(ExtentId id);
  void born(ExtentId id, SiteId site, std::uint32_t ordinal, Bytes bytes);
  void died(ExtentId id);
  // kNoExtent: what holds it is dead or not yet born.
  ExtentId holder(BlockId block) const { return blocks_[block].holder; }
  // An extent of small storages: which of them a small storage lies in depends on what was packed
  // before it, so that it says nothing of the op.
  bool packed(BlockId block) const { return blocks_[block].packed; }
  BlockId size() const { return static_cast<BlockId>(blocks_.size()); }
  Bytes bytes() const;

 private:
  struct Block {
    std::uint64_t family = 0;       // site and ordinal; 0: a name that does not recur
    ExtentId holder = kNoExtent;
    std::uint32_t instance = 0;
    BlockId first = kNone;          // of its family: instance 0
    std::uint32_t free_from = 0;    // of instance 0: below it every instance is taken
    bool packed = false;
  };
  void hold(BlockId block, ExtentId id);
  BlockId fresh();
  BlockId named(std::uint64_t family, std::uint32_t instance);
  BlockId free_instance(std::uint64_t family);

  static constexpr std::uint32_t kProbesMax = 64;
  std::uint32_t max_;
  std::vector<Block> blocks_;
  std::vector<BlockId> spare_;   // of names that do not recur, free again
  std::vector<BlockId> held_;    // by extent
  KeyIndex index_;
  BlockId hand_ = 0;             // where the search for a dead name goes on
};

}  // namespace outsize::deepum
