// Turns our results into PyTorch's exceptions, at the edge where PyTorch calls us.
#pragma once

#include "core/base/result.h"

namespace outsize::adapter {

// kOutOfBudget becomes c10::OutOfMemoryError (torch.OutOfMemoryError in Python), everything else
// c10::Error (RuntimeError). The text is Error::message().
[[noreturn]] void throw_error(const Error& error);

}  // namespace outsize::adapter
