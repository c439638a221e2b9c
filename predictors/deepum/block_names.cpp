#include "predictors/deepum/block_names.h"

#include <algorithm>

namespace outsize::deepum {

void BlockNames::hold(BlockId block, ExtentId id) {
  if (id >= held_.size()) held_.resize(id + 1 + id / 2, kNone);
  held_[id] = block;
  if (block != kNone) blocks_[block].holder = id;
}

// A block without a name; kNone where there are too many.
BlockId BlockNames::fresh() {
  if (!spare_.empty()) {
    const BlockId block = spare_.back();
    spare_.pop_back();
    return block;
  }
  if (blocks_.size() < max_) {
    blocks_.emplace_back();
    return size() - 1;
  }
  for (std::uint32_t probe = 0; probe < kProbesMax && probe < size(); ++probe) {
    const BlockId block = hand_ = hand_ + 1 < size() ? hand_ + 1 : 0;
    if (blocks_[block].holder != kNoExtent) continue;
    index_.erase(block);  // dead and not spare: it has a name
    blocks_[block] = Block{};
    return block;
  }
  return kNone;
}

BlockId BlockNames::named(std::uint64_t family, std::uint32_t instance) {
  const BlockId block = fresh();
  if (block == kNone) return kNone;
  blocks_[block].family = family;
  blocks_[block].instance = instance;
  index_.insert(block, mix(family, instance));
  return block;
}

BlockId BlockNames::free_instance(std::uint64_t family) {
  BlockId first = index_.find(mix(family, 0));
  const bool known = first != kNone;
  std::uint32_t instance = known ? blocks_[first].free_from : 0;
  for (std::uint32_t probe = 0; probe < kProbesMax; ++probe, ++instance) {
    BlockId block = index_.find(mix(family, instance));
    if (block != kNone && blocks_[block].holder != kNoExtent) continue;
    if (block == kNone) block = named(family, instance);
    if (block == kNone) return kNone;
    if (!known && instance == 0) first = block;
    blocks_[block].first = first;
    // Taking over a dead name may have hit this family's first: then the search begins anew.
    if (first != kNone && blocks_[first].family == family) blocks_[first].free_from = instance + 1;
    return block;
  }
  return kNone;
}

BlockId BlockNames::seen(ExtentId id) {
  const BlockId known = of(id);
  if (known != kNone) return known;
  const BlockId block = fresh();
  if (block != kNone) blocks_[block] = Block{};
  hold(block, id);
  return block;
}

void BlockNames::born(ExtentId id, SiteId site, std::uint32_t ordinal, Bytes bytes) {
  died(id);
  const std::uint64_t family = std::max<std::uint64_t>(mix(mix(0, site), ordinal), 1);
  const BlockId block = free_instance(family);
  hold(block, id);
  if (block != kNone) blocks_[block].packed = bytes == kSharedBytes;
}

void BlockNames::died(ExtentId id) {
  const BlockId block = of(id);
  if (block == kNone) return;
  held_[id] = kNone;
  Block& b = blocks_[block];
  b.holder = kNoExtent;
  if (b.family == 0) {
    spare_.push_back(block);
    return;
  }
  if (b.first == kNone) return;
  Block& first = blocks_[b.first];
  if (first.family == b.family && first.instance == 0) {
    first.free_from = std::min(first.free_from, b.instance);
  }
}

Bytes BlockNames::bytes() const {
  return static_cast<Bytes>(blocks_.capacity() * sizeof(Block) +
                            (spare_.capacity() + held_.capacity()) * sizeof(BlockId)) + index_.bytes();
}

}  // namespace outsize::deepum
