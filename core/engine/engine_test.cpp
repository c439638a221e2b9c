// The engine, one rule a test, driven by hand under the judge of core/check. Random programs are in
// sim/engine_fuzz_test.cpp.
#include "core/engine/engine_test_rig.h"

namespace outsize {
namespace {

TEST(Engine, WithAnAmpleBudgetNothingMoves) {  // invariant 9
  for (const char* policy : {"lookahead", "ondemand", "deepum", "weights"}) {
    EngineRig rig(1000, policy);
    for (int step = 0; step < 20; ++step) {
      for (ExtentId id = 1; id <= 8; ++id) {
        EXPECT_EQ(rig.op(0, {}, id), "go");
        EXPECT_EQ(rig.alloc(0, id, 100), "go");
        EXPECT_EQ(rig.end(0), "go");
      }
      for (ExtentId id = 8; id >= 1; --id) {
        EXPECT_EQ(rig.op(0, {{id}, {}}, 100 + id), "go");
        EXPECT_EQ(rig.end(0), "go");
        EXPECT_EQ(rig.plan(step * 1000 + id), "go");
        EXPECT_EQ(rig.death(id), "go release:" + std::to_string(id));
      }
    }
    EXPECT_EQ(rig.engine().stats().resident_peak, 800);
    EXPECT_EQ(rig.engine().stats().evictions, 0);
  }
}

TEST(Engine, AnOpWaitsForItsOperands) {
  EngineRig rig(100);
  rig.spilled(1, 40);
  rig.spilled(2, 40);
  EXPECT_EQ(rig.op(0, {{1, 2}, {}}), "wait fetch:1 fetch:2");
  EXPECT_EQ(rig.read_done(2), "go install:2");
  EXPECT_EQ(rig.read_done(1), "go install:1 grant:t0");
  EXPECT_EQ(rig.end(0), "go");
  EXPECT_EQ(rig.op(0, {{1, 2}, {}}), "go");
}

TEST(Engine, CleanVictimsLeaveAtOnceLeastRecentFirst) {
  EngineRig rig(100);
  for (ExtentId id : {1U, 2U, 3U}) rig.spilled(id, 50);
  rig.op(0, {{1}, {}}), rig.read_done(1), rig.end(0);
  rig.op(0, {{2}, {}}), rig.read_done(2), rig.end(0);
  rig.op(0, {{1}, {}}), rig.end(0);
  EXPECT_EQ(rig.op(0, {{3}, {}}), "wait evict:2 fetch:3");
}

TEST(Engine, DirtyVictimsAreWrittenFirst) {
  EngineRig rig(100);
  rig.alloc(0, 1, 60);
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait write:1");
  EXPECT_EQ(rig.write_done(1), "go evict:1 grant:t0");
  EXPECT_EQ(rig.engine().table()[2].where, Where::kResident);
}

// The planner had seen nothing while everything was below half of the budget.
TEST(Engine, TheFirstNeedMayBeTheLargest) {
  EngineRig rig(100);
  rig.alloc(0, 1, 40);
  EXPECT_FALSE(rig.engine().watching());
  EXPECT_EQ(rig.alloc(0, 2, 80), "wait write:1");
  EXPECT_EQ(rig.write_done(1), "go evict:1 grant:t0");
}

TEST(Engine, WhatCannotFitIsRefusedAtOnceWithTheArithmetic) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.spilled(2, 60);
  EXPECT_EQ(rig.op(0, {{1, 2}, {}}), "wait refuse:t0");
  EXPECT_EQ(rig.commands().back().refusal, Refusal::kBudget);
  EXPECT_EQ(rig.commands().back().bytes, 120);
  EXPECT_EQ(rig.alloc(0, 3, 101), "wait refuse:t0");
  EXPECT_EQ(rig.commands().back().extent, 3U);
  EXPECT_EQ(rig.alloc(0, 3, 100), "go") << "nothing may be left of what was refused";
}

TEST(Engine, AnAllocationInsideAnOpCountsItsOperands) {
  EngineRig rig(100);
  rig.alloc(0, 1, 60);
  rig.op(0, {{1}, {}}, 77);
  EXPECT_EQ(rig.alloc(0, 2, 41), "wait refuse:t0");
  EXPECT_EQ(rig.commands().back().bytes, 101);
  EXPECT_EQ(rig.engine().stats().need_peak, 101);
  EXPECT_EQ(rig.engine().stats().need_site, 77U);
  EXPECT_EQ(rig.alloc(0, 2, 40), "go");
  EXPECT_EQ(rig.end(0), "go");
}

TEST(Engine, TemporariesThatDiedAreNoNeed) {
  EngineRig rig(100);
  rig.op(0, {});
  for (ExtentId id = 1; id <= 10; ++id) {
    EXPECT_EQ(rig.alloc(0, id, 60), "go");
    EXPECT_EQ(rig.death(id), "go release:" + std::to_string(id));
  }
  EXPECT_EQ(rig.engine().stats().need_peak, 60);
}

// Small storages share an extent: a hundred births in it are one need, in every frame.
TEST(Engine, ASharedExtentIsCountedOnceInTheCallersNeed) {
  EngineRig rig(100);
  rig.alloc(0, 1, 20);
  rig.op(0, {});
  for (int i = 0; i < 100; ++i) {
    rig.op(0, {});
    EXPECT_EQ(rig.touch(0, 1), "go");
    rig.end(0);
  }
  EXPECT_EQ(rig.alloc(0, 2, 10), "go");
  EXPECT_EQ(rig.engine().stats().need_peak, 30);
}

TEST(Engine, AdoptionBeyondTheBudgetIsMadeRoomForAtTheNextOp) {
  EngineRig rig(100);
  EXPECT_EQ(rig.adopt(1, 80, false), "go");
  EXPECT_EQ(rig.adopt(2, 80, false), "go");
  EXPECT_EQ(rig.op(0, {{2}, {}}), "wait write:1");
  EXPECT_EQ(rig.write_done(1), "go evict:1 grant:t0");
}

TEST(Engine, ALoweredBudgetIsMadeRoomForAtOnce) {
  EngineRig rig(100);
  rig.alloc(0, 1, 40);
  rig.alloc(0, 2, 40);
  EXPECT_EQ(rig.budget(50), "go write:1");
  EXPECT_EQ(rig.write_done(1), "go evict:1");
  EXPECT_EQ(rig.budget(90), "go");
  EXPECT_EQ(rig.op(0, {{2}, {}}), "go");
}

TEST(Engine, WhatARunningOpHoldsIsMadeRoomForWhenItEnds) {
  EngineRig rig(100);
  rig.alloc(0, 1, 40);
  rig.alloc(0, 2, 40);
  EXPECT_EQ(rig.op(0, {{1}, {2}}), "go");
  EXPECT_EQ(rig.budget(50), "go");
  EXPECT_EQ(rig.end(0), "go write:1");
  EXPECT_EQ(rig.write_done(1), "go evict:1");
}

TEST(Engine, AnOpThatWaitsComesBeforeALoweredBudget) {
  EngineRig rig(100);
  rig.alloc(0, 1, 40);
  rig.alloc(0, 2, 40);
  EXPECT_EQ(rig.budget(50), "go write:1");
  EXPECT_EQ(rig.op(0, {{1}, {}}), "wait write:2");
  EXPECT_EQ(rig.write_done(1), "go promote:2");
  EXPECT_EQ(rig.write_done(2), "go evict:2 grant:t0");
}

TEST(Engine, ANestedOpSuspendsItsCallersPins) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.spilled(2, 60);
  rig.op(0, {{1}, {}}), rig.read_done(1);
  EXPECT_EQ(rig.op(0, {{2}, {}}), "wait evict:1 fetch:2");
  EXPECT_EQ(rig.read_done(2), "go install:2 grant:t0");
  EXPECT_EQ(rig.end(0), "go");
  EXPECT_EQ(rig.end(0), "go");
}

TEST(Engine, SuspendedPinsAreLastChoiceVictims) {
  EngineRig rig(150);
  for (ExtentId id : {1U, 2U, 3U}) rig.spilled(id, 50);
  rig.op(0, {{2}, {}}), rig.read_done(2);  // least recently used, but its op has not ended
  rig.op(1, {{3}, {}}), rig.read_done(3), rig.end(1);
  rig.op(1, {{1}, {}}), rig.read_done(1), rig.end(1);
  rig.op(0, {});
  EXPECT_EQ(rig.alloc(0, 4, 50), "wait evict:3 grant:t0");
  EXPECT_EQ(rig.alloc(0, 5, 50), "wait evict:1 grant:t0");
  EXPECT_EQ(rig.alloc(0, 6, 50), "wait evict:2 grant:t0");
}

TEST(Engine, WhatIsBornInsideStaysWithTheCaller) {
  EngineRig rig(100);
  rig.op(0, {});
  rig.op(0, {});
  rig.alloc(0, 1, 60);
  rig.end(0);
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait refuse:t0") << "the caller may hold raw pointers to it";
  rig.end(0);
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait write:1");
}

TEST(Engine, AWriteToACleanExtentMakesItsCopyForgotten) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.op(0, {{1}, {}}), rig.read_done(1), rig.end(0);
  EXPECT_EQ(rig.op(0, {{}, {1}}), "go forget:1 unguard:1");
  rig.end(0);
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait write:1");
}

TEST(Engine, AWriteDuringATransferIsNotTrusted) {
  EngineRig rig(100);
  rig.alloc(0, 1, 60);
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait write:1");
  EXPECT_EQ(rig.op(1, {{}, {1}}), "go unguard:1");
  EXPECT_EQ(rig.end(1), "go promote:1");
  EXPECT_EQ(rig.write_done(1), "go forget:1 write:1") << "it was changed, so it is written again";
  EXPECT_EQ(rig.write_done(1), "go evict:1 grant:t0");
}

TEST(Engine, TheDeadAreReleasedWhenTheirTransferEnds) {
  EngineRig rig(100);
  rig.alloc(0, 1, 60);
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait write:1");
  EXPECT_EQ(rig.death(1), "go");
  EXPECT_EQ(rig.engine().stats().resident, 60);
  EXPECT_EQ(rig.write_done(1), "go release:1 grant:t0");
  rig.spilled(3, 40);
  EXPECT_EQ(rig.op(0, {{3}, {}}), "wait fetch:3");
  EXPECT_EQ(rig.op(1, {{2}, {}}), "go");
  EXPECT_EQ(rig.end(1), "go");
  EXPECT_EQ(rig.read_done(3), "go install:3 grant:t0");
}

// An extent dies inside an op whose pin on it had been lent to a raw access. Its id comes back at
// once; the op's stale entry must not touch the newcomer.
TEST(Engine, AStaleEntryDoesNotOutliveItsExtent) {
  EngineRig rig(100);
  rig.spilled(9, 60);
  rig.op(0, {});
  rig.alloc(0, 1, 60);
  EXPECT_EQ(rig.fault(9, false), "go write:1") << "the op's pin is lent";
  EXPECT_EQ(rig.write_done(1), "go evict:1 fetch:9");
  EXPECT_EQ(rig.read_done(9), "go install:9");
  EXPECT_EQ(rig.death(1), "go release:1");
  EXPECT_EQ(rig.alloc(1, 1, 40), "go") << "another thread's, same id";
  rig.op(0, {});
  rig.end(0);
  rig.end(0);
  EXPECT_EQ(rig.engine().table()[1].pins, 0U);
  EXPECT_EQ(rig.engine().table()[1].soft, 0U);
}

// --- several threads --------------------------------------------------------------------------

TEST(EngineWaiting, OpsThatNeedSixtyPercentEachTakeTurns) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.spilled(2, 60);
  EXPECT_EQ(rig.op(0, {{1}, {}}), "wait fetch:1");
  EXPECT_EQ(rig.op(1, {{2}, {}}), "wait");
  EXPECT_EQ(rig.read_done(1), "go install:1 grant:t0");
  EXPECT_EQ(rig.end(0), "go evict:1 fetch:2");
  EXPECT_EQ(rig.read_done(2), "go install:2 grant:t1");
}

TEST(EngineWaiting, WhoNeedsNoRoomGoesAhead) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.spilled(2, 60);
  rig.spilled(3, 30);
  rig.op(0, {{1}, {}}), rig.read_done(1);
  EXPECT_EQ(rig.op(1, {{2}, {}}), "wait");
  EXPECT_EQ(rig.op(2, {{1}, {}}), "go");
}

TEST(EngineWaiting, AllocationsInsideOpsGoFirst) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.alloc(0, 2, 30);
  rig.op(0, {{2}, {}});
  rig.op(2, {});
  rig.alloc(2, 3, 60);
  EXPECT_EQ(rig.op(1, {{1}, {}}), "wait") << "thread 2 runs and will end";
  EXPECT_EQ(rig.alloc(0, 4, 30), "wait");
  EXPECT_EQ(rig.end(2), "go write:3");
  EXPECT_EQ(rig.write_done(3), "go evict:3 grant:t0") << "it came later, but holds pins";
  EXPECT_EQ(rig.end(0), "go write:2");
}

// Each holds what the other needs: the pins of one are lent.
TEST(EngineWaiting, TwoAllocationsInsideOpsDoNotDeadlock) {  // invariant 11
  EngineRig rig(100);
  rig.alloc(0, 1, 50);
  rig.alloc(1, 2, 50);
  rig.op(0, {{1}, {}});
  rig.op(1, {{2}, {}});
  EXPECT_EQ(rig.alloc(0, 3, 50), "wait") << "thread 1 runs";
  EXPECT_EQ(rig.alloc(1, 4, 50), "wait write:2") << "nobody runs: thread 1's pin is lent";
  EXPECT_EQ(rig.write_done(2), "go evict:2 grant:t0");
  EXPECT_EQ(rig.end(0), "go write:1 write:3");
  EXPECT_EQ(rig.write_done(1), "go evict:1 promote:3 fetch:2 promote:3");
  EXPECT_EQ(rig.read_done(2), "go install:2 promote:3") << "its operand came back";
  EXPECT_EQ(rig.write_done(3), "go evict:3 grant:t1");
}

TEST(EngineWaiting, AUsersPinStays) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.op(0, {{1}, {}}), rig.read_done(1);
  rig.give(Input::Kind::kPin, 1);
  rig.end(0);
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait refuse:t0");
  EXPECT_EQ(rig.give(Input::Kind::kUnpin, 1), "go");
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait evict:1 grant:t0");
}

// --- raw accesses -----------------------------------------------------------------------------

TEST(EngineWaiting, ARawAccessBringsTheBytesBackAsChanged) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  EXPECT_EQ(rig.fault(1, false), "go fetch:1");
  EXPECT_EQ(rig.fault(1, true), "go") << "the second waits for the same read, and will write";
  EXPECT_EQ(rig.read_done(1), "go install:1 forget:1");
  EXPECT_FALSE(rig.commands().front().flag) << "unguarded";
}

TEST(EngineWaiting, AnExposedExtentIsGuardedAtOnceWheneverItComesBack) {  // ADR 0004
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.give(Input::Kind::kExpose, 1);
  EXPECT_EQ(rig.op(0, {{1}, {}}), "wait fetch:1");
  EXPECT_EQ(rig.read_done(1), "go install:1 grant:t0");
  EXPECT_TRUE(rig.commands().front().flag && rig.commands().front().at_once);
  rig.end(0);
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait evict:1 grant:t0") << "nobody wrote to it: not written again";
}

// A load across the border of two extents needs both, while ops will want what else is here sooner.
TEST(EngineWaiting, ARawAccessDoesNotPushOutWhatItNeedsItself) {
  EngineRig rig(100, "lookahead");
  for (const ExtentId id : {1, 2, 3}) rig.spilled(id, 40);
  for (const ExtentId id : {3, 1}) {
    rig.fault(id, false);
    rig.read_done(id);
  }
  EXPECT_EQ(rig.fault(2, false), "go evict:3 fetch:2") << "the one whose access lies farthest back";
  rig.read_done(2);
  EXPECT_EQ(rig.fault(3, false), "go evict:1 fetch:3");
}

TEST(EngineWaiting, ARawWriteToACleanExtentIsNoticed) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.op(0, {{1}, {}}), rig.read_done(1), rig.end(0);
  EXPECT_EQ(rig.fault(1, true), "go forget:1 unguard:1 resume:1");
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait write:1") << "its copy is no copy any more";
  EXPECT_EQ(rig.fault(1, true), "go unguard:1 resume:1");
  EXPECT_EQ(rig.write_done(1), "go forget:1 write:1");
}

TEST(EngineWaiting, ARawAccessGoesBeforeOpsAndTakesARunningOpsPins) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.spilled(2, 60);
  rig.spilled(3, 60);
  rig.op(0, {{1}, {}}), rig.read_done(1);
  EXPECT_EQ(rig.op(1, {{3}, {}}), "wait");
  EXPECT_EQ(rig.fault(2, false), "go evict:1 fetch:2");
  EXPECT_EQ(rig.read_done(2), "go install:2 forget:2 write:2") << "thread 1 is next";
  EXPECT_EQ(rig.fault(1, false), "go promote:2") << "the running op wants its operand, before thread 1";
  EXPECT_EQ(rig.write_done(2), "go evict:2 fetch:1");
  EXPECT_EQ(rig.read_done(1), "go install:1 forget:1 write:1");
}

// --- failures (invariant 6) -------------------------------------------------------------------

TEST(EngineWaiting, AFailedReadIsToldToWhoWaitsForIt) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  EXPECT_EQ(rig.op(0, {{1}, {}}), "wait fetch:1");
  EXPECT_EQ(rig.read_done(1, true), "go abandon:1 refuse:t0");
  EXPECT_EQ(rig.commands().back().refusal, Refusal::kIo);
  EXPECT_EQ(rig.op(0, {{1}, {}}), "wait fetch:1") << "the copy is still there";
  EXPECT_EQ(rig.read_done(1), "go install:1 grant:t0");
}

TEST(EngineWaiting, AFailedReadLeavesOthersWaiting) {
  EngineRig rig(100);
  rig.spilled(1, 40);
  rig.spilled(2, 40);
  rig.op(0, {{1}, {}});
  EXPECT_EQ(rig.op(1, {{2}, {}}), "wait");
  EXPECT_EQ(rig.read_done(1, true), "go abandon:1 refuse:t0 fetch:2");
  EXPECT_EQ(rig.read_done(2), "go install:2 grant:t1");
}

TEST(EngineWaiting, AFailedWriteIsToldAndNothingIsLost) {
  EngineRig rig(100);
  rig.alloc(0, 1, 60);
  EXPECT_EQ(rig.alloc(0, 2, 60), "wait write:1");
  EXPECT_EQ(rig.write_done(1, true), "go forget:1 unguard:1 refuse:t0");
  EXPECT_EQ(rig.commands().back().refusal, Refusal::kIo);
  EXPECT_EQ(rig.op(0, {{1}, {}}), "go");
}

TEST(EngineWaiting, AfterAFailureARawAccessStillGetsRoom) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.alloc(0, 2, 60);
  rig.alloc(0, 3, 60);
  rig.write_done(2, true);
  EXPECT_EQ(rig.fault(1, false), "go write:2");
}

TEST(EngineWaiting, ARawAccessWhoseReadKeepsFailingStopsTheRun) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.fault(1, false);
  for (int i = 1; i < 8; ++i) ASSERT_EQ(rig.read_done(1, true), "go abandon:1 fetch:1");
  EXPECT_EQ(rig.read_done(1, true), "go abandon:1 fatal:1");
}

TEST(EngineWaiting, ARawAccessThatNobodyCanMakeRoomForStopsTheRun) {
  EngineRig rig(100);
  rig.spilled(1, 60);
  rig.alloc(0, 2, 60);
  EXPECT_EQ(rig.fault(1, false), "go write:2");
  for (int i = 1; i < 8; ++i) ASSERT_EQ(rig.write_done(2, true), "go forget:2 unguard:2 write:2");
  EXPECT_EQ(rig.write_done(2, true), "go forget:2 unguard:2 fatal:1");
}

TEST(EngineWaiting, ARefusedInnerOpGivesItsCallerItsPinsBack) {
  EngineRig rig(100);
  for (const auto& [id, bytes] : {std::pair{1U, 40}, {2U, 30}, {3U, 40}, {4U, 40}}) rig.spilled(id, bytes);
  rig.op(0, {{4}, {}}), rig.read_done(4), rig.give(Input::Kind::kPin, 4), rig.end(0);
  rig.op(0, {{1}, {}}), rig.read_done(1);
  EXPECT_EQ(rig.op(0, {{2, 3}, {}}), "wait evict:1 fetch:2");  // 70 would fit, but for what the user pinned
  EXPECT_EQ(rig.read_done(2), "go install:2 refuse:t0");
  EXPECT_EQ(rig.engine().table()[2].pins, 0U);
  EXPECT_EQ(rig.engine().table()[1].soft, 0U);
  EXPECT_EQ(rig.fault(1, false), "go evict:2 fetch:1") << "the caller comes back for it";
}

// One instruction that reads across the seam of two extents of an adopted range faults on each by turns.
TEST(EngineWaiting, TwoExtentsThatRawAccessesTakeTurnsForStayTogether) {
  EngineRig rig(200);
  for (ExtentId id = 1; id <= 4; ++id) rig.spilled(id, 100);
  rig.fault(3, false), rig.read_done(3);
  rig.fault(4, false), rig.read_done(4);
  EXPECT_EQ(rig.fault(1, false), "go evict:3 fetch:1") << "the oldest";
  EXPECT_EQ(rig.read_done(1), "go install:1");
  EXPECT_EQ(rig.fault(2, false), "go evict:4 fetch:2") << "not the one that just came";
  rig.read_done(2);
  EXPECT_EQ(rig.fault(1, false), "go resume:1") << "both are here";
}

TEST(EngineWaiting, NothingIsPrefetchedBetweenRawAccesses) {
  for (const bool raw : {false, true}) {
    EngineRig rig(350, "lookahead");
    for (ExtentId id = 1; id <= 5; ++id) rig.spilled(id, 100);
    Nanos now = 0;
    std::string planned;
    for (int step = 0; step < 6; ++step) {
      for (ExtentId id = 1; id <= 4; ++id) {
        if (rig.op(0, {{id}, {}}, id).find("fetch") != std::string::npos) rig.read_done(id);
        rig.end(0);
      }
      rig.give(Input::Kind::kStep, 0);
    }
    if (raw) rig.fault(5, false), rig.read_done(5);
    for (int i = 0; i < 5; ++i) planned += rig.plan(now += 1000);
    EXPECT_EQ(planned.find("fetch") == std::string::npos, raw) << planned;
  }
}

}  // namespace
}  // namespace outsize
