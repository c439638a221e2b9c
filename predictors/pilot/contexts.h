// What followed in which context, counted: a table of bounded size from keys to small rows of counts. Hardly any context
// is met twice in a row and most have one or two ways on, so that a look costs what memory takes: a slot is half a line of
// the cache and has room for two ways, more lie apart. Open addressing, linear probing, at most two thirds full.
//
// Past its bound contexts that came seldom are forgotten: all counts are halved until a quarter has none left.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/large_table.h"
#include "core/base/types.h"

namespace outsize::pilot {

struct Count {
  std::uint32_t to = 0;
  std::uint32_t count = 0;
};

class Contexts {
 public:
  static constexpr std::uint32_t kCountMax = 64;
  static constexpr std::size_t kWaysMax = 64;

  // Empty where nothing followed yet. Valid until something is counted.
  std::span<const Count> find(std::uint64_t key) const;
  // It will be looked at: many looks at once cost hardly more than one.
  void prefetch(std::uint64_t key) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[static_cast<std::size_t>(key) & (slots_.size() - 1)]);
  }
  // `to` followed; of a table that holds at most `most` contexts.
  void count(std::uint64_t key, std::uint32_t to, std::size_t most);
  // As a saved model has it: at least one way, at most kWaysMax; in place of what was counted there. False where
  // keys lie closer together than mixed ones ever do.
  bool put(std::uint64_t key, std::span<const Count> counts);

  std::size_t size() const { return size_; }
  std::vector<std::uint64_t> keys() const;  // in ascending order
  Bytes bytes() const;

 private:
  static constexpr std::size_t kInline = 2;
  static constexpr std::size_t kFarthest = 2048;  // slots from where a key belongs
  struct Slot {
    std::uint64_t key = 0;
    std::array<Count, kInline> few{};
    std::uint32_t ways = 0;  // 0: an empty slot
    std::uint32_t row = 0;   // in rows_, where there are more than few
  };
  static_assert(sizeof(Slot) == 32);

  std::span<const Count> counts(const Slot& slot) const;
  std::span<Count> counts(Slot& slot);
  void append(Slot& slot, const Count& way);
  // Where the key is or would be.
  std::size_t place(std::uint64_t key) const;
  Slot& slot(std::uint64_t key);
  void grow(std::size_t slots);
  void forget(std::size_t most);

  LargeTable<Slot> slots_;  // a power of two, or none
  std::size_t size_ = 0;
  std::vector<std::vector<Count>> rows_;
  std::vector<std::uint32_t> free_rows_;
};

}  // namespace outsize::pilot
