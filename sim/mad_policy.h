// A policy that foresees nonsense and decides nonsense, from a seed. Predictions and plans may cost
// time, never correctness: the fuzz runs with it under the same judge.
#pragma once

#include "planners/registry/policies.h"
#include "sim/random.h"

namespace outsize::sim {

Policy make_mad_policy(const ExtentTable& table, std::uint64_t seed);

}  // namespace outsize::sim
