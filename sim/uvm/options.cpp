#include "sim/uvm/options.h"

#include <string>
#include <vector>

#include "planners/registry/policies.h"
#include "planners/registry/settings.h"

namespace outsize::sim::uvm {
namespace {

constexpr std::string_view kUvm = "uvm", kDeepum = "deepum-blocks";

std::string_view name_of(std::string_view policy) { return policy.substr(0, policy.find(':')); }

std::vector<Setting> settings_of(Options& options) {
  std::vector<Setting> settings{{"fault-us", options.fault_us, 0, 1'000'000},
                                {"batch", options.batch, 1, 1U << 20},
                                {"tree", options.tree}};
  if (!options.foresight) return settings;
  deepum::PredictorOptions& tables = options.tables;
  settings.insert(settings.end(), {{"chaining", tables.chaining},
                                   {"pre-eviction", options.pre_eviction},
                                   {"invalidation", options.invalidation},
                                   {"degree", tables.degree, 1, 4096},
                                   {"executions", tables.executions, 1, 1U << 20},
                                   {"key-operands", tables.key_operands, 0, 64},
                                   {"rows", tables.rows, 1, 2048},
                                   {"ways", tables.ways, 1, 16},
                                   {"successors", tables.successors, 1, 16},
                                   {"levels", tables.levels, 1, 8}});
  return settings;
}

}  // namespace

bool is_policy(std::string_view policy) { return name_of(policy) == kUvm || name_of(policy) == kDeepum; }

Result<Options> options_of(std::string_view policy) {
  Options options;
  const std::string_view name = name_of(policy);
  options.foresight = name == kDeepum;
  const std::vector<Setting> settings = settings_of(options);
  const std::string_view given = name.size() < policy.size() ? policy.substr(name.size() + 1) : "";
  if (const auto wrong = read_settings(given, settings)) {
    return refuse_setting(name, *wrong, known_settings(settings)).error;
  }
  return options;
}

}  // namespace outsize::sim::uvm
