// The omniscient reference: what Belady's rule moves when it knows the whole program. It runs one
// thread's program on a plain model of its own (no engine, no time): at each op or raw access what it
// uses comes, at each birth room is made, and what is used farthest ahead leaves, written once if it
// changed. O(actions and uses * log objects).
// A reference for bytes moved, not a proven minimum: writes have a price that the rule ignores.
#pragma once

#include <functional>
#include <vector>

#include "sim/program.h"

namespace outsize::sim {

struct BeladyResult {
  Bytes read = 0, written = 0;
  std::vector<Bytes> read_at_step, written_at_step;  // so far, when each step ended
  bool fits = true;  // every op's needs fitted in the budget
};

// `cancelled` is asked now and then; true ends it, and what is returned is of the program until then.
BeladyResult belady(const Program& program, Bytes budget, const std::function<bool()>& cancelled = nullptr);

}  // namespace outsize::sim
