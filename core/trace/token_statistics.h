// What a small tensor's values say of the work to come, beyond its shape: how many different ones a row has, how often
// its commonest comes, and where they are whole numbers (bytes of text, tokens, classes) the first of them. Looked at
// where paths depend on it, as those of early exits do; DyNN-Offload's pilot is given the sample itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/types.h"

namespace outsize::trace {

struct TensorView {
  const char* data = nullptr;
  int item = 0;  // bytes of an element: 1, 2, 4 or 8
  enum class Numbers : std::uint8_t { kSigned, kUnsigned, kOther } numbers = Numbers::kOther;
  std::span<const std::int64_t> sizes, strides;  // in elements

  // From data to the end of the last element; 0 where there is none, or what nobody could look at.
  Bytes span() const;
};

// Rows are what lies along the last dimension.
struct TokenStatistics {
  static constexpr std::size_t kRowsMax = 64;
  static constexpr std::size_t kElementsMax = 16384;  // of a tensor; of a larger one whole rows, as far as they fit
  static constexpr std::size_t kValuesMax = 1024;

  std::vector<double> values;     // the first, of whole numbers
  std::vector<double> distinct;   // by row: how many different values
  std::vector<double> commonest;  // by row: how often that one comes
};

TokenStatistics statistics_of(const TensorView& view);

}  // namespace outsize::trace
