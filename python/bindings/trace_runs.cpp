// Recorded runs under another budget, policy or disk, for Python: part of outsize._sim. What cannot be
// read or makes no sense is a ValueError, whose text is for the person at the keyboard.

#include <pybind11/pybind11.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/timeline.h"
#include "planners/registry/policies.h"
#include "python/bindings/reading.h"
#include "sim/belady.h"
#include "sim/pilot_training.h"
#include "sim/sim_driver.h"
#include "sim/trace_program.h"
#include "sim/uvm/machine.h"
#include "sim/window_limit.h"

namespace py = pybind11;

namespace outsize::sim {
namespace {

// A trace as it can be simulated. What only some policies need is read when it is asked for first.
class Recorded {
 public:
  // `compute`: None, or what a roofline needs, a second and in nanoseconds.
  Recorded(std::string path, const py::object& compute) : path_(std::move(path)) {
    if (!compute.is_none()) {
      constexpr std::int64_t kMicros = 1'000'000;
      roofline_.emplace();
      roofline_->flops_per_us = compute["flops"].cast<std::int64_t>() / kMicros;
      roofline_->bytes_per_us = compute["bytes"].cast<Bytes>() / kMicros;
      roofline_->op = compute["op_ns"].cast<Nanos>();
    }
    extents_ = read(ObjectIs::kExtent);
  }
  const TraceProgram& extents() const { return extents_; }
  const Program& storages() {
    if (!storages_) storages_ = read(ObjectIs::kStorage).program;
    return *storages_;
  }

 private:
  TraceProgram read(ObjectIs object) const {
    const Roofline* device = roofline_ ? &*roofline_ : nullptr;
    return read_without_gil([&] { return read_trace_program(path_, interrupted, device, object); });
  }

  std::string path_;
  std::optional<Roofline> roofline_;
  TraceProgram extents_;
  std::optional<Program> storages_;
};

// Of an engine, or of a model of unified memory, which does not say what became of what came ahead.
py::dict said(const SimResult& result, bool of_engine) {
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
  if (!result.foresight.empty()) answer["foresight"] = result.foresight;
  py::list steps;
  for (std::size_t i = 0; i < result.time_at_step.size(); ++i) {
    py::dict step;
    step["end_ns"] = result.time_at_step[i];
    step["stall_ns"] = result.stall_at_step[i];
    step["read_bytes"] = result.at_step[i].read;
    step["write_bytes"] = result.at_step[i].written;
    step["prefetched_bytes"] = result.at_step[i].prefetched;
    if (of_engine) {
      step["prefetch_hit_bytes"] = result.at_step[i].prefetch_hit;
      step["prefetch_missed_bytes"] = result.at_step[i].prefetch_missed;
    }
    step["demand_bytes"] = result.at_step[i].demanded;
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

constexpr const char* kOracle = "oracle";  // which foresees from the trace that is simulated

// A name that is not known is told before anything has run.
void check_policy(const std::string& policy) {
  if (policy == kOracle) return;
  if (uvm::is_policy(policy)) {
    if (const auto options = uvm::options_of(policy); !options.ok()) throw py::value_error(options.error().message());
    return;
  }
  ExtentTable unused;
  const Policy made = make_policy(policy, unused);
  if (made.planner) return;
  const std::vector<std::string> live = policy_names();
  const bool is_live = std::find(live.begin(), live.end(), policy.substr(0, policy.find(':'))) != live.end();
  throw py::value_error(made.error.message() + (is_live ? "" : " In simulation also: uvm, deepum-blocks."));
}

// Bytes a second alone and with the other direction busy, and nanoseconds to begin a transfer.
LinkOptions link_of(const py::dict& device) {
  LinkOptions link;
  link.read_rate = device["read"].cast<Bytes>();
  link.write_rate = device["write"].cast<Bytes>();
  link.mixed_read_rate = device["mixed_read"].cast<Bytes>();
  link.mixed_write_rate = device["mixed_write"].cast<Bytes>();
  if (device.contains("single_read")) link.single_read_rate = device["single_read"].cast<Bytes>();
  if (device.contains("single_write")) link.single_write_rate = device["single_write"].cast<Bytes>();
  link.latency = device["latency_ns"].cast<Nanos>();
  return link;
}

// Nanoseconds and bytes, each where the device says it.
MoveCosts costs_of(const py::dict& device) {
  const auto said = [&](const char* name) { return device.contains(name) ? device[name].cast<Nanos>() : Nanos{0}; };
  return {.page = said("page_ns"), .fresh = said("fresh_mib_ns"), .fresh_huge = said("fresh_huge_mib_ns"),
          .warm_huge = said("warm_huge_mib_ns"), .cold = said("cold_bytes"), .command = said("command_ns"),
          .transfer = said("transfer_ns"), .mebibyte = said("mib_ns")};
}

SimResult impossible(const char* why) {
  SimResult none;
  none.problems.emplace_back(why);
  return none;
}

SimResult run_uvm(Recorded& self, const std::string& policy, Bytes budget, const LinkOptions& link,
                  Timeline* timeline) {
  if (self.extents().program.threads.size() > 1) {
    return impossible("unified memory is modelled for one row of ops, and threads ran ops at once");
  }
  uvm::MachineOptions options;
  options.budget = budget;
  options.model = *uvm::options_of(policy);
  options.link = link;
  options.timeline = timeline;
  options.cancelled = interrupted;
  const Program& program = self.storages();
  return without_gil([&] { return uvm::Machine(program, options).run(); });
}

SimResult run_engine(const TraceProgram& trace, const SimOptions& options) {
  if (options.policy == kOracle && trace.program.threads.size() > 1) {
    return impossible("the oracle foresees one row of ops, and threads ran ops at once");
  }
  return without_gil([&] { return SimDriver(trace.program, options).run(); });
}

py::dict run(Recorded& self, const std::string& policy, Bytes budget, const py::dict& device, Bytes spill_limit,
             bool judge, const py::object& wanted, const py::object& pilot) {
  check_policy(policy);
  const std::unique_ptr<Timeline> timeline = timeline_of(wanted);
  SimResult result;
  if (uvm::is_policy(policy)) {
    result = run_uvm(self, policy, budget, link_of(device), timeline.get());
  } else {
    SimOptions options;
    options.budget = budget;
    options.policy = policy;
    const EngineOptions of_engine = engine_options(budget);
    options.reading_max = of_engine.reading_max;
    options.writing_max = of_engine.writing_max;
    options.plan_every = kPlanEvery;
    options.spill_limit = spill_limit;
    options.judge = judge;
    options.link = link_of(device);
    options.costs = costs_of(device);
    options.cancelled = interrupted;
    options.timeline = timeline.get();
    if (!pilot.is_none()) options.model = pilot.attr("model").cast<std::string>();
    result = run_engine(self.extents(), options);
  }
  py::dict answer = said(result, !uvm::is_policy(policy));
  if (!pilot.is_none()) {
    answer["pilot_ops"] = result.recognized.ops;
    answer["pilot_known_ops"] = result.recognized.known;
    answer["pilot_given_up"] = result.recognized.given_up;
  }
  if (timeline != nullptr) answer["timeline"] = timeline->json();
  return answer;
}

py::dict names(const Recorded& self) {
  py::dict answer;
  for (const auto& [site, name] : self.extents().names) answer[py::int_(site)] = name;
  return answer;
}

// None where threads keep rows of their own: the rule is for one.
py::object fewest(const Recorded& self, Bytes budget) {
  const Program& program = self.extents().program;
  if (program.threads.size() > 1) return py::none();
  const BeladyResult result = without_gil([&] { return belady(program, budget, interrupted); });
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

// None where threads keep rows of their own, or there is no later step.
py::object window_limit_of(const Recorded& self, Bytes budget, const py::dict& device, std::size_t after_step) {
  const Program& program = self.extents().program;
  if (program.threads.size() > 1) return py::none();
  const LinkOptions link = link_of(device);
  const WindowLimit limit = without_gil([&] { return window_limit(program, budget, link, after_step, interrupted); });
  if (limit.steps == 0) return py::none();
  py::dict answer;
  answer["least_ns"] = limit.least;
  answer["compute_ns"] = limit.compute;
  answer["steps"] = limit.steps;
  return answer;
}

py::dict learn(PilotTraining& self, const Recorded& trace, unsigned held_out) {
  const Taught taught = without_gil([&] { return self.learn(trace.extents().program, held_out, interrupted); });
  py::dict answer;
  answer["steps"] = taught.steps;
  answer["ops"] = taught.ops;
  answer["samples"] = taught.samples;
  answer["held_out_steps"] = taught.held_steps;
  answer["choices"] = taught.choices;
  answer["right"] = taught.right_after;
  answer["choices_before"] = taught.choices_before;
  answer["right_before"] = taught.right_before;
  return answer;
}

void bind_training(py::module_& module) {
  py::class_<PilotTraining>(module, "PilotTraining", "What the policy pilot learns from recorded runs.")
      .def(py::init([](const py::object& from) {
             PilotTraining training;
             if (from.is_none()) return training;
             if (const Status begun = training.begin_with(from.attr("model").cast<std::string>()); !begun) {
               throw py::value_error(begun.error().message());
             }
             return training;
           }),
           py::arg("begin_with") = py::none())
      .def("learn", &learn, py::arg("trace"), py::arg("held_out"))
      .def_property_readonly("model", [](const PilotTraining& self) { return py::bytes(self.model()); });
}

}  // namespace

void bind_trace_runs(py::module_& module) {
  py::class_<Recorded>(module, "TraceProgram", "A recorded run that can be simulated.")
      .def(py::init<std::string, const py::object&>(), py::arg("path"), py::arg("compute") = py::none())
      .def_property_readonly("meta", [](const Recorded& self) { return self.extents().meta; })
      .def_property_readonly("peak", [](const Recorded& self) { return self.extents().peak; })
      .def_property_readonly("largest", [](const Recorded& self) { return self.extents().largest; })
      .def_property_readonly("duration_ns", [](const Recorded& self) { return self.extents().duration; })
      .def_property_readonly("ops", [](const Recorded& self) { return self.extents().ops; })
      .def_property_readonly("steps", [](const Recorded& self) { return self.extents().steps; })
      .def_property_readonly("threads_overlap", [](const Recorded& self) { return self.extents().threads_overlap; })
      .def("run", &run, py::arg("policy"), py::arg("budget"), py::arg("device"), py::kw_only(),
           py::arg("spill_limit") = 0, py::arg("judge") = false, py::arg("timeline") = py::none(), py::arg("pilot") = py::none())
      .def_property_readonly("names", &names)
      .def("fewest", &fewest, py::arg("budget"))
      .def("window_limit", &window_limit_of, py::arg("budget"), py::arg("device"), py::arg("after_step") = 1);
  module.def("check_policy", &check_policy, py::arg("policy"));
  bind_training(module);
}

}  // namespace outsize::sim
