// Saved models of the policy `pilot` for Python: part of outsize._sim. What cannot be read or written is a ValueError,
// whose text is for the person at the keyboard.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

#include "predictors/pilot/model.h"
#include "python/bindings/reading.h"
#include "traces/pilot_file.h"

namespace py = pybind11;

namespace outsize::sim {
namespace {

struct Saved {
  traces::PilotFile file;
  pilot::ModelFacts facts;
};

Result<Saved> read(const std::string& path) {
  auto file = traces::read_pilot_file(path);
  if (!file) return file.error();
  auto facts = pilot::model_facts(file->model);
  if (facts.ok()) return Saved{std::move(*file), *facts};
  Error error = facts.error();
  error.what = path + ": " + error.what;
  return error;
}

py::dict facts_of(const pilot::ModelFacts& facts) {
  py::dict answer;
  answer["nodes"] = facts.nodes;
  answer["things"] = facts.things;
  answer["classes"] = facts.classes;
  answer["contexts"] = facts.contexts;
  answer["kinds"] = facts.kinds;
  answer["features"] = facts.features;
  answer["plan_ops"] = facts.plan_ops;
  answer["base_type"] = to_string(facts.base);
  answer["idioms"] = facts.idioms;
  return answer;
}

void save(const std::string& path, const std::string& card, const std::string& model) {
  const Status status = without_gil([&] { return traces::write_pilot_file(path, card, model); });
  if (!status) throw py::value_error(status.error().message());
}

}  // namespace

void bind_pilots(py::module_& module) {
  py::class_<Saved>(module, "PilotModel", "What the policy pilot has learnt, from a file.")
      .def(py::init([](const std::string& path) { return read_without_gil([&] { return read(path); }); }),
           py::arg("path"))
      .def_property_readonly("card", [](const Saved& self) { return self.file.card; })
      .def_property_readonly("model", [](const Saved& self) { return py::bytes(self.file.model); })
      .def_property_readonly("name", [](const Saved& self) { return self.file.name; })
      .def_property_readonly("file_bytes", [](const Saved& self) { return self.file.file_bytes; })
      .def_property_readonly("facts", [](const Saved& self) { return facts_of(self.facts); });
  module.def("save_pilot", &save, py::arg("path"), py::arg("card"), py::arg("model"));
}

}  // namespace outsize::sim
