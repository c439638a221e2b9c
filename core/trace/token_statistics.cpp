#include "core/trace/token_statistics.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace outsize::trace {
namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 40;  // elements

// Little-endian, as all machines that this runs on.
template <class Item>
void read_row(const char* at, std::int64_t length, std::int64_t stride, std::vector<std::uint64_t>& row) {
  for (std::int64_t i = 0; i < length; ++i) {
    Item item;
    std::memcpy(&item, at + i * stride * static_cast<std::int64_t>(sizeof item), sizeof item);
    row.push_back(item);
  }
}

auto row_reader(int item) {
  return item == 1   ? read_row<std::uint8_t>
         : item == 2 ? read_row<std::uint16_t>
         : item == 4 ? read_row<std::uint32_t>
                     : read_row<std::uint64_t>;
}

double number_of(std::uint64_t bits, const TensorView& view) {
  if (view.numbers == TensorView::Numbers::kUnsigned) return static_cast<double>(bits);
  const int shift = 64 - 8 * view.item;
  return static_cast<double>(static_cast<std::int64_t>(bits << shift) >> shift);
}

bool is_known(const TensorView& view) {
  const bool item = view.item == 1 || view.item == 2 || view.item == 4 || view.item == 8;
  return view.data != nullptr && item && view.sizes.size() == view.strides.size();
}

// How often each value of a row comes: open addressing, at most half full; a row begins by counting rows, not by clearing.
// The program waits while its sample is looked at, and sorting each row takes seven to twelve times as long.
class RowCounter {
 public:
  explicit RowCounter(std::size_t longest) : slots_(std::bit_ceil(2 * longest)), shift_(64 - std::bit_width(slots_.size() - 1)) {}
  void count(std::span<const std::uint64_t> row, TokenStatistics& out) {
    ++row_;
    std::uint32_t distinct = 0, commonest = 0;
    for (const std::uint64_t value : row) {
      Slot& slot = slot_of(value);
      if (slot.row != row_) {
        slot = {value, row_, 0};
        ++distinct;
      }
      commonest = std::max(commonest, ++slot.times);
    }
    out.distinct.push_back(distinct);
    out.commonest.push_back(commonest);
  }

 private:
  struct Slot {
    std::uint64_t value = 0;
    std::uint32_t row = 0, times = 0;
  };
  Slot& slot_of(std::uint64_t value) {
    std::size_t at = (value * 0x9E3779B97F4A7C15) >> shift_;
    while (slots_[at].row == row_ && slots_[at].value != value) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  std::vector<Slot> slots_;
  int shift_;
  std::uint32_t row_ = 0;
};

// On to the next row; false past the last.
bool next_row(const TensorView& view, std::vector<std::int64_t>& place, std::int64_t& offset) {
  for (std::size_t d = place.size(); d-- > 0;) {
    offset += view.strides[d];
    if (++place[d] < view.sizes[d]) return true;
    offset -= place[d] * view.strides[d];
    place[d] = 0;
  }
  return false;
}

}  // namespace

Bytes TensorView::span() const {
  if (!is_known(*this)) return 0;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] <= 0 || sizes[d] > kFar || strides[d] < 0 || strides[d] > kFar) return 0;
    if (__builtin_add_overflow(last, (sizes[d] - 1) * strides[d], &last) || last > kFar) return 0;
  }
  return (last + 1) * item;
}

TokenStatistics statistics_of(const TensorView& view) {
  TokenStatistics out;
  if (view.span() == 0) return out;
  const bool whole = view.numbers != TensorView::Numbers::kOther;
  const std::size_t outer = view.sizes.empty() ? 0 : view.sizes.size() - 1;
  const std::int64_t length = view.sizes.empty() ? 1 : view.sizes[outer];
  const std::int64_t stride = view.sizes.empty() ? 1 : view.strides[outer];
  const std::size_t rows = TokenStatistics::kElementsMax / static_cast<std::size_t>(length);
  std::vector<std::int64_t> place(outer, 0);
  if (rows == 0) return out;
  const auto read = row_reader(view.item);
  RowCounter counter(static_cast<std::size_t>(length));
  std::vector<std::uint64_t> row;
  row.reserve(static_cast<std::size_t>(length));
  std::int64_t offset = 0;
  for (std::size_t r = 0; r < std::min(rows, TokenStatistics::kRowsMax); ++r) {
    row.clear();
    read(view.data + offset * view.item, length, stride, row);
    for (std::size_t i = 0; whole && i < row.size() && out.values.size() < TokenStatistics::kValuesMax; ++i) {
      out.values.push_back(number_of(row[i], view));
    }
    counter.count(row, out);
    if (!next_row(view, place, offset)) break;
  }
  return out;
}

}  // namespace outsize::trace
