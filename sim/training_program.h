// A training loop as the dispatcher sees it: layers in a chain, forward, backward in reverse, an
// optimizer whose state is born in the first step, gradients that die at the start of the next.
// Static unless asked otherwise; the ground for measuring foresight.
#pragma once

#include "sim/program.h"

namespace outsize::sim {

struct TrainingOptions {
  int layers = 24;
  int steps = 5;
  Bytes weight = 4 * kMiB;
  Bytes activation = 2 * kMiB;
  Nanos op_time = 4'000'000;
  int states = 2;             // of the optimizer, per weight; as large as it
  bool grads_stay = false;    // zero_grad(set_to_none=False): gradients are kept and filled
  int changed_step = -1;      // in this step the chain takes its layers in another order
  int skipped_layers = 0;     // and leaves out so many
  std::uint64_t path_seed = 0;  // not 0: every step takes layers of its own, in an order of its own
  int path_length = 0;        // not 0: so many, some again and again as a tree's cells are: every other one
                              // is the first layer, every fourth the second, and so on
  bool tells = false;         // a sample says the path ahead of each step, after a number that means nothing
};

Program training_program(const TrainingOptions& options);
// Bytes alive at the peak of a later step.
Bytes peak_bytes(const Program& program);

}  // namespace outsize::sim
