// Decision logs for Python: part of outsize._sim. What cannot be read is a ValueError, whose text is for
// the person at the keyboard.

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "planners/registry/policies.h"
#include "python/bindings/reading.h"
#include "sim/replay.h"
#include "traces/trace_file.h"

namespace py = pybind11;

namespace outsize::sim {
namespace {

Result<std::string> contents(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  std::string text;
  std::vector<char> part(1 << 20);
  while (file != nullptr) {
    const std::size_t got = std::fread(part.data(), 1, part.size(), file.get());
    text.append(part.data(), got);
    if (got == part.size() && !interrupted()) continue;
    if (std::ferror(file.get()) != 0) break;
    return text;
  }
  return Error{ErrorCode::kIo, "the decision log cannot be read", path, "Check that it exists and is a file."};
}

Result<ReplayResult> replay_file(const std::string& path, const ReplayModel& model, ReplayRun run) {
  Result<std::string> log = contents(path);
  if (!log) return log.error();
  return replay(*log, interrupted, model, std::move(run));
}

Result<ReplayRun> read_run(const std::string& path) {
  auto file = traces::FileReader::open(path, interrupted);
  if (!file) return file.error();
  oracle::TraceReading reading;
  const Status read = (*file)->each([&](const trace::Event& event) { reading.see(event); });
  if (!read) return read.error();
  return ReplayRun{reading.finish(), (*file)->name()};
}

py::dict said(const std::string& path, const py::object& pilot, const std::string& foresee) {
  ReplayModel model;
  ReplayRun run;
  if (!foresee.empty()) run = read_without_gil([&] { return read_run(foresee); });
  if (!pilot.is_none()) model = {pilot.attr("model").cast<std::string>(), pilot.attr("name").cast<std::string>()};
  const ReplayResult result = read_without_gil([&] { return replay_file(path, model, std::move(run)); });
  py::dict answer;
  answer["policy"] = result.policy;
  answer["budget_bytes"] = result.budget;
  answer["lines"] = result.lines;
  answer["inputs"] = result.inputs;
  answer["moves"] = result.moves;
  answer["same"] = result.same;
  answer["first_difference"] = result.first_difference;
  answer["recorded"] = result.recorded;
  answer["replayed"] = result.replayed;
  py::list violations;
  for (const std::string& violation : result.violations) violations.append(violation);
  answer["violations"] = violations;
  return answer;
}

}  // namespace

void bind_replays(py::module_& module) {
  module.def("replay", &said, py::arg("path"), py::arg("pilot") = py::none(), py::arg("foresee") = "");
  module.def("policy_names", [] {
    py::list names;
    for (const std::string& name : policy_names()) names.append(name);
    return names;
  });
}

}  // namespace outsize::sim
