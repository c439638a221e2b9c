// The quickest schedule of a small chain, exact for the model of chain.h: the yardstick for the
// solvers.
//
// What is enumerated. Some quickest schedule starts every op and every transfer at the step's begin
// or at the end of an op or a transfer: within the time between two ends memory only rises, so
// whatever starts there can start at the end before it as well, in time order, and nothing gets
// later. Drops may wait until something that starts needs their room, and then no more is dropped
// than that takes. So at each end the search branches over: which weight to send, if any; which to
// fetch, if any, with each least set of drops that makes room for it; whether to start the next op,
// again with each least set; or to wait for the next end. It does so from every border state: which
// weights begin absent is enumerated, which copies begin valid is decided when a weight is first
// sent or dropped, since before that it makes no difference.
//
// What is pruned. States in which the same is above, valid, under way and demanded of the end are
// the same, and the first to arrive stands for all (best first, A*). The estimate never exceeds what
// is left: the ops and their least_waits(); the fetches that uses and the border demand, with the least set of weights that
// must be absent at F_L and at B_L; the sends that drops and the border demand.
//
// Three shortcuts, which a test switches off to see that they change no answer:
//   * A state is not gone on from if another one with the same under way is no later in anything, and
//     no worse in any weight (above and droppable is no worse than absent, valid no worse than not).
//   * Where the down link is left idle although a weight could be sent, that weight is not sent until
//     it has been changed: sending it at once would have been no worse, since a send takes no memory.
//   * Where the next op is held back although it fits, it starts only after a fetch that would not
//     have fitted beside it: otherwise starting it at once would have been no worse.
// Nothing else is cut.
#pragma once

#include <cstdint>
#include <limits>

#include "planners/weights/schedule.h"

namespace outsize::weights {

inline constexpr std::size_t kExhaustiveLayersMax = 8;

struct ExhaustiveLimits {
  Nanos at_most = std::numeric_limits<Nanos>::max();  // look for nothing slower than this
  std::uint64_t states = 30'000'000;                  // about 100 bytes each
  bool shortcuts = true;
};

struct Exhaustive {
  Schedule schedule;
  std::uint64_t states = 0;  // that were looked at
};

// kInvalidArgument: more than kExhaustiveLayersMax layers, or a time beyond 65 535 units (rescale).
// kOutOfBudget: no schedule exists for this memory, or none within `at_most`. kUnsupported: not
// decided within `states`.
Result<Exhaustive> exhaustive(const Chain& chain, Bytes memory, const ExhaustiveLimits& limits = {});

}  // namespace outsize::weights
