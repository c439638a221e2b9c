#include "sim/belady.h"

#include <gtest/gtest.h>

#include "sim/program_rig.h"

namespace outsize::sim {
namespace {

class BeladyTest : public ProgramTest {
 protected:
  void birth(ObjectId object, Bytes bytes = 10) { add(Action::Kind::kBirth, object, bytes); }
  void begin(std::vector<ObjectRef> operands) { add(Action::Kind::kOpBegin).operands = std::move(operands); }
  void op(std::vector<ObjectRef> operands) {
    begin(std::move(operands));
    add(Action::Kind::kOpEnd);
  }
};

TEST_F(BeladyTest, WhatIsUsedFarthestAheadLeavesAndIsWrittenOnce) {
  for (ObjectId id : {0U, 1U, 2U}) birth(id);
  for (int round = 0; round < 3; ++round) {
    for (ObjectId id : {0U, 1U, 2U}) op({{id, Access::kRead}});
  }
  const BeladyResult all = belady(program, 30), two = belady(program, 20);
  EXPECT_EQ(all.read + all.written, 0);
  // Born 0 1 2: 1 leaves for 2 (0 comes next). Then 0, 1 (2 leaves, or 0), ... one of the two others each time.
  EXPECT_TRUE(two.fits);
  EXPECT_EQ(two.read, 40) << "of nine uses five find their object there";
  EXPECT_EQ(two.written, 30) << "each leaves changed once";
}

TEST_F(BeladyTest, AFileLiesBelowAndIsReadOnly) {
  add(Action::Kind::kAdopt, 0, 10).flag = true;
  add(Action::Kind::kAdopt, 1, 10).flag = true;
  for (int round = 0; round < 2; ++round) op({{0, Access::kRead}}), op({{1, Access::kRead}});
  EXPECT_EQ(belady(program, 10).read, 40);
  EXPECT_EQ(belady(program, 10).written, 0);
  EXPECT_EQ(belady(program, 20).read, 20);
}

TEST_F(BeladyTest, AnInnerOpMayTakeTheRoomOfItsCaller) {
  birth(0), birth(1), birth(2);
  begin({{0, Access::kRead}, {1, Access::kRead}});
  op({{2, Access::kRead}});
  add(Action::Kind::kOpEnd);
  op({{0, Access::kRead}});
  const BeladyResult two = belady(program, 20);
  EXPECT_TRUE(two.fits);
  EXPECT_EQ(belady(program, 10).fits, false) << "the caller's two operands";
}

TEST_F(BeladyTest, TheDeadCostNothing) {
  birth(0), birth(1);
  add(Action::Kind::kDeath, 0);
  birth(2);
  op({{1, Access::kRead}, {2, Access::kRead}});
  EXPECT_EQ(belady(program, 20).read + belady(program, 20).written, 0);
}

TEST_F(BeladyTest, RawAccessesAreUses) {
  birth(0), birth(1);
  add(Action::Kind::kRawAccess, 0);
  EXPECT_EQ(belady(program, 10).read, 10);
}

}  // namespace
}  // namespace outsize::sim
