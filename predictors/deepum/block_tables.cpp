#include "predictors/deepum/block_tables.h"

#include <algorithm>

namespace outsize::deepum {

void BlockTables::clear(std::uint32_t execution) {
  std::fill_n(table(execution), table_words_, kNone);
}

std::uint32_t* BlockTables::find(std::uint32_t execution, BlockId block) {
  std::uint32_t* entry = row(execution, block);
  for (std::uint32_t way = 0; way < ways_; ++way, entry += entry_words_) {
    if (*entry == block) return entry;
  }
  return nullptr;
}

// The block's entry, now the first of its row; a new one where it had none.
std::uint32_t* BlockTables::touch(std::uint32_t execution, BlockId block) {
  std::uint32_t* const first = row(execution, block);
  if (*first == block) return first;
  std::uint32_t* at = find(execution, block);
  if (at == nullptr) {
    at = first + (ways_ - 1) * entry_words_;
    std::fill_n(at, entry_words_, kNone);
    *at = block;
  }
  std::rotate(first, at, at + entry_words_);
  return first;
}

void BlockTables::learn(std::uint32_t execution, std::span<const BlockId> blocks) {
  std::uint32_t* const head = table(execution);
  head[0] = blocks.empty() ? kNone : blocks.front();
  head[1] = blocks.empty() ? kNone : blocks.back();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::uint32_t* level = touch(execution, blocks[i]) + 1;
    for (std::size_t after = i + 1; after <= i + levels_ && after < blocks.size(); ++after) {
      const BlockId next = blocks[after];
      if (*level != next) {  // to the front of this level; the last one makes way
        std::uint32_t* const end = level + successors_;
        std::uint32_t* const at = std::find(level, end, next);
        std::copy_backward(level, at == end ? end - 1 : at, at == end ? end : at + 1);
        *level = next;
      }
      level += successors_;
    }
  }
}

void BlockTables::visit(BlockId block) {
  if (block >= stamp_.size()) stamp_.resize(block + 1 + block / 2, 0);
  if (stamp_[block] == walks_ || walk_.size() == walk_max_) return;
  stamp_[block] = walks_;
  walk_.push_back(block);
}

std::span<const BlockId> BlockTables::walk(std::uint32_t execution) {
  walk_.clear();
  if (++walks_ == 0) {  // the counter went round
    std::fill(stamp_.begin(), stamp_.end(), 0);
    walks_ = 1;
  }
  const std::uint32_t* const head = table(execution);
  const BlockId start = head[0], end = head[1];
  if (start == kNone) return {};
  visit(start);
  // Near successors of every block first. What is reached after the end block is left out: the op
  // may use it, but then on another path than the last one.
  for (std::size_t i = 0; i < walk_.size() && walk_[i] != end; ++i) {
    const std::uint32_t* const entry = find(execution, walk_[i]);
    if (entry == nullptr) continue;
    for (std::uint32_t s = 0; s < levels_ * successors_; ++s) {
      if (entry[1 + s] != kNone) visit(entry[1 + s]);
    }
  }
  if (end != start) visit(end);
  return walk_;
}

}  // namespace outsize::deepum
