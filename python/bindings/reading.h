// What the bindings share: long work without Python's GIL, which Ctrl-C ends.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

namespace outsize {

// Called without the GIL, now and then, by work that takes long. The exception that a signal's handler
// raised stays set for whoever takes the GIL again.
inline bool interrupted() {
  const pybind11::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

// What `work` returns, done without the GIL. Python's own exception, where it was interrupted.
template <class Work>
auto without_gil(const Work& work) {
  auto done = [&] {
    const pybind11::gil_scoped_release no_gil;
    return work();
  }();
  if (PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
  return done;
}

// As without_gil, for what may fail: an error is a ValueError, whose text is for the person at the keyboard.
template <class Read>
auto read_without_gil(const Read& read) {
  auto result = without_gil(read);
  if (!result.ok()) throw pybind11::value_error(result.error().message());
  return std::move(*result);
}

}  // namespace outsize
