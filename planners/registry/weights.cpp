#include "planners/registry/weights.h"

#include <algorithm>

#include "planners/weights/weights.h"
#include "predictors/repeat/repeat.h"

namespace outsize {
namespace {

bool read(std::string_view setting, weights::CoverOptions& options) {
  using weights::Solver;
  const std::size_t equals = std::min(setting.find('='), setting.size());
  const std::string_view name = setting.substr(0, equals), value = setting.substr(std::min(equals + 1, setting.size()));
  if (name == "moves") {
    options.weights_only = value == "weights";
    return options.weights_only || value == "all";
  }
  if (name != "solver") return false;
  options.solver = value == "single" ? Solver::kSingle : value == "greedy" ? Solver::kGreedy : Solver::kGreedyStar;
  return options.solver != Solver::kGreedyStar || value == "greedy-star";
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
