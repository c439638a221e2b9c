// What policy `pilot` begins with, a model from a file, and what it and `auto` tell of themselves.
#include "platforms/host/runtime_impl.h"
#include "traces/pilot_file.h"

namespace outsize::host {

Policy Runtime::Impl::make_chosen_policy() {
  pilot_model.clear();
  if (options.pilot.empty()) return make_policy(options.policy, table);
  const auto file = traces::read_pilot_file(options.pilot);
  if (!file) return {nullptr, nullptr, file.error()};
  pilot_model = file.value().name;
  return make_policy(options.policy, table, file.value().model);
}

void Runtime::Impl::tell_pilot(Stats& stats) const {
  stats.foresight = engine->foresight();
  const Predictor::Recognized recognized = engine->predictor().recognized();
  stats.pilot_ops = static_cast<std::int64_t>(recognized.ops);
  stats.pilot_known_ops = static_cast<std::int64_t>(recognized.known);
  stats.pilot_given_up = recognized.given_up;
}

}  // namespace outsize::host
