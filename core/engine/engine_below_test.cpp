// When the next tier is full, copies of what is in RAM as well are given up.
#include "core/engine/engine_test_rig.h"

namespace outsize {
namespace {

class EngineBelow : public testing::TestWithParam<const char*> {
 protected:
  EngineRig rig{100, GetParam()};
  std::string no_slot(ExtentId id) { return rig.give(Input::Kind::kNoSlot, id); }
  // Resident, clean: written, evicted and brought back by a read.
  void clean(ExtentId id, Bytes bytes) {
    rig.alloc(0, id, bytes);
    EXPECT_EQ(rig.alloc(0, 99, 100 - bytes + 1), "wait write:" + std::to_string(id));
    EXPECT_EQ(rig.write_done(id), "go evict:" + std::to_string(id) + " grant:t0");
    rig.death(99);
    EXPECT_EQ(rig.op(0, {{id}, {}}), "wait fetch:" + std::to_string(id));
    rig.read_done(id), rig.end(0);
  }
};
INSTANTIATE_TEST_SUITE_P(EveryPolicy, EngineBelow, testing::Values("ondemand", "lookahead", "deepum", "weights"));

TEST_P(EngineBelow, TheCopyOfAnOperandMakesRoomForAVictim) {
  clean(1, 40);
  rig.alloc(0, 2, 50);
  rig.op(0, {{1}, {}});
  EXPECT_EQ(rig.alloc(0, 3, 30), "wait write:2");
  EXPECT_EQ(no_slot(2), "go forget:1 unguard:1 write:2") << "1 is pinned and has a copy";
  EXPECT_EQ(rig.write_done(2), "go evict:2 grant:t0");
  rig.end(0);
  rig.death(3);
  EXPECT_EQ(rig.alloc(0, 4, 90), "wait write:1") << "its bytes are not below any more";
}

TEST_P(EngineBelow, WithoutSuchACopyWhoWaitsIsTold) {
  rig.alloc(0, 1, 60);
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait write:1");
  EXPECT_EQ(no_slot(1), "go refuse:t0");
  EXPECT_EQ(rig.commands()[0].refusal, Refusal::kIo);
  rig.death(1);
  EXPECT_EQ(rig.alloc(0, 2, 60), "go") << "and goes on after it";
}

TEST_P(EngineBelow, AFileOfTheProgramsIsNoRoom) {
  rig.spilled(1, 40);
  rig.op(0, {{1}, {}}), rig.read_done(1), rig.end(0);
  rig.alloc(0, 2, 50);
  rig.op(0, {{1}, {}});
  EXPECT_EQ(rig.alloc(0, 3, 30), "wait write:2");
  EXPECT_EQ(no_slot(2), "go refuse:t0") << "to forget where 1 came from frees nothing";
}

TEST_P(EngineBelow, OneCopyMayBeRoomForSeveral) {
  clean(1, 40);
  rig.alloc(0, 2, 20), rig.alloc(0, 3, 20);
  rig.op(0, {{1}, {}});
  EXPECT_EQ(rig.alloc(0, 4, 60), "wait write:2 write:3");
  EXPECT_EQ(no_slot(2), "go forget:1 unguard:1 write:2 promote:3");
  EXPECT_EQ(no_slot(3), "go promote:2 write:3") << "asked for before the copy had gone";
  rig.write_done(2);
  const std::string granted = rig.write_done(3);
  EXPECT_TRUE(granted.ends_with("grant:t0")) << granted;
}

TEST_P(EngineBelow, ACopyThatComesLaterIsGivenUpThen) {
  rig.alloc(0, 9, 100);  // as written and evicted: their copies are not files
  rig.death(9);
  for (ExtentId id : {1U, 2U}) {
    clean(id, 40);
    EXPECT_EQ(rig.alloc(0, 99, 61), "wait evict:" + std::to_string(id) + " grant:t0");
    rig.death(99);
  }
  rig.alloc(0, 3, 60);
  EXPECT_EQ(rig.op(0, {{1, 2}, {}}), "wait fetch:1 write:3");
  EXPECT_EQ(no_slot(3), "go") << "1 is still being read from its only copy";
  EXPECT_EQ(rig.read_done(1), "go install:1 write:3");
  EXPECT_EQ(no_slot(3), "go forget:1 unguard:1 write:3");
  EXPECT_EQ(rig.write_done(3), "go evict:3 fetch:2");
}

TEST_P(EngineBelow, WhereALargeOneFindsNoRoomASmallOneMay) {
  rig.alloc(0, 1, 60), rig.alloc(0, 2, 30);
  rig.hint(1, false);
  EXPECT_EQ(rig.alloc(0, 3, 30), "wait write:1");
  EXPECT_EQ(no_slot(1), "go write:2");
}

TEST_P(EngineBelow, ACleanExtentThatCanLeaveLeavesItself) {
  clean(1, 40);
  rig.alloc(0, 2, 50);
  rig.hint(1, true);
  EXPECT_EQ(rig.alloc(0, 3, 30), "wait write:2") << "1 is needed sooner";
  EXPECT_EQ(no_slot(2), "go evict:1 grant:t0") << "or it would have to be written again";
}

// All were just used, and so are needed soon for all that policies know.
TEST_P(EngineBelow, WhatWasWrittenToLeaveLeavesBeforeOthersAreWritten) {
  for (const ExtentId id : {1U, 2U, 3U}) rig.alloc(0, id, 30);
  EXPECT_EQ(rig.alloc(0, 4, 30), "wait write:1");
  EXPECT_EQ(rig.write_done(1), "go evict:1 grant:t0");
}

TEST_P(EngineBelow, AVictimThatDiedMeanwhileIsReleased) {
  rig.alloc(0, 1, 60);
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait write:1");
  EXPECT_EQ(rig.death(1), "go");
  EXPECT_EQ(no_slot(1), "go release:1 grant:t0");
}

// A hint makes room ahead of need; nobody waits for it, so nobody is told.
TEST_P(EngineBelow, WhatIsWrittenAheadGivesWay) {
  constexpr Nanos kNow = 1'000'000'000;
  rig.alloc(0, 1, 60);
  rig.spilled(2, 60);
  rig.hint(2, true);
  EXPECT_EQ(rig.plan(kNow), "go write:1");
  EXPECT_EQ(no_slot(1), "go");
  EXPECT_EQ(rig.plan(2 * kNow), "go") << "the next tier is still full";
  rig.give(Input::Kind::kStep, kNoExtent);
  EXPECT_EQ(rig.plan(3 * kNow), "go write:1") << "it is tried again in every step";
}

}  // namespace
}  // namespace outsize
