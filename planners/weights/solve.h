// Selection and insertion together, and the lower bound that their answers are held against.
#pragma once

#include "planners/weights/schedule.h"
#include "planners/weights/select.h"

namespace outsize::weights {

// kOutOfBudget: this solver finds no schedule for this memory.
Result<Schedule> solve(const Chain& chain, Bytes memory, Solver solver, const Options& options = {});

// No schedule of chain.h is quicker than this. kOutOfBudget: none exists, some op does not fit.
//
// With W the bytes of all weights, at least X(s) = running(s) + W - memory bytes of them are absent
// when op s starts, and each has to be above at its next use. Absent at F_1: fetched before F_L
// starts. Absent at F_L or B_L: fetched after that op has started, before B_1. So these two add up,
// and with the ops beside them:
//     T >= max(time of the ops before the cut, up(X(F_1))) + max(time of the rest, up(X(cut)) + B_1)
// for the cuts F_L and B_L; T >= up(max(X(F_1), X(B_1))) + up(max(X(F_L), X(B_L))); and since every
// weight is changed in every step, whatever is absent once has been sent once: T >= down(max X).
Result<Nanos> lower_bound(const Chain& chain, Bytes memory);

}  // namespace outsize::weights
