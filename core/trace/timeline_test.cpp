#include "core/trace/timeline.h"

#include <gtest/gtest.h>

namespace outsize {
namespace {

using Cause = Timeline::Cause;
using End = Timeline::End;
using trace::WaitCause;

const ExtentId kTwo[] = {1, 2};

TEST(Timeline, AWaitIsToldInPiecesByWhatEndedThem) {
  Timeline line;
  line.asked(1, false, Urgency::kPrefetch, 100, 5);
  line.asked(7, true, Urgency::kPressedWrite, 300, 10);
  line.waits(0, WaitCause::kOperands, kTwo, 250, 42, 10);
  line.ended(7, true, End::kDone, 10, 15);  // not what it waits for: a read of its own is under way
  line.ended(1, false, End::kDone, 8, 20);
  line.asked(8, true, Urgency::kPressedWrite, 60, 20);
  line.ended(9, false, End::kDone, 0, 25);  // nobody has asked for it
  line.ended(8, true, End::kDone, 21, 30);  // after which there is room for the other
  line.asked(2, false, Urgency::kDemand, 150, 30);
  line.ended(2, false, End::kDone, 31, 44);
  line.resident(250, 45);  // its pages had to move
  line.goes_on(0, 47);
  line.goes_on(0, 60);
  ASSERT_EQ(line.stalls().size(), 4U);
  const auto& stalls = line.stalls();
  const Cause causes[] = {Cause::kRead, Cause::kWrite, Cause::kRead, Cause::kRoom};
  const Nanos ends[] = {10, 20, 30, 45, 47};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(stalls[i].cause, causes[i]) << i;
    EXPECT_EQ(stalls[i].begin, ends[i]) << i;
    EXPECT_EQ(stalls[i].end, ends[i + 1]) << i;
    EXPECT_EQ(stalls[i].site, 42U);
    EXPECT_EQ(stalls[i].since, 10);
    EXPECT_EQ(stalls[i].needed, 250);
  }
  EXPECT_TRUE(stalls[0].by.ahead);
  EXPECT_EQ(stalls[0].by.asked, 5);
  EXPECT_EQ(stalls[1].by.extent, 8U);
  EXPECT_FALSE(stalls[2].by.ahead);
  EXPECT_EQ(line.totals().stall[0] + line.totals().stall[1] + line.totals().stall[2], 37);
  EXPECT_EQ(line.totals().read, 250);
  EXPECT_EQ(line.totals().written, 360);
}

TEST(Timeline, WhatFollowsFromATransferIsPartOfWaitingForIt) {
  Timeline line;
  line.asked(1, false, Urgency::kDemand, 100, 0);
  line.waits(0, WaitCause::kOperands, {kTwo, 1}, 100, 42, 0);
  line.ended(1, false, End::kDone, 0, 10);
  line.goes_on(0, 12);
  ASSERT_EQ(line.stalls().size(), 1U);
  EXPECT_EQ(line.stalls()[0].cause, Cause::kRead);
  EXPECT_EQ(line.stalls()[0].end, 12);
}

TEST(Timeline, WhatFailedOrDiedHasMovedNothing) {
  Timeline line;
  line.asked(1, false, Urgency::kDemand, 100, 0);
  line.asked(2, true, Urgency::kWriteAhead, 100, 0);
  line.ended(1, false, End::kFailed, 0, 5);
  line.ended(2, true, End::kDied, 0, 6);
  EXPECT_EQ(line.totals().read + line.totals().written, 0);
  ASSERT_EQ(line.moves().size(), 2U);
  EXPECT_EQ(line.moves()[0].outcome, End::kFailed);
  EXPECT_EQ(line.moves()[1].outcome, End::kDied);
}

// A step of ten: an op, bytes that come and go.
void step(Timeline& line, Nanos at) {
  line.work({0, at, at + 10, 1});
  line.resident(100, at);
  line.resident(300, at + 5);
  line.resident(200, at + 5);
  line.resident(250, at + 5);
  line.resident(50, at + 8);
  line.step(at + 10);
}

TEST(Timeline, DetailsAreOfTheLastStepsAndTotalsOfAll) {
  Timeline line({.steps = 2});
  for (Nanos at = 0; at < 50; at += 10) step(line, at);
  EXPECT_EQ(line.totals().work, 50);
  EXPECT_EQ(line.begin(), 30);
  EXPECT_EQ(line.end(), 50);
  ASSERT_EQ(line.works().size(), 2U);
  EXPECT_EQ(line.works()[0].begin, 30);
  ASSERT_EQ(line.levels().size(), 8U);
  EXPECT_EQ(line.levels()[0].time, 30);
  EXPECT_EQ(line.levels()[1].resident, 300) << "the most of a moment";
  EXPECT_EQ(line.levels()[2].resident, 250) << "and its end";
}

TEST(Timeline, StepsInTheMiddleCanBeAskedFor) {
  Timeline line({.steps = 1, .last_step = 2});
  for (Nanos at = 0; at < 50; at += 10) step(line, at);
  EXPECT_EQ(line.begin(), 10);
  EXPECT_EQ(line.end(), 20);
  ASSERT_EQ(line.works().size(), 1U);
  EXPECT_EQ(line.works()[0].begin, 10);
  EXPECT_EQ(line.totals().work, 50);
}

TEST(Timeline, OfTooManyEventsTheLastAreKeptAndItIsTold) {
  Timeline line({.steps = 1, .events = 3});
  for (Nanos at = 0; at < 50; at += 10) line.work({0, at, at + 10, 1});
  EXPECT_EQ(line.works().size(), 3U);
  EXPECT_EQ(line.begin(), 20);
  EXPECT_NE(line.json().find("\"cut\":1"), std::string::npos);
  line.step(50);
  EXPECT_NE(line.json().find("\"cut\":1"), std::string::npos);
  step(line, 50);
  EXPECT_EQ(line.begin(), 50);
  EXPECT_NE(line.json().find("\"cut\":0"), std::string::npos) << "of the last step nothing is missing";
}

TEST(Timeline, JsonHasItsRows) {
  Timeline line;
  line.work({3, 0, 10, 7});
  line.asked(1, false, Urgency::kDemand, 100, 10);
  line.waits(3, WaitCause::kRawAccess, {kTwo, 1}, 100, 7, 10);
  line.ended(1, false, End::kDone, 12, 30);
  line.goes_on(3, 30);
  line.resident(100, 12);
  line.step(31);
  EXPECT_EQ(line.json(),
            "{\"begin\":0,\"end\":31,\"last_step\":1,\"steps\":1,\"cut\":0,\"step_ends\":[31],\"work\":[3,0,10,1],"
            "\"moves\":[0,1,100,10,12,30,0,0],\"stalls\":[3,2,0,1,100,10,10,30,1,100,10,12,0,0],"
            "\"resident\":[12,100],\"sites\":[0,7],\"stall_by_cause\":[20,0,0],\"stalls_by_cause\":[1,0,0],"
            "\"read_bytes\":100,\"write_bytes\":0,\"work_ns\":10}");
}

}  // namespace
}  // namespace outsize
