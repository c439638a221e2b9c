#include "planners/registry/pilot.h"

#include <utility>

#include "planners/lookahead/lookahead.h"
#include "planners/registry/settings.h"
#include "predictors/pilot/pilot.h"

namespace outsize {

Result<pilot::PilotOptions> pilot_options(std::string_view settings) {
  constexpr const char* kIdiomWords[] = {"on", "off", "onehot"};
  constexpr const char* kSizeWords[] = {"small", "medium", "large"};
  pilot::PilotOptions options;
  auto idioms = static_cast<std::uint32_t>(options.chooser.idioms);
  auto size = static_cast<std::uint32_t>(options.chooser.size);
  const Setting known[] = {
      {"sample", options.chooser.sample},
      {"markov", options.chooser.markov},
      {"rules", options.chooser.rules},
      {"idioms", idioms, kIdiomWords},
      {"base", options.chooser.base},
      {"size", size, kSizeWords},
      {"learn", options.chooser.learn},
      {"requery", options.requery},
      {"block", options.block, 0, 1U << 16},
      {"buffers", options.buffers, 0, 64},
      {"early", options.early},
      {"share", options.share, 1, 1U << 20},
      {"skip", options.skip, 0, 1U << 12},
      {"lost", options.lost, 1, 1U << 12},
      {"ops", options.plan_ops_max, 2048, 1U << 17},
  };
  if (const auto wrong = read_settings(settings, known)) {
    return refuse_setting("pilot", *wrong, known_settings(known)).error;
  }
  options.chooser.idioms = static_cast<pilot::IdiomUse>(idioms);
  options.chooser.size = static_cast<pilot::ChooserSize>(size);
  return options;
}

Policy make_pilot_with(const ExtentTable& table, std::string_view settings, std::string_view model) {
  Result<pilot::PilotOptions> options = pilot_options(settings);
  if (!options) return {nullptr, nullptr, options.error()};
  auto predictor = std::make_unique<pilot::PilotPredictor>(table, *options);
  if (!model.empty()) {
    if (const Status begun = predictor->begin_with(model); !begun) return {nullptr, nullptr, begun.error()};
  }
  auto planner = std::make_unique<lookahead::LookaheadPlanner>(table, *predictor);
  return {std::move(predictor), std::move(planner)};
}

}  // namespace outsize
