// What a program says of its own tensors: that they must stay in RAM, that they are used soon or not.
// Both front doors, C++ and Python, call these.
#pragma once

#include <ATen/core/TensorBase.h>

#include "core/base/result.h"
#include "platforms/host/runtime.h"

namespace outsize::adapter {

// Brings a tensor's bytes back and keeps them in RAM until host::Runtime::unpin; adopts them first
// where they were born before outsize was switched on. Nothing where outsize is off. May block: do
// not hold the GIL.
Result<host::Pins> pin(const at::TensorBase& tensor);

// As pin(), but leaves a quarter of the budget to everything else: a program that pins all of it
// could run no op, and a raw access that finds no room ends the process.
Result<host::Pins> pin_for_program(const at::TensorBase& tensor);

// See host::Runtime::hint. Nothing where outsize is off.
void hint(const at::TensorBase& tensor, bool soon);

}  // namespace outsize::adapter
