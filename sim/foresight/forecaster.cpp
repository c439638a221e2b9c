#include "sim/foresight/forecaster.h"

#include <algorithm>
#include <utility>

#include "planners/registry/pilot.h"
#include "sim/foresight/kept_paths.h"
#include "sim/foresight/markov.h"
#include "sim/foresight/predicted.h"

namespace outsize::sim::foresight {
namespace {

// What comes is read off the path itself: a check of whoever judges.
class Oracle final : public Forecaster {
 public:
  explicit Oracle(const Path& path) : path_(path) {}
  void op(const OpEvent&, Place) override { ++at_; }
  void step(Nanos) override { ++step_; }
  void foresee(std::size_t limit, std::vector<Place>& out) override {
    const std::size_t end = path_.step_ends.at(step_);
    for (std::size_t i = at_; i < end && limit > 0; ++i, --limit) out.push_back(path_.ops[i]);
    if (limit > 0) out.push_back(kStepEnd);
  }

 private:
  const Path& path_;
  std::size_t at_ = 0, step_ = 0;
};

using Made = std::unique_ptr<Forecaster>;
using Maker = Made (*)(const Path&);
struct Row {
  const char* name;
  Maker make;
};

constexpr const char* kPilot = "pilot";
constexpr Row kControls[] = {
    {"last", [](const Path&) -> Made { return std::make_unique<KeptPaths>(KeptPaths::Which::kLast); }},
    {"frequent", [](const Path&) -> Made { return std::make_unique<KeptPaths>(KeptPaths::Which::kMostFrequent); }},
    {"markov1", [](const Path& path) -> Made { return std::make_unique<Markov>(path, 1); }},
    {"markov2", [](const Path& path) -> Made { return std::make_unique<Markov>(path, 2); }},
    {"markov3", [](const Path& path) -> Made { return std::make_unique<Markov>(path, 3); }},
    {"deepum", [](const Path&) -> Made { return std::make_unique<Executed>(); }},
    {"repeat", [](const Path&) -> Made { return std::make_unique<Repeat>(); }},
    {"oracle", [](const Path& path) -> Made { return std::make_unique<Oracle>(path); }},
};

}  // namespace

Result<Made> make_forecaster(std::string_view name, const Path& path, const ExtentTable& table,
                             std::string_view model) {
  const std::size_t colon = name.find(':');
  if (name.substr(0, colon) == kPilot) {
    Result<pilot::PilotOptions> options = pilot_options(colon == name.npos ? "" : name.substr(colon + 1));
    if (!options) return options.error();
    auto made = std::make_unique<Pilot>(path, table, *options);
    if (const Status begun = made->begin_with(model); !begun) return begun.error();
    return Made(std::move(made));
  }
  for (const Row& row : kControls) {
    if (name == row.name) return row.make(path);
  }
  std::string known;
  for (const std::string& each : forecaster_names()) known += (known.empty() ? "" : ", ") + each;
  return Error{ErrorCode::kInvalidArgument, "Nothing that foresees paths is called '" + std::string(name) + "'.", "",
               "Known: " + known + ". Settings stand behind a colon of pilot alone: pilot:sample=off."};
}

std::vector<std::string> forecaster_names() {
  std::vector<std::string> names{kPilot};
  for (const Row& row : kControls) names.emplace_back(row.name);
  return names;
}

}  // namespace outsize::sim::foresight
