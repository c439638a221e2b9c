// What inner ops bore stays pinned for their caller, whoever else uses it meanwhile.
#include "core/engine/engine_test_rig.h"

namespace outsize {
namespace {

// Another thread's op lists the extent when the caller lets go of it, and ends later. The caller, to
// which it is born once more, must take it again.
TEST(EngineInherit, WhatAnotherThreadUsedMeanwhileIsTakenAgain) {
  EngineRig rig(1000);
  rig.op(0, {});
  const auto bear = [&](ExtentId id) {
    rig.op(0, {});
    rig.alloc(0, id, 1);
    rig.end(0);
  };
  bear(5);
  rig.op(1, {{5}, {}});
  for (ExtentId id = 10; id < 11 + kInheritedMax; ++id) bear(id);
  rig.end(1);
  EXPECT_EQ(rig.extent(5).pins, 0U) << "let go: others came later";
  rig.op(0, {});
  rig.touch(0, 5);
  rig.end(0);
  EXPECT_EQ(rig.extent(5).pins, 1U);
  EXPECT_EQ(rig.extent(5).write_pins, 1U);
}

}  // namespace
}  // namespace outsize
