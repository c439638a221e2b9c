// Recorded runs under another budget, policy or disk, for Python: part of outsize._sim. What cannot be
// read or makes no sense is a ValueError, whose text is for the person at the keyboard.

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "core/trace/timeline.h"
#include "planners/registry/policies.h"
#include "python/bindings/reading.h"
#include "sim/belady.h"
#include "sim/sim_driver.h"
#include "sim/trace_program.h"

namespace py = pybind11;

namespace outsize::sim {
namespace {

// `compute`: None, or what a roofline needs, a second and in nanoseconds.
TraceProgram read(const std::string& path, const py::object& compute) {
  constexpr std::int64_t kMicros = 1'000'000;
  Roofline roofline;
  if (!compute.is_none()) {
    roofline.flops_per_us = compute["flops"].cast<std::int64_t>() / kMicros;
    roofline.bytes_per_us = compute["bytes"].cast<Bytes>() / kMicros;
    roofline.op = compute["op_ns"].cast<Nanos>();
  }
  const Roofline* device = compute.is_none() ? nullptr : &roofline;
  return read_without_gil([&] { return read_trace_program(path, interrupted, device); });
}

py::dict said(const SimResult& result) {
  py::dict answer;
  answer["time_ns"] = result.time;
  answer["stall_ns"] = result.stall;
  answer["peak_bytes"] = result.stats.resident_peak;
  answer["read_bytes"] = result.stats.read;
  answer["write_bytes"] = result.stats.written;
  answer["reads"] = result.stats.reads;
  answer["writes"] = result.stats.writes;
  answer["evictions"] = result.stats.evictions;
  answer["refused_for_budget"] = result.refused_budget;
  answer["refused_for_space"] = result.refused_io;
  answer["unserved_raw_access"] = result.fatal;
  answer["needed_bytes"] = result.stats.need_peak;
  py::list steps;
  for (std::size_t i = 0; i < result.time_at_step.size(); ++i) {
    py::dict step;
    step["end_ns"] = result.time_at_step[i];
    step["stall_ns"] = result.stall_at_step[i];
    step["read_bytes"] = result.at_step[i].read;
    step["write_bytes"] = result.at_step[i].written;
    steps.append(step);
  }
  answer["at_step"] = steps;
  py::list problems;
  for (const std::string& problem : result.problems) problems.append(problem);
  answer["problems"] = problems;
  return answer;
}

// Steps, the last of them, events of each kind.
std::unique_ptr<Timeline> timeline_of(const py::object& wanted) {
  if (wanted.is_none()) return nullptr;
  const auto parts = wanted.cast<py::tuple>();
  TimelineOptions options;
  options.steps = parts[0].cast<std::int64_t>();
  options.last_step = parts[1].cast<std::int64_t>();
  options.events = parts[2].cast<std::size_t>();
  return std::make_unique<Timeline>(options);
}

constexpr const char* kOracle = "oracle";

// A name that is not known is told before anything has run.
void check_policy(const std::string& policy) {
  if (policy == kOracle) return;
  ExtentTable unused;
  if (Policy made = make_policy(policy, unused); !made.planner) throw py::value_error(made.error.message());
}

// `device`: bytes a second alone and with the other direction busy, and nanoseconds to begin a transfer.
py::dict run(const TraceProgram& self, const std::string& policy, Bytes budget, const py::dict& device,
             Bytes spill_limit, bool judge, const py::object& wanted) {
  check_policy(policy);
  if (policy == kOracle && self.program.threads.size() > 1) {
    SimResult none;
    none.problems.emplace_back("the oracle foresees one row of ops, and threads ran ops at once");
    return said(none);
  }
  SimOptions options;
  options.budget = budget;
  options.policy = policy;
  const EngineOptions of_engine = engine_options(budget);
  options.reading_max = of_engine.reading_max;
  options.writing_max = of_engine.writing_max;
  options.plan_every = kPlanEvery;
  options.spill_limit = spill_limit;
  options.judge = judge;
  options.link.read_rate = device["read"].cast<Bytes>();
  options.link.write_rate = device["write"].cast<Bytes>();
  options.link.mixed_read_rate = device["mixed_read"].cast<Bytes>();
  options.link.mixed_write_rate = device["mixed_write"].cast<Bytes>();
  options.link.latency = device["latency_ns"].cast<Nanos>();
  options.cancelled = interrupted;
  const std::unique_ptr<Timeline> timeline = timeline_of(wanted);
  options.timeline = timeline.get();
  py::dict answer = said(without_gil([&] { return SimDriver(self.program, options).run(); }));
  if (timeline != nullptr) answer["timeline"] = timeline->json();
  return answer;
}

py::dict names(const TraceProgram& self) {
  py::dict answer;
  for (const auto& [site, name] : self.names) answer[py::int_(site)] = name;
  return answer;
}

// None where threads keep rows of their own: the rule is for one.
py::object fewest(const TraceProgram& self, Bytes budget) {
  if (self.program.threads.size() > 1) return py::none();
  const BeladyResult result = without_gil([&] { return belady(self.program, budget, interrupted); });
  if (!result.fits) return py::none();
  py::list steps;
  for (std::size_t i = 0; i < result.read_at_step.size(); ++i) {
    py::dict step;
    step["read_bytes"] = result.read_at_step[i];
    step["write_bytes"] = result.written_at_step[i];
    steps.append(step);
  }
  return steps;
}

}  // namespace

void bind_trace_runs(py::module_& module) {
  py::class_<TraceProgram>(module, "TraceProgram", "A recorded run that can be simulated.")
      .def(py::init(&read), py::arg("path"), py::arg("compute") = py::none())
      .def_readonly("meta", &TraceProgram::meta)
      .def_readonly("peak", &TraceProgram::peak)
      .def_readonly("largest", &TraceProgram::largest)
      .def_readonly("duration_ns", &TraceProgram::duration)
      .def_readonly("ops", &TraceProgram::ops)
      .def_readonly("steps", &TraceProgram::steps)
      .def_readonly("threads_overlap", &TraceProgram::threads_overlap)
      .def("run", &run, py::arg("policy"), py::arg("budget"), py::arg("device"), py::kw_only(),
           py::arg("spill_limit") = 0, py::arg("judge") = false, py::arg("timeline") = py::none())
      .def_property_readonly("names", &names)
      .def("fewest", &fewest, py::arg("budget"));
  module.def("check_policy", &check_policy, py::arg("policy"));
}

}  // namespace outsize::sim
