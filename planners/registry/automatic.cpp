#include "planners/registry/automatic.h"

#include <utility>

#include "planners/lookahead/lookahead.h"
#include "planners/registry/settings.h"
#include "predictors/automatic/automatic.h"
#include "predictors/pilot/pilot.h"
#include "predictors/repeat/repeat.h"

namespace outsize {

Policy make_automatic_with(const ExtentTable& table, std::string_view settings) {
  automatic::AutomaticOptions options;
  pilot::PilotOptions steering;
  const Setting known[] = {{"margin", options.margin, 1, 50}, {"rest", options.rest, 8, 1U << 20},
                           {"share", steering.share, 1, 1U << 20}};
  if (const auto wrong = read_settings(settings, known)) return refuse_setting("auto", *wrong, known_settings(known));
  auto predictor = std::make_unique<automatic::AutomaticPredictor>(
      table, std::make_unique<repeat::RepeatPredictor>(),
      [&table, steering] { return std::make_unique<pilot::PilotPredictor>(table, steering); }, options);
  auto planner = std::make_unique<lookahead::LookaheadPlanner>(table, *predictor);
  return {std::move(predictor), std::move(planner)};
}

}  // namespace outsize
