// The least time in which any planner that only moves bytes can run a program in a budget.
//
// Compute and the disk each for themselves, over a whole step, say less than is true: an optimizer goes through all
// weights, gradients and moments in a moment, and what does not fit cannot come long before it. So for any stretch of a
// program, a window: when it begins at most the budget's bytes are in RAM, so what else it uses of what lives already must
// be read within it; when it ends at most the budget's bytes are in RAM, so what else it made or changed that is used later
// must have been written within it. It takes as long as that or as its compute, whichever is longer, and windows that follow
// one another take the sum. The cut of the program into windows that says most is found by dynamic programming.
//
// Proven for the modelled disk, to a nanosecond a transfer, where every op runs within the budget and the program neither changes
// it nor brings resident memory of its own (kBudget, kAdopt without a file); for the objects that the program has, so with
// small storages packed as trace_program.h packs them; and where what an op writes to is read first and a birth has
// contents, as the engine takes it to be: who knew what is overwritten whole would move less. What ops, faults and commands cost the processors is left out, and latency.
#pragma once

#include <functional>

#include "sim/link.h"
#include "sim/program.h"

namespace outsize::sim {

struct WindowLimit {
  Nanos least = 0;        // from the end of step `after_step` to that of the last
  Nanos compute = 0;      // of these steps
  std::size_t steps = 0;  // 0: there are none, and nothing is said
};

// The least time for bytes that may be read and written in any order or together.
Nanos least_transfer_time(Bytes read, Bytes written, const LinkOptions& link);

// Of one thread's program, the first, without its first `after_step` steps, at least one. Windows begin and end at some
// hundred places a step (fewer in long programs) and last at most two steps: O(places * actions of two steps).
// `cancelled` is asked now and then; true ends it, and nothing is said.
WindowLimit window_limit(const Program& program, Bytes budget, const LinkOptions& link, std::size_t after_step = 1,
                         const std::function<bool()>& cancelled = nullptr);

}  // namespace outsize::sim
