// Puts the transfers of a selection (select.h) into the step: data required earlier is prefetched
// first, data produced earlier is sent first (the talk's rule, chain.h). Decided here:
//   * Every op starts as soon as it can; transfers start as soon as they may.
//   * Up: only the absent weight whose next use comes first may start, and only if it fits at once
//     and beside everything the selection keeps, at every op up to that use. So no prefetch ever
//     makes an op wait for room, except together with a weight that is late to leave.
//   * Down: in the order of the B ops. A weight whose send has not ended when its gap begins leaves
//     late, and an op that needs the room waits for it.
//   * A weight that could come back at once stays instead of being dropped.
//   * No transfer begins that is likely to end after the step's last op, unless an op waits for it.
//   * The step is played from the border state that the selection suggests, then from the state that
//     it ends in, and so on, a few times. Each time it is closed: after the last op what the begin
//     asks for is sent, dropped or fetched. The quickest closed step is the answer.
#pragma once

#include "planners/weights/schedule.h"
#include "planners/weights/select.h"

namespace outsize::weights {

// `away` must fit in `memory` (select() sees to it). kInternal: the rules above did not come to an
// end, which would be a mistake of ours.
Result<Schedule> insert_transfers(const Chain& chain, Bytes memory, const std::vector<Away>& away);

}  // namespace outsize::weights
