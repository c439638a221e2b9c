// Turns our results into PyTorch's exceptions, at the edge where PyTorch calls us.
#pragma once

#include "core/base/result.h"

namespace outsize::adapter {

// kOutOfBudget becomes c10::OutOfMemoryError, everything else c10::Error. The text is
// Error::message(). Under Python the module's own thrower raises OutsizeError and its children.
[[noreturn]] void throw_error(const Error& error);

// Whom throw_error asks from now on; it must throw. For the life of the process.
void set_thrower(void (*thrower)(const Error& error));

}  // namespace outsize::adapter
