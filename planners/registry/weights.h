// Makes the policy `weights` from its settings, as they stand behind the colon of its name:
// "weights:solver=greedy". The solvers are those of planners/weights/cover.h.
#pragma once

#include "planners/registry/policies.h"

namespace outsize {

// Both empty where a setting is unknown or has no such value.
Policy make_weights_with(const ExtentTable& table, std::string_view settings);

}  // namespace outsize
