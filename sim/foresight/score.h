// How well a path is foreseen. Every op is learnt after it has been foreseen, so that all that is judged is new.
//
// Judged are: at every op after which several things have ever come in this run (a *choice*), whether the next one is
// named rightly; at every window's begin, whether all of its ops are foreseen, in their order, and with them the step's end
// where the window ends with it; and of the bytes of *path-dependent* extents, which those are that the window's ops will
// work on. Path-dependent is what lasts and some windows use and others, that had it as well, do not; windows that end
// their step, and so go on with backward and the optimizer, are compared among themselves, and so are the others.
//
// Nobody foresees when a sample comes. A window that does not end its step is therefore judged over as many ops as it had.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "sim/foresight/forecaster.h"

namespace outsize::sim::foresight {

// Of one step.
struct StepScore {
  std::uint64_t choices = 0, right = 0;
  Bytes used = 0, foreseen = 0, both = 0;
};

struct Score {
  std::uint64_t choices = 0, right = 0;
  std::uint64_t windows = 0, whole = 0;  // of these foreseen without fault
  Bytes used = 0, foreseen = 0, both = 0;  // path-dependent bytes, of all windows
  std::uint64_t ops = 0;                   // of all steps, and what it took to learn from them:
  Nanos learning = 0;
  Nanos foreseeing = 0;                    // at the windows' begins
  std::vector<StepScore> steps;            // the same, step by step
  Predictor::Recognized recognized;        // what became of the model that it began with
};

struct Dependent {
  // By kind of window (0: it goes on to another sample; 1: it ends its step) and role's number.
  std::vector<bool> roles[2];
  Bytes bytes = 0;              // of all of them
  std::uint32_t count = 0;
};
Dependent path_dependent(const Path& path);

// In steps from `from_step` on, the first being 0. Refused where there is no such forecaster.
// What is called "pilot" begins with `model` (predictors/pilot/model.h), where there is one.
Result<Score> judge(std::string_view name, const Program& program, const Path& path, std::size_t from_step,
                    const std::function<bool()>& cancelled = nullptr, std::string_view model = {});

}  // namespace outsize::sim::foresight
