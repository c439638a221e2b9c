#include "planners/registry/deepum.h"

#include <charconv>
#include <utility>

#include "planners/deepum/deepum.h"
#include "predictors/deepum/deepum.h"

namespace outsize {
namespace {

struct Size {
  const char* name;
  std::uint32_t deepum::PredictorOptions::*member;
  std::uint32_t least, most;
};
constexpr Size kSizes[] = {
    {"degree", &deepum::PredictorOptions::degree, 1, 4096},
    {"executions", &deepum::PredictorOptions::executions, 1, 1U << 20},
    {"key-operands", &deepum::PredictorOptions::key_operands, 0, 64},
    {"records", &deepum::PredictorOptions::records, 1, 64},
    {"rows", &deepum::PredictorOptions::rows, 1, 2048},
    {"ways", &deepum::PredictorOptions::ways, 1, 16},
    {"successors", &deepum::PredictorOptions::successors, 1, 16},
    {"levels", &deepum::PredictorOptions::levels, 1, 8},
    {"blocks", &deepum::PredictorOptions::blocks, 1, 1U << 24},
};

bool read_size(std::string_view text, const Size& size, deepum::PredictorOptions& options) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  if (value < size.least || value > size.most) return false;
  options.*size.member = value;
  return true;
}

bool read(std::string_view setting, deepum::PredictorOptions& predictor, deepum::PlannerOptions& planner) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = setting.substr(0, equals), value = setting.substr(equals + 1);
  const bool off = value == "off";
  if (name == "chaining" || name == "pre-eviction") {
    (name == "chaining" ? predictor.chaining : planner.pre_eviction) = !off;
    return off || value == "on";
  }
  for (const Size& size : kSizes) {
    if (name == size.name) return read_size(value, size, predictor);
  }
  return false;
}

std::string known_settings() {
  std::string known = "Known: chaining=on or off, pre-eviction=on or off";
  for (const Size& size : kSizes) {
    known += std::string(", ") + size.name + "=" + std::to_string(size.least) + " to " + std::to_string(size.most);
  }
  return known + ".";
}

}  // namespace

Policy make_deepum_with(const ExtentTable& table, std::string_view settings) {
  deepum::PredictorOptions predictor_options;
  deepum::PlannerOptions planner_options;
  bool more = !settings.empty();
  while (more) {
    const std::size_t comma = settings.find(',');
    const std::string_view one = settings.substr(0, comma);
    if (!read(one, predictor_options, planner_options)) return refuse_setting("deepum", one, known_settings());
    more = comma != std::string_view::npos;
    if (more) settings.remove_prefix(comma + 1);
  }
  planner_options.degree = predictor_options.degree;
  auto predictor = std::make_unique<deepum::DeepumPredictor>(predictor_options);
  auto planner = std::make_unique<deepum::DeepumPlanner>(table, *predictor, planner_options);
  return {std::move(predictor), std::move(planner)};
}

}  // namespace outsize
