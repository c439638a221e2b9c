#include "planners/registry/weights.h"

#include "planners/registry/settings.h"
#include "planners/weights/weights.h"
#include "predictors/repeat/repeat.h"

namespace outsize {
namespace {

// In the order of weights::Solver.
constexpr const char* kSolvers[] = {"single", "greedy", "greedy-star"};
constexpr const char* kMoves[] = {"weights", "all"};

}  // namespace

Policy make_weights_with(const ExtentTable& table, std::string_view settings) {
  weights::CoverOptions options;
  auto solver = static_cast<std::uint32_t>(options.solver);
  std::uint32_t moves = options.weights_only ? 0 : 1;
  const Setting known[] = {{"solver", solver, kSolvers}, {"moves", moves, kMoves}};
  if (const auto wrong = read_settings(settings, known)) return refuse_setting("weights", *wrong, known_settings(known));
  options.solver = static_cast<weights::Solver>(solver);
  options.weights_only = moves == 0;
  auto predictor = std::make_unique<repeat::RepeatPredictor>();
  auto planner = std::make_unique<weights::WeightsPlanner>(table, *predictor, options);
  return {std::move(predictor), std::move(planner)};
}

}  // namespace outsize
