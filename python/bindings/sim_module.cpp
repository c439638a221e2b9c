// outsize._sim: the simulators for Python. Without torch: a log can be simulated where torch is not
// installed, and the command line need not wait for it to load. Thin: arguments in, results and
// exceptions out. What cannot be read or makes no sense is a ValueError, whose text is for the
// person at the keyboard.

#include <pybind11/pybind11.h>

#include <string>

#include "core/base/result.h"
#include "python/bindings/reading.h"
#include "sim/simrd/log_reader.h"
#include "sim/simrd/simulation.h"

namespace py = pybind11;

namespace outsize {
void bind_traces(py::module_& module);  // traces.cpp
}
namespace outsize::sim {
void bind_pilots(py::module_& module);      // pilots.cpp
void bind_replays(py::module_& module);     // replays.cpp
void bind_trace_runs(py::module_& module);   // trace_runs.cpp
void bind_trace_paths(py::module_& module);  // trace_paths.cpp
}

namespace outsize::sim {
namespace {

template <class T>
T or_throw(Result<T> result) {
  if (!result) throw py::value_error(result.error().message());
  return std::move(result.value());
}

py::dict run_simrd(const simrd::Program& program, const std::string& policy_name, double ratio) {
  const auto policy = dtr::find_policy(policy_name);
  if (!policy) {
    throw py::value_error("There is no policy '" + policy_name + "' in simulation; there are " +
                          dtr::policy_names() + ".");
  }
  simrd::RunOptions options = or_throw(simrd::options_for(program, *policy, ratio));
  options.cancelled = interrupted;
  const simrd::Outcome outcome = without_gil([&] { return simrd::simulate(program, options); });
  py::dict answer;
  answer["status"] = simrd::to_string(outcome.status);
  answer["budget"] = options.budget;
  answer["clock"] = outcome.clock;
  answer["evaluations"] = outcome.evaluations;
  answer["peak"] = outcome.peak;
  answer["compute"] = outcome.compute;
  answer["recompute"] = outcome.recompute;
  return answer;
}

void bind_simrd(py::module_& module) {
  py::class_<simrd::Program>(module, "SimrdLog", "An operator log of DTR's public simulator.")
      .def(py::init([](const std::string& path) {
             return read_without_gil([&] { return simrd::read_log_file(path); });
           }),
           py::arg("path"))
      .def_readonly("peak", &simrd::Program::peak)
      .def_readonly("compute", &simrd::Program::compute)
      .def_property_readonly("ops", [](const simrd::Program& self) { return self.ops.size(); })
      .def("run", &run_simrd, py::arg("policy"), py::arg("ratio"));
  module.def("simrd_policies", &dtr::policy_names);
}

}  // namespace
}  // namespace outsize::sim

PYBIND11_MODULE(_sim, module) {
  module.doc() = "The simulators of outsize. Programs use the outsize package instead.";
  outsize::sim::bind_simrd(module);
  outsize::bind_traces(module);
  outsize::sim::bind_trace_runs(module);
  outsize::sim::bind_trace_paths(module);
  outsize::sim::bind_replays(module);
  outsize::sim::bind_pilots(module);
}
