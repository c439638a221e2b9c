// What a sample says, as the engine is told it: a row of integers, since nothing but integers goes into
// decisions. For each feature: the FNV-1a hash (64 bits) of its name, the number of its values, the values.
// A value that is a whole number of at most 2^53 is that number, any other the bits of its double.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/trace/trace_event.h"

namespace outsize::trace {

std::vector<std::int64_t> encode_sample(std::span<const Feature> features);

// Whether every feature has as many values as it says.
bool is_sample(std::span<const std::int64_t> sample);

}  // namespace outsize::trace
