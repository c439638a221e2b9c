// A good schedule, worked out by hand, and what the judge says of every way to spoil it.
#include "planners/weights/replay.h"

#include <gtest/gtest.h>

#include "planners/weights/weights_test_rig.h"

namespace outsize::weights {
namespace {

// Three layers of 10, 4 and 6 bytes; F takes 2, B takes 3; a byte of activation each; a byte of
// weights takes a nanosecond either way. With 22 bytes weight 1 must leave: F3 and B3 need 3 of
// activations, and 23 in all.
//
//   op       F1   F2   wait   F3     B3     B2     wait   B1
//   from     0    2    4      10     12     15     18     25   until 28
//   down     weight 1, 0 to 10: it was changed by the step before. Then it is dropped.
//   up       weight 1, 15 to 25: at 15 the third activation has gone, 4 + 6 + 2 + 10 = 22.
constexpr Bytes kMemory = 22;

Chain three_layers() { return plain_chain({10, 4, 6}); }

Schedule good() {
  Schedule s;
  s.border = {Border::kDirty, Border::kDirty, Border::kDirty};
  s.op_start = {0, 2, 10, 12, 15, 25};
  s.transfers = {{Move::kDown, 0, 0}, {Move::kDrop, 0, 10}, {Move::kUp, 0, 15}};
  s.time = 28;
  s.peak = 22;
  return s;
}

std::string said(const Schedule& schedule, Bytes memory = kMemory) {
  auto judged = replay(three_layers(), memory, schedule);
  return judged ? "nothing" : judged.error().what;
}

TEST(WeightsReplay, WorksOutTimePeakStallAndBytes) {
  auto judged = replay(three_layers(), kMemory, good());
  ASSERT_TRUE(judged) << judged.error().message();
  EXPECT_EQ(judged->time, 28);
  // At rest before F3: 20 bytes of weights, 2 activations. Weight 1 comes while 4 + 6 and 2 are there.
  EXPECT_EQ(judged->peak, 22);
  EXPECT_EQ(judged->stall, 28 - (2 + 2 + 2 + 3 + 3 + 3));
  EXPECT_EQ(judged->up, 10);
  EXPECT_EQ(judged->down, 10);
}

TEST(WeightsReplay, EverythingAboveTakesTheOpsTimeAndAllBytes) {
  Schedule s;
  s.border.assign(3, Border::kDirty);
  s.op_start = {0, 2, 4, 6, 9, 12};
  auto judged = replay(three_layers(), 23, s);
  ASSERT_TRUE(judged) << judged.error().message();
  EXPECT_EQ(judged->time, 15);
  EXPECT_EQ(judged->peak, 10 + 4 + 6 + 3);
  EXPECT_EQ(replay(three_layers(), 22, s).error().code, ErrorCode::kOutOfBudget);
}

TEST(WeightsReplay, CountsScratchOnlyWhileTheOpRuns) {
  Chain chain = three_layers();
  chain.layers[2].backward_scratch = 5;
  chain.fixed = 2;
  Schedule s = good();
  auto judged = replay(chain, 100, s);
  ASSERT_TRUE(judged) << judged.error().message();
  // B3: fixed, 4 + 6 of weights, 3 activations, 5 of scratch is 20; at 15 the scratch has gone.
  EXPECT_EQ(judged->peak, 24);
  chain.layers[2].backward_scratch = 10;
  judged = replay(chain, 100, s);
  EXPECT_EQ(judged->peak, 25);
}

TEST(WeightsReplay, RefusesMoreThanTheMemory) {
  EXPECT_EQ(replay(three_layers(), 21, good()).error().code, ErrorCode::kOutOfBudget);
  EXPECT_EQ(said(good(), 21), "22 bytes are more than the memory of 21.");
  Schedule s = good();
  s.transfers[2].start = 12;  // beside the third activation
  EXPECT_EQ(said(s), "23 bytes are more than the memory of 22.");
}

TEST(WeightsReplay, RefusesAnOpWithoutItsWeight) {
  Schedule s = good();
  s.op_start[5] = 24;  // the fetch ends at 25
  EXPECT_EQ(said(s), "B1 starts without its weight.");
  s = good();
  s.transfers.pop_back();
  EXPECT_EQ(said(s), "B1 starts without its weight.");
}

TEST(WeightsReplay, RefusesOpsOutOfOrder) {
  Schedule s = good();
  s.op_start[1] = 1;
  EXPECT_EQ(said(s), "F2 starts before the op before it has ended.");
  s = good();
  s.op_start[0] = -1;
  EXPECT_EQ(said(s), "F1 starts before the op before it has ended.");
  s = good();
  s.op_start.pop_back();
  EXPECT_EQ(said(s), "The schedule is for another chain.");
}

TEST(WeightsReplay, RefusesTransfersThatOverlapInOneDirection) {
  Schedule s = good();
  s.transfers.push_back({Move::kDown, 1, 9});
  EXPECT_EQ(said(s), "Two transfers down overlap: weight 2.");
  s.transfers.back() = {Move::kDown, 1, 10};  // at once after it, and across the fetch: nothing wrong
  EXPECT_EQ(said(s), "nothing");
  s.border[1] = Border::kAbsent;
  s.transfers.back() = {Move::kUp, 1, 0};
  EXPECT_EQ(said(s), "F2 starts without its weight.");
  s = good();
  s.transfers.push_back({Move::kDown, 1, 10});
  s.transfers.push_back({Move::kDrop, 1, 14});
  s.transfers.push_back({Move::kUp, 1, 14});
  s.op_start[4] = 18;
  EXPECT_EQ(said(s), "Two transfers up overlap: weight 1.");
}

TEST(WeightsReplay, RefusesADropWithoutAValidCopyBelow) {
  Schedule s = good();
  s.transfers[1].start = 9;  // the send ends at 10
  EXPECT_EQ(said(s), "Dropped without a valid copy below: weight 1.");
  s = good();
  s.transfers.erase(s.transfers.begin());
  EXPECT_EQ(said(s), "Dropped without a valid copy below: weight 1.");
  s = good();
  s.transfers.push_back({Move::kDrop, 0, 28});  // valid once, but B1 has changed the weight since
  EXPECT_EQ(said(s), "Dropped without a valid copy below: weight 1.");
}

TEST(WeightsReplay, RefusesToTakeAWeightFromAnOp) {
  Schedule s = good();
  s.border[0] = Border::kClean;
  s.transfers = {{Move::kDrop, 0, 1}};
  EXPECT_EQ(said(s), "Dropped while an op uses it: weight 1.");
  s = good();
  s.transfers.push_back({Move::kDown, 0, 26});
  EXPECT_EQ(said(s), "Sent while it is changed: weight 1.");
  s = good();
  s.transfers.push_back({Move::kDown, 1, 14});  // until 18; B2 starts at 15
  EXPECT_EQ(said(s), "B2 changes its weight while it is sent.");
  s = good();
  s.transfers.push_back({Move::kUp, 1, 0});
  EXPECT_EQ(said(s), "It is there already: weight 2.");
  s = good();
  s.transfers.push_back({Move::kDown, 0, 12});
  EXPECT_EQ(said(s), "Sent while it is not there: weight 1.");
  s = good();
  s.transfers.push_back({Move::kDrop, 0, 12});
  EXPECT_EQ(said(s), "Dropped while it is not there: weight 1.");
}

TEST(WeightsReplay, RefusesAStepThatDoesNotEndAsItBegan) {
  Schedule s = good();
  s.border[0] = Border::kClean;
  s.transfers.erase(s.transfers.begin());
  EXPECT_EQ(said(s), "The step does not end as it began: weight 1.");
  s.transfers.push_back({Move::kDown, 0, 28});
  EXPECT_EQ(said(s), "nothing");
  EXPECT_EQ(replay(three_layers(), kMemory, s)->time, 38);  // the step lasts until the links are idle
  s.transfers.push_back({Move::kDrop, 0, 38});
  EXPECT_EQ(said(s), "The step does not end as it began: weight 1.");
  s.border[0] = Border::kAbsent;
  EXPECT_EQ(said(s), "F1 starts without its weight.");
}

TEST(WeightsReplay, RefusesWhatDoesNotExist) {
  Schedule s = good();
  s.transfers.push_back({Move::kUp, 3, 0});
  EXPECT_EQ(said(s), "No such layer.");
  s = good();
  s.transfers.push_back({Move::kDown, 1, -5});
  EXPECT_EQ(said(s), "A transfer starts before the step.");
  Chain chain = three_layers();
  chain.layers[1].weight = 0;
  s = good();
  s.transfers.push_back({Move::kDown, 1, 12});
  EXPECT_EQ(replay(chain, kMemory, s).error().what, "Layer 2 has no weight to move.");
  s = good();
  s.border[1] = Border::kAbsent;
  EXPECT_EQ(replay(chain, kMemory, s).error().what, "Layer 2 has no weight that could be absent.");
}

}  // namespace
}  // namespace outsize::weights
