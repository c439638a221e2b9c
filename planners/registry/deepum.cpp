#include "planners/registry/deepum.h"

#include <utility>

#include "planners/deepum/deepum.h"
#include "planners/registry/settings.h"
#include "predictors/deepum/deepum.h"

namespace outsize {

Policy make_deepum_with(const ExtentTable& table, std::string_view settings) {
  deepum::PredictorOptions predicting;
  deepum::PlannerOptions planning;
  const Setting known[] = {
      {"chaining", predicting.chaining},
      {"pre-eviction", planning.pre_eviction},
      {"degree", predicting.degree, 1, 4096},
      {"executions", predicting.executions, 1, 1U << 20},
      {"key-operands", predicting.key_operands, 0, 64},
      {"long-contexts", predicting.long_contexts},
      {"records", predicting.records, 1, 1U << 24},
      {"rows", predicting.rows, 1, 2048},
      {"ways", predicting.ways, 1, 16},
      {"successors", predicting.successors, 1, 16},
      {"levels", predicting.levels, 1, 8},
      {"blocks", predicting.blocks, 1, 1U << 24},
  };
  if (const auto wrong = read_settings(settings, known)) return refuse_setting("deepum", *wrong, known_settings(known));
  planning.degree = predicting.degree;
  auto predictor = std::make_unique<deepum::DeepumPredictor>(predicting);
  auto planner = std::make_unique<deepum::DeepumPlanner>(table, *predictor, planning);
  return {std::move(predictor), std::move(planner)};
}

}  // namespace outsize
