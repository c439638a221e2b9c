// One step of a chain with all that moves in it, as a solver hands it over and the judge
// (replay.h) reads it. Instants count from the step's begin.
#pragma once

#include <vector>

#include "planners/weights/chain.h"

namespace outsize::weights {

// A weight between two steps. Absent means that the copy below is valid; so does kClean.
enum class Border : unsigned char { kAbsent, kClean, kDirty };

enum class Move : unsigned char { kUp, kDown, kDrop };

struct Transfer {
  Move move = Move::kUp;
  std::size_t layer = 0;  // from 0
  Nanos start = 0;        // of a drop: the instant
};

struct Schedule {
  std::vector<Border> border;       // one a layer: how the step begins, and ends
  std::vector<Nanos> op_start;      // one an op
  std::vector<Transfer> transfers;  // in order of start; at the same instant drops come first
  Nanos time = 0;                   // claimed: when the last op and the last transfer have ended
  Bytes peak = 0;                   // claimed
};

}  // namespace outsize::weights
