// What the predictors of live runs foresee of a path: the pilot, `repeat`, and DeepUM's history of execution IDs.
#pragma once

#include <unordered_map>
#include <vector>

#include "predictors/deepum/block_names.h"
#include "predictors/deepum/executions.h"
#include "predictors/pilot/pilot.h"
#include "predictors/repeat/repeat.h"
#include "sim/foresight/forecaster.h"

namespace outsize::sim::foresight {

class Pilot final : public Forecaster {
 public:
  Pilot(const Path& path, const ExtentTable& table, const pilot::PilotOptions& options)
      : path_(path), predictor_(table, options) {}
  void op(const OpEvent& op, Place) override { predictor_.on_op(op); }
  void birth(ExtentId id, Bytes bytes) override { predictor_.on_birth(id, bytes); }
  void death(ExtentId id, Bytes bytes) override { predictor_.on_death(id, bytes); }
  void step(Nanos now) override { predictor_.on_step(now); }
  void sample(std::span<const std::int64_t> sample) override { predictor_.on_sample(sample); }
  void foresee(std::size_t limit, std::vector<Place>& out) override;
  Predictor::Recognized recognized() const override { return predictor_.recognized(); }
  const pilot::PilotPredictor& predictor() const { return predictor_; }
  // Of no bytes it is no model.
  Status begin_with(std::string_view model) { return model.empty() ? Status() : predictor_.begin_with(model); }

 private:
  const Path& path_;
  pilot::PilotPredictor predictor_;
  pilot::Plan plan_;
};

// The last step from where `repeat` takes this one to stand in it; nothing where it does not trust in that.
class Repeat final : public Forecaster {
 public:
  void op(const OpEvent& op, Place place) override;
  void birth(ExtentId id, Bytes bytes) override { predictor_.on_birth(id, bytes); }
  void death(ExtentId id, Bytes bytes) override { predictor_.on_death(id, bytes); }
  void step(Nanos now) override;
  void foresee(std::size_t limit, std::vector<Place>& out) override;

 private:
  repeat::RepeatPredictor predictor_;
  std::vector<Place> last_, running_;
};

// Execution IDs and what came after them are `deepum`'s (predictors/deepum): of site and operands, after the three
// before. It knows no steps; here the end of one is an execution of its own, so that it can be asked for it. Many ops have
// one ID, where they work on nothing large: which of them is meant is the one that came last in such a context.
class Executed final : public Forecaster {
 public:
  Executed() : executions_(options_), names_(options_.blocks) {}
  void op(const OpEvent& op, Place place) override;
  void birth(ExtentId id, Bytes bytes) override { names_.born(id, site_, births_++, bytes); }
  void death(ExtentId id, Bytes) override { names_.died(id); }
  void step(Nanos now) override;
  void foresee(std::size_t limit, std::vector<Place>& out) override;

 private:
  std::uint64_t key_of(const OpEvent& op);
  void run(std::uint64_t key, Place place);
  Place place_of(deepum::ExecutionId next, deepum::ExecutionId after, const deepum::Context& context) const;

  const deepum::PredictorOptions options_{.long_contexts = false};
  deepum::Executions executions_;
  deepum::BlockNames names_;
  deepum::Context context_;    // before the running op
  deepum::ExecutionId running_ = deepum::kNone;
  Position position_ = 0;
  struct Came {
    std::uint64_t key = 0;  // of its execution ID
    Place place = kUnknown;
  };
  std::unordered_map<std::uint64_t, Came> came_;  // by context
  std::vector<Place> places_;  // by execution ID: the last that had it
  SiteId site_ = 0;            // of the running op
  std::uint32_t births_ = 0;   // in it
};

}  // namespace outsize::sim::foresight
