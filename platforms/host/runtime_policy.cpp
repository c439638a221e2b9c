// What policies begin with, a model or a trace from a file, and what they tell of how they foresee.
#include <utility>

#include "platforms/host/runtime_impl.h"
#include "traces/pilot_file.h"
#include "traces/trace_file.h"

namespace outsize::host {

Policy Runtime::Impl::make_chosen_policy() {
  Beginning beginning;
  traces::PilotFile model;
  pilot_model.clear();
  foreseen_run.clear();
  if (!options.pilot.empty()) {
    auto file = traces::read_pilot_file(options.pilot);
    if (!file) return {nullptr, nullptr, file.error()};
    model = std::move(*file);
    beginning.model = model.model;
    pilot_model = model.name;
  }
  if (!options.foresee.empty()) {
    if (const Status read = read_recording(beginning); !read) return {nullptr, nullptr, read.error()};
  }
  return make_policy(options.policy, table, std::move(beginning));
}

Status Runtime::Impl::read_recording(Beginning& beginning) {
  auto file = traces::FileReader::open(options.foresee);
  if (!file) return file.error();
  oracle::TraceReading reading;
  if (Status read = (*file)->each([&](const trace::Event& event) { reading.see(event); }); !read) return read;
  beginning.recording = reading.finish();
  foreseen_run = (*file)->name();
  return {};
}

void Runtime::Impl::tell_policy(Stats& stats) const {
  stats.policy = options.policy;
  stats.foresight = engine->foresight();
  const Predictor::Recognized recognized = engine->predictor().recognized();
  const auto ops = static_cast<std::int64_t>(recognized.ops), known = static_cast<std::int64_t>(recognized.known);
  if (!options.foresee.empty()) {
    stats.foresee_ops = ops;
    stats.foresee_known_ops = known;
    stats.foresee_given_up = recognized.given_up;
    return;
  }
  stats.pilot_ops = ops;
  stats.pilot_known_ops = known;
  stats.pilot_given_up = recognized.given_up;
}

}  // namespace outsize::host
