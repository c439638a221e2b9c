// Teaches the policy `pilot` what recorded runs did, one after the other, without moving a byte: the ops, births, deaths,
// steps and samples of a program go to a predictor as the engine would tell them with room for all. The last steps of
// each can be held out: nothing is learnt from them, and how many of their choices would have been right is counted, with
// what was learnt and without it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "sim/program.h"

namespace outsize::sim {

struct Taught {
  std::uint64_t steps = 0, ops = 0, samples = 0;  // learnt from
  std::uint64_t held_steps = 0, choices = 0;      // in the steps held out
  std::uint64_t right_before = 0, right_after = 0;  // of these choices, as far as each has known of any
  std::uint64_t choices_before = 0;
};

class PilotTraining {
 public:
  // Goes on from an earlier model. Its errors are those of predictors/pilot/model.h.
  Status begin_with(std::string_view model);
  // `held_out`: percent of the steps. `cancelled` is asked now and then; what it ends has taught nothing.
  Taught learn(const Program& program, unsigned held_out, const std::function<bool()>& cancelled = nullptr);
  const std::string& model() const { return model_; }

 private:
  std::string model_;
};

}  // namespace outsize::sim
