// A modelled program: what each thread does, in order. Objects stand for tensors; their ids are
// never used twice. The simulated driver maps them to extents as the live one does.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/types.h"

namespace outsize::sim {

using ObjectId = std::uint32_t;

struct ObjectRef {
  ObjectId object = 0;
  Access access = Access::kRead;
};

struct Action {
  enum class Kind : std::uint8_t {
    kOpBegin,    // site, operands, in_backward, graph
    kOpEnd,      // flag: the kernel touches its operands once more before it ends
    kBirth,      // object, bytes, flag: an extent for small storages, the first of which follows (kShare)
    kShare,      // object: a small storage is born in the object's extent, if that is resident
    kDeath,      // object
    kWork,       // duration passes
    kRawAccess,  // object, flag: write
    kExpose,     // object
    kAdopt,      // object, bytes, flag: absent with a valid copy below
    kPin,        // object: made resident by an op and kept
    kUnpin,      // object
    kHint,       // object, flag: used soon
    kStep,
    kBudget,     // bytes
    kSample,     // sample: what the next ops work on
  };
  Kind kind = Kind::kWork;
  bool flag = false;
  bool in_backward = false;
  ObjectId object = 0;
  Bytes bytes = 0;
  SiteId site = 0;
  GraphPlace graph = 0;
  Nanos duration = 0;
  std::vector<ObjectRef> operands;
  std::vector<std::int64_t> sample;  // core/trace/sample.h
};

struct Program {
  std::vector<std::vector<Action>> threads;
  ObjectId objects = 0;  // ids are below this
};

}  // namespace outsize::sim
