#include "predictors/deepum/window.h"

namespace outsize::deepum {

void Window::push(ExecutionId execution, std::span<const BlockId> blocks, Position position) {
  ops_[wrap(first_ + count_)] = {execution, static_cast<std::uint32_t>(blocks.size())};
  ++count_;
  for (const BlockId block : blocks) {
    if (block >= uses_.size()) uses_.resize(block + 1 + block / 2);
    Uses& uses = uses_[block];
    const std::uint32_t item = items_end_;
    items_end_ = wrap_item(items_end_ + 1);
    items_[item] = {position, block, kNone};
    (uses.first == kNone ? uses.first : items_[uses.last].next) = item;
    uses.last = item;
  }
}

void Window::pop() {
  for (std::uint32_t i = 0; i < ops_[first_].blocks; ++i) {
    const Item& item = items_[items_first_];
    uses_[item.block].first = item.next;
    items_first_ = wrap_item(items_first_ + 1);
  }
  first_ = wrap(first_ + 1);
  --count_;
}

}  // namespace outsize::deepum
