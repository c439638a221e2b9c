// The judge of schedules: plays one from first principles, instant by instant, under the rules of
// chain.h, and works out its time and its peak. It shares no code with the solvers, only the chain.
#pragma once

#include "planners/weights/schedule.h"

namespace outsize::weights {

struct Replayed {
  Nanos time = 0;
  Bytes peak = 0;
  Nanos stall = 0;  // time in which no op runs
  Bytes up = 0, down = 0;
};

// kInvalidArgument, saying what went wrong where: an op without its weight, ops or transfers of one
// direction that overlap, a fetch or a drop without a valid copy below, a weight sent while it is
// changed, a step that ends in another state than it began. kOutOfBudget: more than `memory`.
Result<Replayed> replay(const Chain& chain, Bytes memory, const Schedule& schedule);

}  // namespace outsize::weights
