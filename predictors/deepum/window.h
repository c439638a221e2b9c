// The ops foreseen, with the blocks that each is expected to use: a queue at whose front ops come
// true and at whose end the chain goes on. Answers when a block is used next in O(1). Of fixed size.
#pragma once

#include <span>
#include <vector>

#include "core/residency/extent.h"
#include "predictors/deepum/block_names.h"
#include "predictors/deepum/executions.h"

namespace outsize::deepum {

class Window {
 public:
  // `walk`: blocks of one op at most.
  Window(std::uint32_t degree, std::uint32_t walk)
      : ops_(degree), items_(static_cast<std::size_t>(degree) * walk) {}
  std::uint32_t size() const { return count_; }
  ExecutionId front() const { return ops_[first_].execution; }
  ExecutionId at(std::uint32_t ahead) const { return ops_[wrap(first_ + ahead)].execution; }
  // `position`: where the op will stand.
  void push(ExecutionId execution, std::span<const BlockId> blocks, Position position);
  void pop();
  void clear() {
    while (count_ > 0) pop();
  }
  // kNever: not within the window.
  Position next_use(BlockId block) const {
    return block < uses_.size() && uses_[block].first != kNone ? items_[uses_[block].first].position : kNever;
  }
  // Calls visit(ops ahead, block) for each block at its next use, the soonest first.
  template <class Visit>
  void each(Visit visit) const {
    std::uint32_t item = items_first_;
    for (std::uint32_t ahead = 0; ahead < count_; ++ahead) {
      const Op& op = ops_[wrap(first_ + ahead)];
      for (std::uint32_t i = 0; i < op.blocks; ++i, item = wrap_item(item + 1)) {
        if (uses_[items_[item].block].first == item) visit(ahead, items_[item].block);
      }
    }
  }
  Bytes bytes() const {
    return static_cast<Bytes>(ops_.capacity() * sizeof(Op) + items_.capacity() * sizeof(Item) +
                              uses_.capacity() * sizeof(Uses));
  }

 private:
  struct Op {
    ExecutionId execution = kNone;
    std::uint32_t blocks = 0;
  };
  struct Item {
    Position position = 0;
    BlockId block = kNone;
    std::uint32_t next = kNone;  // item of the same block, later
  };
  struct Uses {
    std::uint32_t first = kNone, last = kNone;  // items
  };
  std::uint32_t wrap(std::uint32_t op) const {
    return op < ops_.size() ? op : op - static_cast<std::uint32_t>(ops_.size());
  }
  std::uint32_t wrap_item(std::uint32_t item) const { return item < items_.size() ? item : 0; }

  std::vector<Op> ops_;
  std::vector<Item> items_;
  std::vector<Uses> uses_;  // by block
  std::uint32_t first_ = 0, count_ = 0;
  std::uint32_t items_first_ = 0, items_end_ = 0;
};

}  // namespace outsize::deepum
