#include "planners/weights/solve.h"

#include <algorithm>

#include "planners/weights/insert.h"

namespace outsize::weights {

Result<Schedule> solve(const Chain& chain, Bytes memory, Solver solver, const Options& options) {
  auto away = select(chain, memory, solver, options);
  if (!away) return away.error();
  return insert_transfers(chain, memory, *away);
}

Result<Nanos> lower_bound(const Chain& chain, Bytes memory) {
  if (Status valid = validate(chain); !valid) return valid.error();
  if (memory < memory_range(chain).least) {
    return Error{ErrorCode::kOutOfBudget, "An op and its weight do not fit.", "lower bound", ""};
  }
  const Timeline line(chain);
  const std::vector<Nanos> waits = least_waits(chain, memory);
  const std::size_t first = 0, forward_end = line.layers() - 1, backward_begin = line.layers(),
                    last = line.ops() - 1;
  Nanos path = 0;
  Bytes most = 0;
  const auto absent = [&](std::size_t op) {
    return std::max<Bytes>(0, line.running(op) + line.all_weights() - memory);
  };
  const auto up = [&](std::size_t op) { return transfer_time(absent(op), chain.up); };
  for (std::size_t op = 0; op < line.ops(); ++op) {
    path += waits[op] + line.time_of(op);
    most = std::max(most, absent(op));
  }
  Nanos bound = std::max(path, transfer_time(most, chain.down));
  bound = std::max(bound, std::max(up(first), up(last)) + std::max(up(forward_end), up(backward_begin)));
  Nanos before = 0;
  for (std::size_t op = 0; op <= backward_begin; before += line.time_of(op++)) {
    before += waits[op];
    if (op != forward_end && op != backward_begin) continue;
    // What F_1 lacks has come when F_L starts; at the cut B_L, F_L still lies between.
    const Nanos lead = up(first) + (op == backward_begin ? line.time_of(forward_end) : 0);
    const Nanos tail = up(op) > 0 ? up(op) + line.time_of(last) : 0;
    bound = std::max(bound, std::max(before, lead) + std::max(path - before, tail));
  }
  return bound;
}

}  // namespace outsize::weights
