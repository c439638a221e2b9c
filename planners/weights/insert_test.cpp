// Insertion by hand, with selections that no solver would make: more is away than has to be.
#include "planners/weights/insert.h"

#include <gtest/gtest.h>

#include "planners/weights/weights_test_rig.h"

namespace outsize::weights {
namespace {

// A selection from one letter a layer, as in select_test.cpp.
std::vector<Away> away_of(const std::string& letters) {
  std::vector<Away> away;
  for (const char c : letters) away.push_back({{c == 'f' || c == '2', c == 'b' || c == '2'}});
  return away;
}

Schedule inserted(const Chain& chain, Bytes memory, const std::string& letters) {
  auto schedule = insert_transfers(chain, memory, away_of(letters));
  EXPECT_TRUE(schedule) << schedule.error().message();
  auto judged = replay(chain, memory, *schedule);
  EXPECT_TRUE(judged) << judged.error().message();
  EXPECT_EQ(judged->time, schedule->time);
  return *schedule;
}

// The send of weight 1 takes 13 of the 15 ns of the ops; B1 could start at 12, and waits for its end.
TEST(WeightsInsert, BackwardWaitsForTheSendOfItsWeight) {
  Chain chain = plain_chain({10, 4, 6});
  chain.down.bytes_per_us = 770;
  const Schedule schedule = inserted(chain, 23, "f--");
  EXPECT_EQ(schedule.op_start.back(), 13);
  EXPECT_EQ(schedule.time, 16);
}

// Weight 2 was produced before weight 1, but its send would outlast the step and no op waits for it.
// At 9 B2 changes it, so that its send is off; then weight 1 is sent.
TEST(WeightsInsert, AChangedWeightLeavesTheQueueOfSends) {
  const Schedule schedule = inserted(plain_chain({3, 40, 6}), 100, "ff-");
  ASSERT_EQ(schedule.transfers.size(), 1U);
  EXPECT_EQ(schedule.transfers[0].move, Move::kDown);
  EXPECT_EQ(schedule.transfers[0].layer, 0U);
  EXPECT_EQ(schedule.transfers[0].start, 9);
  EXPECT_EQ(schedule.time, 15);
}

// Only B2 does not fit with all three. Weight 3 comes 0-6, F3 6-8, B3 8-11, weight 3 goes 11-17, B2
// 17-20, B1 20-23. At 20 it could come back, but not by 23, and the next step has time for it.
TEST(WeightsInsert, NothingBeginsThatOutlastsTheStep) {
  Chain chain = plain_chain({1, 1, 6});
  chain.layers[1].backward_scratch = 2;
  const Schedule schedule = inserted(chain, 11, "--b");
  EXPECT_EQ(schedule.op_start, (std::vector<Nanos>{0, 2, 6, 8, 17, 20}));
  EXPECT_EQ(schedule.time, 23);
}

// Everything fits, so weight 3 stays though the selection lets it go. The first step begins without
// it, and takes 17; the second begins as the first has ended, and has it from the start.
TEST(WeightsInsert, TheBorderIsFoundByPlayingOn) {
  const Schedule schedule = inserted(plain_chain({10, 4, 6}), 23, "--b");
  EXPECT_EQ(schedule.border[2], Border::kClean);
  EXPECT_EQ(schedule.time, 15);
}

}  // namespace
}  // namespace outsize::weights
