// Traces for Python: part of outsize._sim. What cannot be read or written is a ValueError, whose text
// is for the person at the keyboard.

#include <pybind11/pybind11.h>

#include <string>

#include "python/bindings/reading.h"
#include "traces/report.h"

namespace py = pybind11;

namespace outsize {
namespace {

// Names in a trace come from anywhere; a byte that is no UTF-8 must not hide the rest.
py::str text(const std::string& bytes) {
  PyObject* decoded = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

py::dict info(const std::string& path) {
  const traces::Summary summary = read_without_gil([&] { return traces::summarize(path, interrupted); });
  py::dict said, waited;
  said["meta"] = text(summary.meta);
  said["events"] = summary.totals.events;
  said["ops"] = summary.totals.ops;
  said["sites"] = summary.sites;
  said["steps"] = summary.totals.steps;
  said["samples"] = summary.samples;
  said["threads"] = summary.threads;
  said["births"] = summary.totals.births;
  said["adoptions"] = summary.adoptions;
  said["deaths"] = summary.totals.deaths;
  said["born_bytes"] = summary.totals.born_bytes;
  said["peak_bytes"] = summary.peak_bytes;
  said["peak_ns"] = summary.peak_time;
  said["alive_bytes"] = summary.alive_bytes;
  said["duration_ns"] = summary.duration;
  for (std::size_t cause = 0; cause < summary.waited.size(); ++cause) {
    waited[to_string(static_cast<trace::WaitCause>(cause))] = summary.waited[cause];
  }
  said["waited_ns"] = waited;
  said["raw_accesses"] = summary.raw_accesses;
  said["foreign_operands"] = summary.totals.foreign_operands;
  said["recorder_held_up_ns"] = summary.totals.held_up;
  said["file_bytes"] = summary.file_bytes;
  said["block_bytes"] = summary.block_bytes;
  said["blocks"] = summary.blocks;
  py::list longest;
  for (const traces::SiteTime& site : summary.longest) {
    py::dict one;
    one["op"] = text(site.name);
    one["ops"] = site.ops;
    one["self_ns"] = site.self;
    longest.append(one);
  }
  said["longest"] = longest;
  return said;
}

py::dict validate(const std::string& path) {
  const traces::Verdict verdict = read_without_gil([&] { return traces::validate(path, interrupted); });
  py::dict said;
  said["events"] = verdict.events;
  said["found"] = verdict.found;
  py::list problems;
  for (const trace::Problem& problem : verdict.problems) {
    py::dict one;
    one["event"] = problem.event;
    one["what"] = problem.what;
    problems.append(one);
  }
  said["problems"] = problems;
  return said;
}

void export_to(const std::string& path, const std::string& format, const std::string& to) {
  const auto form = format == "chrome" ? traces::ExportFormat::kChrome : traces::ExportFormat::kMemory;
  read_without_gil([&] { return traces::export_trace(path, form, to, interrupted); });
}

}  // namespace

void bind_traces(py::module_& module) {
  module.def("trace_info", &info, py::arg("path"));
  module.def("trace_validate", &validate, py::arg("path"));
  module.def("trace_export", &export_to, py::arg("path"), py::arg("format"), py::arg("to"));
}

}  // namespace outsize
