#include "predictors/pilot/contexts.h"

#include <algorithm>
#include <utility>

namespace outsize::pilot {

std::span<const Count> Contexts::counts(const Slot& slot) const {
  if (slot.ways <= kInline) return std::span(slot.few).first(slot.ways);
  return rows_[slot.row];
}

std::span<Count> Contexts::counts(Slot& slot) {
  if (slot.ways <= kInline) return std::span(slot.few).first(slot.ways);
  return rows_[slot.row];
}

void Contexts::append(Slot& slot, const Count& way) {
  if (slot.ways < kInline) {
    slot.few[slot.ways++] = way;
    return;
  }
  if (slot.ways == kInline) {
    if (free_rows_.empty()) {
      free_rows_.push_back(static_cast<std::uint32_t>(rows_.size()));
      rows_.emplace_back();
    }
    slot.row = free_rows_.back();
    free_rows_.pop_back();
    rows_[slot.row].assign(slot.few.begin(), slot.few.end());
  }
  rows_[slot.row].push_back(way);
  ++slot.ways;
}

// Keys are mixed already (mix.h): their low bits are as good as any.
std::size_t Contexts::place(std::uint64_t key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = static_cast<std::size_t>(key) & mask;
  while (slots_[at].ways != 0 && slots_[at].key != key) at = (at + 1) & mask;
  return at;
}

std::span<const Count> Contexts::find(std::uint64_t key) const {
  if (slots_.empty()) return {};
  return counts(slots_[place(key)]);
}

// An empty one is filled by whoever asked.
Contexts::Slot& Contexts::slot(std::uint64_t key) {
  constexpr std::size_t kFirst = 64;
  if (slots_.empty()) grow(kFirst);
  std::size_t at = place(key);
  if (slots_[at].ways != 0) return slots_[at];
  if ((size_ + 1) * 3 > slots_.size() * 2) {
    grow(slots_.size() * 2);
    at = place(key);
  }
  ++size_;
  slots_[at].key = key;
  return slots_[at];
}

void Contexts::grow(std::size_t slots) {
  const LargeTable<Slot> before = std::exchange(slots_, LargeTable<Slot>(slots));
  for (const Slot& slot : before) {
    if (slot.ways != 0) slots_[place(slot.key)] = slot;
  }
}

void Contexts::count(std::uint64_t key, std::uint32_t to, std::size_t most) {
  if (size_ >= most) forget(most);
  Slot& slot = this->slot(key);
  const std::span<Count> ways = counts(slot);
  const auto way = std::find_if(ways.begin(), ways.end(), [to](const Count& each) { return each.to == to; });
  if (way == ways.end()) {
    if (slot.ways < kWaysMax) append(slot, {to, 1});
    return;
  }
  if (++way->count < kCountMax) return;
  for (Count& each : ways) each.count = (each.count + 1) / 2;
}

bool Contexts::put(std::uint64_t key, std::span<const Count> counts) {
  Slot& slot = this->slot(key);
  const std::size_t at = static_cast<std::size_t>(&slot - slots_.data()), mask = slots_.size() - 1;
  if (slot.ways > kInline) free_rows_.push_back(slot.row);
  slot.ways = 0;
  for (const Count& way : counts) append(slot, way);
  return ((at - static_cast<std::size_t>(key)) & mask) <= kFarthest;
}

void Contexts::forget(std::size_t most) {
  while (size_ >= most / 4 * 3) {
    const LargeTable<Slot> before = std::exchange(slots_, LargeTable<Slot>(slots_.size()));
    size_ = 0;
    std::vector<Count> left;
    for (const Slot& slot : before) {
      left.clear();
      for (const Count& way : counts(slot)) {
        if (way.count >= 2) left.push_back({way.to, way.count / 2});
      }
      if (slot.ways > kInline) free_rows_.push_back(slot.row);
      if (!left.empty()) put(slot.key, left);
    }
  }
}

std::vector<std::uint64_t> Contexts::keys() const {
  std::vector<std::uint64_t> keys;
  keys.reserve(size_);
  for (const Slot& slot : slots_) {
    if (slot.ways != 0) keys.push_back(slot.key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

Bytes Contexts::bytes() const {
  std::size_t bytes = slots_.size() * sizeof(Slot) + rows_.size() * sizeof(rows_[0]);
  for (const auto& row : rows_) bytes += row.capacity() * sizeof(Count);
  return static_cast<Bytes>(bytes);
}

}  // namespace outsize::pilot
