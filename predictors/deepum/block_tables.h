// DeepUM's block-correlation tables, one for each execution ID: which block was used after which
// within that op, and with which block it began and ended.
//
// A table has rows x ways entries. A block's row is its number modulo the rows; within a row the entry
// longest not used makes way. An entry holds, for each level, the blocks that came one, two, ... places
// after it, the latest first. A walk from the start block over successors of every level gives back
// what the op uses; a hole that a conflict tore is bridged by the next level.
#pragma once

#include <span>
#include <vector>

#include "predictors/deepum/block_names.h"
#include "predictors/deepum/options.h"

namespace outsize::deepum {

class BlockTables {
 public:
  explicit BlockTables(const PredictorOptions& options)
      : rows_(options.rows), ways_(options.ways), successors_(options.successors),
        levels_(options.levels), walk_max_(options.walk),
        entry_words_(1 + options.levels * options.successors),
        table_words_(kHead + static_cast<std::size_t>(rows_) * ways_ * entry_words_) {}
  // Makes room for the tables of execution IDs below `count`.
  void ensure(std::uint32_t count) { words_.resize(count * table_words_, kNone); }
  void clear(std::uint32_t execution);
  // What the op used this time, in order.
  void learn(std::uint32_t execution, std::span<const BlockId> blocks);
  // What it is expected to use, each block once and `walk` at most, start first; a view until the next walk.
  std::span<const BlockId> walk(std::uint32_t execution);
  Bytes bytes() const {
    return static_cast<Bytes>((words_.capacity() + stamp_.capacity()) * sizeof(std::uint32_t));
  }

 private:
  static constexpr std::size_t kHead = 2;  // start and end block
  std::uint32_t* table(std::uint32_t execution) { return words_.data() + execution * table_words_; }
  std::uint32_t* row(std::uint32_t execution, BlockId block) {
    return table(execution) + kHead + static_cast<std::size_t>(block % rows_) * ways_ * entry_words_;
  }
  std::uint32_t* find(std::uint32_t execution, BlockId block);
  std::uint32_t* touch(std::uint32_t execution, BlockId block);
  void visit(BlockId block);

  std::uint32_t rows_, ways_, successors_, levels_, walk_max_;
  std::size_t entry_words_, table_words_;
  std::vector<std::uint32_t> words_;  // the tables, one after another
  std::vector<BlockId> walk_;         // scratch
  std::vector<std::uint32_t> stamp_;  // by block: the walk that met it last
  std::uint32_t walks_ = 0;
};

}  // namespace outsize::deepum
