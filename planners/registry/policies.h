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
#include "predictors/oracle/recording.h"

namespace outsize {

struct Policy {
  std::unique_ptr<Predictor> predictor;
  std::unique_ptr<Planner> planner;
  Error error = {};  // where both are empty: what is wrong, and what may be given
};

// What a policy begins with, where it can; empty: nothing.
struct Beginning {
  std::string_view model = {};                            // what an earlier run has learnt (predictors/pilot/model.h)
  std::unique_ptr<const oracle::Recording> recording = {};  // of an earlier, identical run (predictors/oracle/oracle.h)
};

// `name`, or "name:setting=value,..." where a policy has settings (deepum.h). Both empty where no
// policy has that name or those settings, or where it begins with nothing of what is given, or needs what is not.
Policy make_policy(std::string_view name, const ExtentTable& table, Beginning beginning = {});
// None, since `setting` cannot stand behind the name of `policy`.
Policy refuse_setting(std::string_view policy, std::string_view setting, std::string hint);
// Of those that need nothing to begin with.
std::vector<std::string> policy_names();

}  // namespace outsize
