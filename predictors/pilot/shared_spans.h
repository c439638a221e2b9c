// Which ops of a step used each extent that small storages share. Who lies in such an extent changes, so that names and
// things (tokens.h, network.h) say nothing of it; but backward returns to what was made, and with it to the extents in
// which that lies. What is used all the time is not told of: it is hardly ever away.
//
// Bounded: of a step that uses more than kMax of them the older half is forgotten. Costs: O(1) a use; a look
// O(log extents + kLooks).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/types.h"

namespace outsize::pilot {

class SharedSpans {
 public:
  static constexpr std::size_t kMax = 1U << 16;

  // Ops are told in ascending order.
  void use(ExtentId id, std::uint64_t op) {
    if (id >= row_.size()) row_.resize(id + 1 + id / 2, kNone);
    if (row_[id] == kNone) {
      if (spans_.size() >= kMax) forget_half();
      row_[id] = static_cast<std::uint32_t>(spans_.size());
      spans_.push_back({id, op, op});
    }
    spans_[row_[id]].last = op;
  }
  void die(ExtentId id) {
    if (id >= row_.size() || row_[id] == kNone) return;
    spans_[row_[id]].id = kNoExtent;
    row_[id] = kNone;
  }
  // The step has ended.
  void clear() {
    for (const Span& span : spans_) {
      if (span.id != kNoExtent) row_[span.id] = kNone;
    }
    spans_.clear();
  }
  Bytes bytes() const {
    return static_cast<Bytes>(spans_.capacity() * sizeof(Span) + row_.capacity() * sizeof(row_[0]));
  }
  // What was used from before that op or just after it until then or longer: an op's results are used by those that follow.
  template <class Tell>
  void at(std::uint64_t op, const Tell& tell) const {
    const auto later = [](std::uint64_t most, const Span& span) { return most < span.first; };
    auto span = std::upper_bound(spans_.begin(), spans_.end(), op + kFollows, later);
    for (std::size_t looks = 0; span != spans_.begin() && looks < kLooks; ++looks) {
      --span;
      if (span->id != kNoExtent && span->last >= op && span->last - span->first <= kWidest) tell(span->id);
    }
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;
  static constexpr std::uint64_t kFollows = 2;
  static constexpr std::uint64_t kWidest = 256;
  static constexpr std::size_t kLooks = 16;
  struct Span {
    ExtentId id = kNoExtent;  // that one once it is dead
    std::uint64_t first = 0, last = 0;
  };
  void forget_half() {
    const auto middle = spans_.begin() + static_cast<std::ptrdiff_t>(spans_.size() / 2);
    for (const Span& span : spans_) {
      if (span.id != kNoExtent) row_[span.id] = kNone;
    }
    spans_.erase(spans_.begin(), middle);
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      if (spans_[i].id != kNoExtent) row_[spans_[i].id] = static_cast<std::uint32_t>(i);
    }
  }

  std::vector<Span> spans_;         // in the order of first use
  std::vector<std::uint32_t> row_;  // by extent
};

}  // namespace outsize::pilot
