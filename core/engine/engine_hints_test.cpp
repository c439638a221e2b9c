// What the program says of its next uses moves bytes early and changes who leaves first.
#include "core/engine/engine_test_rig.h"

namespace outsize {
namespace {

constexpr Nanos kNow = 1'000'000'000;

class EngineHints : public testing::TestWithParam<const char*> {
 protected:
  EngineRig rig{100, GetParam()};
  // Resident, clean, used in this order.
  void bring(std::initializer_list<ExtentId> ids, Bytes bytes) {
    for (ExtentId id : ids) {
      rig.spilled(id, bytes);
      rig.op(0, {{id}, {}}), rig.read_done(id), rig.end(0);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(EveryPolicy, EngineHints, testing::Values("ondemand", "lookahead", "deepum", "weights"));

TEST_P(EngineHints, WhatIsUsedSoonIsFetchedBeforeItIsUsed) {
  rig.spilled(1, 60);
  EXPECT_EQ(rig.plan(kNow), "go") << "nothing foreseen, nothing said";
  EXPECT_EQ(rig.hint(1, true), "go");
  EXPECT_EQ(rig.plan(2 * kNow), "go fetch:1");
  rig.read_done(1);
  EXPECT_EQ(rig.op(0, {{1}, {}}), "go") << "no wait";
  EXPECT_EQ(rig.engine().stats().prefetch_hit, 60);
}

TEST_P(EngineHints, InTheOrderInWhichItWasSaid) {
  for (ExtentId id : {1U, 2U, 3U}) rig.spilled(id, 20);
  for (ExtentId id : {3U, 1U, 2U, 3U}) rig.hint(id, true);
  EXPECT_EQ(rig.plan(kNow), "go fetch:3 fetch:1 fetch:2");
}

TEST_P(EngineHints, RoomComesFromWhatNobodyForetold) {
  bring({1, 2}, 40);
  rig.spilled(3, 60);
  rig.hint(1, true);
  rig.hint(3, true);
  EXPECT_EQ(rig.plan(kNow), "go evict:2 fetch:3") << "not 1, which was used earlier";
}

TEST_P(EngineHints, WhatWasForetoldDoesNotLeaveForIt) {
  bring({1, 2}, 40);
  rig.spilled(3, 80);
  for (ExtentId id : {1U, 2U, 3U}) rig.hint(id, true);
  EXPECT_EQ(rig.plan(kNow), "go");
}

TEST_P(EngineHints, ChangedBytesAreWrittenToMakeRoomForIt) {
  rig.alloc(0, 1, 60);
  rig.spilled(2, 60);
  rig.hint(2, true);
  EXPECT_EQ(rig.plan(kNow), "go write:1");
  rig.write_done(1);
  EXPECT_EQ(rig.plan(2 * kNow), "go evict:1 fetch:2");
}

TEST_P(EngineHints, WhatIsUsedLaterLeavesFirst) {
  bring({1, 2, 3}, 30);
  EXPECT_EQ(rig.hint(3, false), "go");
  EXPECT_EQ(rig.alloc(0, 4, 30), "wait evict:3 grant:t0") << "though it was used last";
}

TEST_P(EngineHints, WhatIsUsedSoonLeavesLast) {
  bring({1, 2, 3}, 30);
  EXPECT_EQ(rig.hint(1, true), "go");
  EXPECT_EQ(rig.alloc(0, 4, 60), "wait evict:2 evict:3 grant:t0") << "though it was used first";
}

TEST_P(EngineHints, WhatIsUsedSoonStaysThoughOthersHaveToBeWritten) {
  rig.alloc(0, 1, 40);
  for (int i = 0; i < 20; ++i) rig.op(0, {{}, {1}}), rig.end(0);
  bring({2}, 50);
  rig.hint(2, true);
  EXPECT_EQ(rig.alloc(0, 3, 30), "wait write:1");
  EXPECT_EQ(rig.write_done(1), "go evict:1 grant:t0");
}

TEST_P(EngineHints, AHintEndsWithTheUse) {
  bring({1, 2, 3}, 30);
  rig.hint(1, false);
  rig.op(0, {{1}, {}}), rig.end(0);
  EXPECT_EQ(rig.engine().table()[1].hint, Hint::kNone);
  rig.hint(2, true);
  rig.op(0, {{2}, {}}), rig.end(0);
  EXPECT_EQ(rig.engine().table()[2].hint, Hint::kNone);
}

TEST_P(EngineHints, AWrongHintIsForgottenAfterTwoSteps) {
  bring({1, 2, 3}, 30);
  rig.hint(1, true);
  rig.give(Input::Kind::kStep, kNoExtent);
  EXPECT_EQ(rig.engine().table()[1].hint, Hint::kSoon);
  rig.give(Input::Kind::kStep, kNoExtent);
  EXPECT_EQ(rig.engine().table()[1].hint, Hint::kNone);
}

TEST_P(EngineHints, TheDeadAreNotFetched) {
  rig.spilled(1, 60);
  rig.hint(1, true);
  rig.death(1);
  EXPECT_EQ(rig.plan(kNow), "go");
  rig.spilled(1, 60);  // another of that id, of which nothing was said
  EXPECT_EQ(rig.plan(2 * kNow), "go");
}

TEST_P(EngineHints, NothingComesWhileSomebodyWaits) {
  rig.alloc(0, 1, 60);
  rig.spilled(2, 30);
  rig.spilled(3, 60);
  EXPECT_EQ(rig.op(0, {{3}, {}}), "wait write:1");
  rig.hint(2, true);
  EXPECT_EQ(rig.plan(kNow), "go");
}

}  // namespace
}  // namespace outsize
