// `lookahead`: Belady over what the predictor foresees. The extent whose next use is farthest
// leaves first; what is used soon comes ahead of need, as long as the victim's use is farther than
// its own; what will leave is written ahead, so that leaving is free (planners/ahead).
#pragma once

#include "planners/ahead/ahead.h"

namespace outsize::lookahead {

class LookaheadPlanner final : public ahead::AheadPlanner {
 public:
  using AheadPlanner::AheadPlanner;
  const char* name() const override { return "lookahead"; }
};

}  // namespace outsize::lookahead
