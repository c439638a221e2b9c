// `oracle`: foresight without error. The predictor reads the program that is simulated, the planner is
// `lookahead`'s, so that what it gains is what better foresight could gain, and no more.
// For programs of one thread.
#pragma once

#include <vector>

#include "planners/registry/policies.h"
#include "sim/program.h"

namespace outsize::sim {

// Where the driver stands and which extents play which objects; it keeps this up to date, births before
// the engine hears of them. Must outlive the policy.
struct Cast {
  std::vector<ExtentId> extents;  // by object; kNoExtent: none
  std::vector<ObjectId> objects;  // by extent
  std::size_t action = 0;         // that is performed, or comes next

  void put(ObjectId object, ExtentId extent) {
    if (extent >= objects.size()) objects.resize(extent + 1);
    objects[extent] = object;
    extents[object] = extent;
  }
  void remove(ObjectId object) { extents[object] = kNoExtent; }
};

Policy make_oracle_policy(const ExtentTable& table, const Program& program, const Cast& cast);

}  // namespace outsize::sim
