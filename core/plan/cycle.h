// One step as it is expected to come again and again: for planners that settle a whole step at once.
// Plain values; a predictor that has seen such a step fills them in.
#pragma once

#include <vector>

#include "core/base/types.h"

namespace outsize {

inline constexpr std::uint32_t kNoGap = 0xffffffffU;
inline constexpr std::uint32_t kNoPlace = 0xffffffffU;

struct Cycle {
  // Between two uses of an extent, or after its last one. It may be away in all the ops within: `count` ops
  // from `first` on, past the step's end and on from its begin.
  struct Gap {
    Bytes bytes = 0;  // 0: there is no gap of this number
    std::uint32_t first = 0, count = 0;
    // In gaps of the same version the bytes are the same, so that one write serves all; 0: they are the same
    // in every step.
    std::uint32_t version = 0;
    std::uint32_t twin = kNoGap;  // the number that this gap has from the next step's begin on
    std::uint32_t owner = 0;      // gaps of one owner are of the same extent
    bool returns = false;         // it is used after the gap; else it dies
    bool changed = false;         // by the use with which the gap begins, or born there
    bool lasts = false;           // the extent lives through the step: a weight, a state
    bool operator==(const Gap&) const = default;
  };

  std::vector<Bytes> more;     // by op: most bytes alive while it runs, beyond those when the step begins
  std::vector<Gap> gaps;       // by number (Predictor::gap_of)
  std::uint32_t versions = 1;  // version numbers are below
  bool operator==(const Cycle&) const = default;
};

}  // namespace outsize
