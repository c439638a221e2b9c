// What foresees the path of a recorded run, and learns from it op by op: the pilot and what it has to be better than.
// Each hears of an op after it has been asked what comes; nothing that it says is of an op that it was told.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/plan/predictor.h"
#include "sim/foresight/path.h"

namespace outsize::sim::foresight {

class Forecaster {
 public:
  virtual ~Forecaster() = default;
  // Events as a predictor gets them; `place` says which op it is.
  virtual void op(const OpEvent& op, Place place) = 0;
  virtual void birth(ExtentId, Bytes) {}
  virtual void death(ExtentId, Bytes) {}
  virtual void step(Nanos now) = 0;
  virtual void sample(std::span<const std::int64_t>) {}
  // Adds what comes from here on, at most `limit` places, up to the step's end (kStepEnd) where it foresees that. It
  // ends without one where it knows no more.
  virtual void foresee(std::size_t limit, std::vector<Place>& out) = 0;
  virtual Predictor::Recognized recognized() const { return {}; }
};

// Of the name "pilot", "pilot:sample=off", "last", "markov2" and so on. Path and table must outlive it. Whatever is called
// "pilot" begins with `model`, where there is one.
Result<std::unique_ptr<Forecaster>> make_forecaster(std::string_view name, const Path& path, const ExtentTable& table,
                                                    std::string_view model = {});
std::vector<std::string> forecaster_names();

}  // namespace outsize::sim::foresight
