#include "planners/registry/weights.h"

#include "planners/weights/weights.h"
#include "predictors/repeat/repeat.h"

namespace outsize {
namespace {

bool read(std::string_view setting, weights::CoverOptions& options) {
  using weights::Solver;
  if (setting == "solver=single") options.solver = Solver::kSingle;
  else if (setting == "solver=greedy") options.solver = Solver::kGreedy;
  else if (setting == "solver=greedy-star") options.solver = Solver::kGreedyStar;
  else if (setting == "moves=weights") options.weights_only = true;
  else if (setting == "moves=all") options.weights_only = false;
  else return false;
  return true;
}

}  // namespace

Policy make_weights_with(const ExtentTable& table, std::string_view settings) {
  weights::CoverOptions options;
  bool more = !settings.empty();
  while (more) {
    const std::size_t comma = settings.find(',');
    const std::string_view one = settings.substr(0, comma);
    if (!read(one, options)) {
      return refuse_setting("weights", one, "Known: solver=single, greedy or greedy-star, moves=weights or all.");
    }
    more = comma != std::string_view::npos;
    if (more) settings.remove_prefix(comma + 1);
  }
  auto predictor = std::make_unique<repeat::RepeatPredictor>();
  auto planner = std::make_unique<weights::WeightsPlanner>(table, *predictor, options);
  return {std::move(predictor), std::move(planner)};
}

}  // namespace outsize
