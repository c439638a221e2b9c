// What a choice depends on.
#pragma once

#include "core/base/idioms.h"
#include "predictors/pilot/instances.h"
#include "predictors/pilot/network.h"
#include "predictors/pilot/sample.h"
#include "predictors/pilot/trail.h"

namespace outsize::pilot {

struct Standing {
  const Network& network;
  const Instances& instances;
  const Trail& trail;
  const Sample& sample;
  NodeId at = kNobody;
  BaseType base = BaseType::kPlain;  // of the network, as far as it has run
};

}  // namespace outsize::pilot
