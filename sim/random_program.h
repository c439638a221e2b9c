// Random programs for fuzzing: several threads, nested ops, births and deaths inside ops, duplicate
// operands, shared objects, raw accesses, exposed and adopted objects, pins, changing budgets, and
// needs that sometimes do not fit. The same seed gives the same program everywhere.
#pragma once

#include "sim/program.h"
#include "sim/sim_driver.h"

namespace outsize::sim {

struct RandomProgramOptions {
  std::uint64_t seed = 1;
  Bytes budget = 64 * kMiB;    // what sizes are measured against
  int threads = 1;
  int actions = 60;            // at the outermost level of each thread
  int raw_percent = 5;         // of these: raw accesses and exposures
  int big_percent = 2;         // births that may well not fit
  bool pins = false;
  bool adopt_beyond = false;   // adoption of resident memory, over the budget too
  bool change_budget = false;
  bool hints = false;          // the program says of some objects that it uses them soon, or later
  bool repeats = false;        // the actions are repeated, as training steps are
};

Program random_program(const RandomProgramOptions& options);

// Everything about one run of the fuzz, drawn from one seed.
struct FuzzCase {
  RandomProgramOptions program;
  SimOptions sim;
};
FuzzCase fuzz_case(std::uint64_t seed);

}  // namespace outsize::sim
