// Runs a program under a budget as DTR's public simulator does (uwsampl/dtr-prototype at eff53cc,
// runtime V2EagerOptimized): to make room a storage is dropped, and its op runs again when it is
// needed. The clock, the number of evaluations and the peak are equal to the simulator's, to the
// integer.
//
// The rules, in our words. An op's operands are pinned: first those that are there, then, in order,
// those that must be computed again. Then storages are dropped until the results fit, then the
// clock advances. An op computes all its results: where one of them was there still, its second
// copy is freed at once. Dropping a storage takes all its views; each comes back by its own op. A
// storage without a name left is dropped at once. All absent storages count as neighbours, also
// those that nothing will ever need again, and the results of the op that is waiting for room.
//
// Differs from the engine of core/: no bytes move, recipes run again instead, and time is the sum
// of the ops. Not thread-safe; one object, one run.
#pragma once

#include <functional>
#include <vector>

#include "core/base/result.h"
#include "planners/dtr/victim_search.h"
#include "sim/simrd/program.h"

namespace outsize::sim::simrd {

struct RunOptions {
  Bytes budget = 0;
  dtr::Policy policy;
  Nanos recompute_limit = 0;  // beyond it the run is stopped
  // Asked now and then; true stops the run.
  std::function<bool()> cancelled;
};

struct Outcome {
  enum Status : unsigned char {
    kOk,
    kOutOfMemory,        // nothing may be dropped, and there is still no room
    kRecomputeExceeded,  // the limit of options
    kCancelled,
  };
  Status status = kOk;
  // Where the run was stopped, these say how far it came.
  Nanos clock = 0;  // begins at 1
  std::int64_t evaluations = 0;
  Bytes peak = 0;
  Nanos compute = 0;    // by the program itself
  Nanos recompute = 0;  // what came on top
};

const char* to_string(Outcome::Status status);

Outcome simulate(const Program& program, const RunOptions& options);

// The limits of the published evaluation: a share of the program's own peak, and no more
// recomputation than its own compute.
Result<RunOptions> options_for(const Program& program, const dtr::Policy& policy, double ratio);

}  // namespace outsize::sim::simrd
