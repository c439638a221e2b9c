// Policies of other systems, as models of their own: what NVIDIA's unified virtual memory does with a program that is
// larger than the device, and what DeepUM does on top of it. In simulation only; docs/notes/uvm-model.md says what is
// modelled and by which sources.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/result.h"
#include "predictors/deepum/options.h"

namespace outsize::sim::uvm {

struct Options {
  // Of a batch of page faults, until its blocks begin to move, in microseconds. 45: as G10's artifact models an A100.
  std::uint32_t fault_us = 45;
  // Page faults of 4 KiB that a batch has at most (the driver's default).
  std::uint32_t batch = 256;
  // The tree prefetcher. Off: the faulted leaves alone.
  bool tree = true;

  // DeepUM. Off: plain unified memory, and the switches below say nothing.
  bool foresight = false;
  // Off: room is made when it is needed, for what comes ahead too, and by the driver's own order alone.
  bool pre_eviction = true;
  // Off: what lies in no piece of the allocator is written down as everything else.
  bool invalidation = true;
  deepum::PredictorOptions tables = block_tables();

  // An op uses more blocks than extents: 128 rows of 2 ways hold 512 MiB of an op's. Contexts are the paper's.
  static deepum::PredictorOptions block_tables() {
    deepum::PredictorOptions options;
    options.rows = 128;
    options.levels = 1;
    options.walk = 512;
    options.long_contexts = false;
    return options;
  }
};

// Whether `policy`, with or without settings behind a colon, is one of these.
bool is_policy(std::string_view policy);
// Of such a one. The error names the setting that is wrong.
Result<Options> options_of(std::string_view policy);

}  // namespace outsize::sim::uvm
