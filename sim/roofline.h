// Times of ops on another device than the one that a trace was recorded on, by the roofline model (S. Williams,
// A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model", CACM 52(4), 2009): an op takes as long
// as its arithmetic at the device's rate or its bytes at the memory's bandwidth, whichever is longer, and never less
// than a kernel with its launch. A model of kernels that reach both limits: real ones are slower.
//
// The arithmetic is counted for what dominates training, from the shapes in an op site's name: matrix products,
// convolutions, attention. All other ops are taken to be bound by their bytes. Bytes are those of the storages that an
// op reads, writes and bears, each once and whole: a trace knows no more, so an op that touches a small part of a large
// storage (an embedding) is told too slow.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/types.h"

namespace outsize::sim {

struct Roofline {
  std::int64_t flops_per_us = 0;  // additions and multiplications
  Bytes bytes_per_us = 0;
  Nanos op = 0;                   // the least that any op takes
};

// Of an op whose site is called `name`, as in "aten::mm [512x64], [64x128] (backward)"; `born`: bytes of its results.
// 0 where its bytes are all that counts.
std::int64_t flops_of(std::string_view name, Bytes born);

// `bytes`: of all storages that it touches or bears; `born`: of these, what it bears.
Nanos time_on(const Roofline& device, std::string_view name, Bytes bytes, Bytes born);

}  // namespace outsize::sim
