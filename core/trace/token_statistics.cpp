#include "core/trace/token_statistics.h"

#include <algorithm>
#include <cstring>

namespace outsize::trace {
namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 40;  // elements

std::uint64_t bits_at(const char* at, int item) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(item));  // little-endian, as all machines that this runs on
  return bits;
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

void count(std::vector<std::uint64_t>& row, TokenStatistics& out) {
  std::sort(row.begin(), row.end());
  std::size_t distinct = 0, commonest = 0;
  for (auto from = row.begin(); from != row.end(); ++distinct) {
    const auto to = std::upper_bound(from, row.end(), *from);
    commonest = std::max(commonest, static_cast<std::size_t>(to - from));
    from = to;
  }
  out.distinct.push_back(static_cast<double>(distinct));
  out.commonest.push_back(static_cast<double>(commonest));
}

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
  const auto rows = static_cast<std::size_t>(static_cast<std::int64_t>(TokenStatistics::kElementsMax) / length);
  std::vector<std::int64_t> place(outer, 0);
  std::vector<std::uint64_t> row;
  std::int64_t offset = 0;
  for (std::size_t r = 0; r < std::min(rows, TokenStatistics::kRowsMax); ++r) {
    row.clear();
    for (std::int64_t i = 0; i < length; ++i) row.push_back(bits_at(view.data + (offset + i * stride) * view.item, view.item));
    for (std::size_t i = 0; whole && i < row.size() && out.values.size() < TokenStatistics::kValuesMax; ++i) {
      out.values.push_back(number_of(row[i], view));
    }
    count(row, out);
    if (!next_row(view, place, offset)) break;
  }
  return out;
}

}  // namespace outsize::trace
