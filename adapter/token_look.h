// A look at a small tensor's values, for what a sample says (core/trace/token_statistics.h). It moves nothing: what is
// not in RAM just now is not looked at.
#pragma once

#include <ATen/core/TensorBase.h>

#include "core/trace/token_statistics.h"

namespace outsize::adapter {

trace::TokenStatistics look_at(const at::TensorBase& tensor);

}  // namespace outsize::adapter
