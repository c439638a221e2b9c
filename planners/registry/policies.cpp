#include "planners/registry/policies.h"

#include "planners/lookahead/lookahead.h"
#include "planners/ondemand/ondemand.h"
#include "planners/registry/automatic.h"
#include "planners/registry/deepum.h"
#include "planners/registry/pilot.h"
#include "planners/registry/weights.h"
#include "predictors/oracle/oracle.h"
#include "predictors/repeat/repeat.h"

namespace outsize {
namespace {

Policy make_lookahead(const ExtentTable& table) {
  auto predictor = std::make_unique<repeat::RepeatPredictor>();
  auto planner = std::make_unique<lookahead::LookaheadPlanner>(table, *predictor);
  return {std::move(predictor), std::move(planner)};
}

Policy make_ondemand(const ExtentTable& table) {
  return {std::make_unique<ondemand::NoPredictor>(),
          std::make_unique<ondemand::OndemandPlanner>(table)};
}

Policy make_deepum(const ExtentTable& table) { return make_deepum_with(table, ""); }

Policy make_weights(const ExtentTable& table) { return make_weights_with(table, ""); }

Policy make_automatic(const ExtentTable& table) { return make_automatic_with(table, ""); }

Policy make_oracle(const ExtentTable& table, std::unique_ptr<const oracle::Recording> recording) {
  auto predictor = std::make_unique<oracle::OraclePredictor>(table, std::move(recording));
  auto planner = std::make_unique<lookahead::LookaheadPlanner>(table, *predictor);
  return {std::move(predictor), std::move(planner)};
}

struct Row {
  const char* name;
  Policy (*make)(const ExtentTable&);
  Policy (*make_with)(const ExtentTable&, std::string_view settings) = nullptr;
  // One that can begin with what was learnt, with settings or none.
  Policy (*make_learnt)(const ExtentTable&, std::string_view settings, std::string_view model) = nullptr;
  // One that needs a recorded run.
  Policy (*make_told)(const ExtentTable&, std::unique_ptr<const oracle::Recording>) = nullptr;
};
constexpr Row kPolicies[] = {
    {"lookahead", make_lookahead}, {"ondemand", make_ondemand}, {"deepum", make_deepum, make_deepum_with},
    {"weights", make_weights, make_weights_with}, {"pilot", nullptr, nullptr, make_pilot_with},
    {"auto", make_automatic, make_automatic_with}, {"oracle", nullptr, nullptr, nullptr, make_oracle}};

Policy refuse(const Row& row, const std::string& what, std::string hint) {
  return {nullptr, nullptr, {ErrorCode::kInvalidArgument, "policy " + std::string(row.name) + what, "policy",
                             std::move(hint)}};
}

}  // namespace

Policy make_policy(std::string_view name, const ExtentTable& table, Beginning beginning) {
  const std::size_t colon = name.find(':');
  const bool has_settings = colon != std::string_view::npos;
  for (const Row& row : kPolicies) {
    if (name.substr(0, colon) != row.name) continue;
    const std::string_view settings = has_settings ? name.substr(colon + 1) : std::string_view();
    if (!beginning.model.empty() && row.make_learnt == nullptr) {
      return refuse(row, " has no use for a model of the pilot", "Give it with policy pilot, or leave it out.");
    }
    if (beginning.recording != nullptr && row.make_told == nullptr) {
      return refuse(row, " has no use for a recorded run", "Give it with policy oracle, or leave it out.");
    }
    if (row.make_learnt != nullptr) return row.make_learnt(table, settings, beginning.model);
    if (has_settings && row.make_with == nullptr) return refuse_setting(row.name, settings, "It has none.");
    if (has_settings) return row.make_with(table, settings);
    if (row.make_told == nullptr) return row.make(table);
    if (beginning.recording != nullptr) return row.make_told(table, std::move(beginning.recording));
    return refuse(row, " foresees from the trace of an earlier, identical run",
                  "Record one with `outsize record`, and give it with --foresee FILE.");
  }
  std::string known;
  for (const Row& row : kPolicies) known += (known.empty() ? "" : ", ") + std::string(row.name);
  return {nullptr, nullptr, {ErrorCode::kInvalidArgument, "there is no policy '" + std::string(name) + "'",
                             "policy", "Known: " + known + "."}};
}

Policy refuse_setting(std::string_view policy, std::string_view setting, std::string hint) {
  return {nullptr, nullptr, {ErrorCode::kInvalidArgument, "'" + std::string(setting) +
                             "' is no setting of policy " + std::string(policy), "policy", std::move(hint)}};
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Row& row : kPolicies) {
    if (row.make_told == nullptr) names.emplace_back(row.name);
  }
  return names;
}

}  // namespace outsize
