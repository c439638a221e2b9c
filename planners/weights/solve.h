// Selection and insertion together, and the lower bound that their answers are held against.
#pragma once

#include "planners/weights/schedule.h"
#include "planners/weights/select.h"

namespace outsize::weights {

// kOutOfBudget: this solver finds no schedule for this memory.
Result<Schedule> solve(const Chain& chain, Bytes memory, Solver solver, const Options& options = {});

// No schedule of chain.h is quicker than this. kOutOfBudget: none exists, some op does not fit.
//
// T is at least, with W the bytes of all weights and X(s) = max(0, running(s) + W - memory), which are
// absent at least when op s starts, and have to be above at their next use:
//   * the ops and what each waits at least for the weight after its neighbour's (least_waits()).
//     These together are what is called path below;
//   * up(max(X(F_1), X(B_1))) + up(max(X(F_L), X(B_L))): what is absent at the step's border comes
//     before F_L starts, what is absent at its turn comes after that and before B_1;
//   * for either cut, F_L or B_L: max(path up to it, up(X(F_1))) + max(path from it on, up(X(cut)) +
//     B_1), for the same reason (with F_L added before the cut B_L);
//   * down(max X): every weight is changed in every step, so what is absent once is sent once.
Result<Nanos> lower_bound(const Chain& chain, Bytes memory);

}  // namespace outsize::weights
