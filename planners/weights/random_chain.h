// Random chains for tests and tables. `Random` has between(low, high), both included.
#pragma once

#include "planners/weights/chain.h"

namespace outsize::weights {

struct ChainShape {
  std::int64_t layers_min = 3, layers_max = 8;
  Bytes weight_max = 12, activation_max = 6, scratch_max = 4;
  Nanos time_max = 10;
  std::int64_t slowdown_max = 3;  // a link carries 1/slowdown bytes a nanosecond
};

template <class Random>
Chain random_chain(Random& random, const ChainShape& shape = {}) {
  Chain chain;
  const auto layers = static_cast<std::size_t>(random.between(shape.layers_min, shape.layers_max));
  for (std::size_t i = 0; i < layers; ++i) {
    Layer layer;
    layer.weight = random.between(0, shape.weight_max);
    layer.forward = random.between(1, shape.time_max);
    layer.backward = 2 * layer.forward + random.between(-1, 1);
    layer.activation = random.between(0, shape.activation_max);
    layer.forward_scratch = random.between(0, shape.scratch_max);
    layer.backward_scratch = random.between(0, shape.scratch_max) + layer.weight / 2;
    chain.layers.push_back(layer);
  }
  chain.up.bytes_per_us = 1000 / random.between(1, shape.slowdown_max);
  chain.down.bytes_per_us = 1000 / random.between(1, shape.slowdown_max);
  return chain;
}

// A memory between the least with which a schedule exists and what everything takes.
template <class Random>
Bytes random_memory(Random& random, const Chain& chain) {
  const MemoryRange range = memory_range(chain);
  return random.between(range.least, range.all);
}

}  // namespace outsize::weights
