// The paths of recorded runs, and how well they are foreseen, for Python: part of outsize._sim. What cannot be read
// or makes no sense is a ValueError, whose text is for the person at the keyboard.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "python/bindings/reading.h"
#include "sim/foresight/path.h"
#include "sim/foresight/score.h"
#include "sim/trace_program.h"

namespace py = pybind11;

namespace outsize::sim {
namespace {

using foresight::Path;

class TracePath {
 public:
  TracePath(const std::string& file, Bytes block_bytes, std::uint64_t rate)
      : trace_(read_without_gil([&] { return read_trace_program(file, interrupted); })),
        path_(read_without_gil([&] { return read(file, {block_bytes, rate}); })) {}
  const Path& path() const { return path_; }
  const TraceProgram& trace() const { return trace_; }

 private:
  Result<Path> read(const std::string& file, const pilot::BlockLimits& limits) const {
    Result<Path> path = foresight::read_path(trace_.program, limits, interrupted);
    if (path.ok()) return path;
    Error error = path.error();
    error.where = file;
    return error;
  }

  TraceProgram trace_;
  Path path_;
};

py::dict judge(const TracePath& self, const std::string& name, std::size_t from_step, const std::string& model) {
  foresight::Score score = read_without_gil(
      [&] { return foresight::judge(name, self.trace().program, self.path(), from_step, interrupted, model); });
  py::dict answer;
  answer["choices"] = score.choices;
  answer["right"] = score.right;
  answer["windows"] = score.windows;
  answer["whole"] = score.whole;
  answer["used_bytes"] = score.used;
  answer["foreseen_bytes"] = score.foreseen;
  answer["both_bytes"] = score.both;
  answer["ops"] = score.ops;
  answer["learning_ns"] = score.learning;
  answer["foreseeing_ns"] = score.foreseeing;
  py::list steps;
  for (const foresight::StepScore& step : score.steps) {
    py::dict each;
    each["choices"] = step.choices;
    each["right"] = step.right;
    each["used_bytes"] = step.used;
    each["foreseen_bytes"] = step.foreseen;
    each["both_bytes"] = step.both;
    steps.append(each);
  }
  answer["steps"] = steps;
  answer["model_ops"] = score.recognized.ops;
  answer["model_known_ops"] = score.recognized.known;
  answer["model_given_up"] = score.recognized.given_up;
  return answer;
}

py::dict dependent(const TracePath& self) {
  const foresight::Dependent found = foresight::path_dependent(self.path());
  py::dict answer;
  answer["extents"] = found.count;
  answer["bytes"] = found.bytes;
  return answer;
}

// In the order of first sight. `ops` are names, as far as the trace has them, else sites.
py::list blocks(const TracePath& self) {
  const Path& path = self.path();
  py::list answer;
  for (std::size_t i = 0; i < path.blocks.size(); ++i) {
    const pilot::Block& block = path.blocks[i];
    py::list ops, next;
    for (const pilot::Token token : block.tokens) {
      const SiteId site = path.sites[path.places.at(token)];
      const auto name = self.trace().names.find(site);
      // Site 0 is no op of the program: something was born between two.
      const std::string number = site == 0 ? "outside" : std::to_string(site);
      ops.append(name == self.trace().names.end() ? number : name->second);
    }
    for (const pilot::BlockEdge& edge : block.next) {
      py::dict way;
      way["block"] = edge.block;
      way["count"] = edge.count;
      next.append(way);
    }
    py::dict each;
    each["ops"] = ops;
    each["runs"] = path.runs[i];
    each["ends"] = path.ends[i];
    each["time_ns"] = block.time;
    each["bytes"] = block.bytes;
    each["extents"] = block.lasting.size();
    each["idioms"] = block.idioms;
    each["next"] = next;
    answer.append(each);
  }
  return answer;
}

// A name that is not known is told before anything has run.
void check_forecaster(const std::string& name) {
  const ExtentTable table;
  const Path path;
  if (const auto made = foresight::make_forecaster(name, path, table); !made.ok()) {
    throw py::value_error(made.error().message());
  }
}

}  // namespace

void bind_trace_paths(py::module_& module) {
  py::class_<TracePath>(module, "TracePath", "The path of a recorded run.")
      .def(py::init<const std::string&, Bytes, std::uint64_t>(), py::arg("path"), py::arg("block_bytes") = 0,
           py::arg("rate") = 0)
      .def_property_readonly("ops", [](const TracePath& self) { return self.path().ops.size(); })
      .def_property_readonly("tokens", [](const TracePath& self) { return self.path().tokens.size(); })
      .def_property_readonly("steps", [](const TracePath& self) { return self.path().steps(); })
      .def_property_readonly("samples", [](const TracePath& self) { return self.path().samples; })
      .def_property_readonly("windows", [](const TracePath& self) { return self.path().windows.size(); })
      .def_property_readonly("dependent", &dependent)
      .def_property_readonly("base_type", [](const TracePath& self) { return to_string(self.path().base); })
      .def("blocks", &blocks)
      .def("judge", &judge, py::arg("predictor"), py::arg("from_step"), py::arg("model") = std::string());
  module.def("check_forecaster", &check_forecaster, py::arg("name"));
  module.def("forecaster_names", &foresight::forecaster_names);
}

}  // namespace outsize::sim
