// The table of policies: a preset is a predictor with a planner. A new predictor or planner is one
// folder and one line in policies.cpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/plan/planner.h"
#include "core/plan/predictor.h"

namespace outsize {

struct Policy {
  std::unique_ptr<Predictor> predictor;
  std::unique_ptr<Planner> planner;
  Error error = {};  // where both are empty: what is wrong, and what may be given
};

// `name`, or "name:setting=value,..." where a policy has settings (deepum.h). Both empty where no
// policy has that name or those settings.
// `model`: what an earlier run has learnt (predictors/pilot/model.h), for a policy that can begin with it; empty: nothing.
Policy make_policy(std::string_view name, const ExtentTable& table, std::string_view model = {});
// None, since `setting` cannot stand behind the name of `policy`.
Policy refuse_setting(std::string_view policy, std::string_view setting, std::string hint);
std::vector<std::string> policy_names();

}  // namespace outsize
