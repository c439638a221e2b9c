// What the policy `oracle` foresees in simulation: the program that is simulated, as a recorded run. For programs of one
// thread.
#pragma once

#include <memory>

#include "predictors/oracle/recording.h"
#include "sim/program.h"

namespace outsize::sim {

std::unique_ptr<const oracle::Recording> recording_of(const Program& program);

}  // namespace outsize::sim
