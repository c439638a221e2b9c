// Makes the policy `pilot` from its settings (settings.h).
#pragma once

#include "core/base/result.h"
#include "planners/registry/policies.h"
#include "predictors/pilot/pilot.h"

namespace outsize {

Result<pilot::PilotOptions> pilot_options(std::string_view settings);
// Both empty where a setting is unknown or has no such value.
// Nor where the model is damaged.
Policy make_pilot_with(const ExtentTable& table, std::string_view settings, std::string_view model = {});

}  // namespace outsize
