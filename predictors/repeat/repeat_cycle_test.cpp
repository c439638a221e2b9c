// A training step of two layers, written down event by event, and what it is as a cycle.
#include <gtest/gtest.h>

#include "predictors/repeat/repeat.h"

namespace outsize::repeat {
namespace {

// Weights 0 and 1 of 100 bytes, a table 2 of 10 bytes that nothing changes. A step:
//   op 0  begin          bears the input, 8 bytes; where gradients die late they die after it
//   op 1  F1 w0, table   bears an activation of 20 bytes
//   op 2  F2 w1, a1      bears an activation of 30 bytes
//   op 3  B2 w1, a2, a1  bears a gradient of 100 bytes; a2 dies
//   op 4  B1 w0, a1, in  bears a gradient of 100 bytes; a1 and the input die
//   op 5  U1 w0, g1      changes w0
//   op 6  U2 w1, g2      changes w1
class Steps {
 public:
  explicit Steps(bool grads_die_late = false) : late_(grads_die_late) {
    table_.ensure(16);
    for (const ExtentId id : {0U, 1U}) table_[id].bytes = 100;
    table_[2].bytes = 10;
  }
  struct Otherwise {
    SiteId path = 0;
    Bytes activation = 20;
    bool swaps = false;    // F2 has its operands in another order
    bool changes = false;  // B2 changes w1
  };
  void step(SiteId path = 0) { step(Otherwise{path}); }
  void step(const Otherwise& is) {
    if (!late_) drop_grads();
    op(10, {}, {});
    const ExtentId input = birth(8);
    if (late_) drop_grads();
    op(11 + is.path, {0, 2}, {});
    const ExtentId a1 = birth(is.activation);
    op(12 + is.path, is.swaps ? std::vector<ExtentId>{a1, 1} : std::vector<ExtentId>{1, a1}, {});
    const ExtentId a2 = birth(30);
    op(13 + is.path, {1, a2, a1}, {is.changes ? Access::kWrite : Access::kRead, Access::kRead, Access::kRead});
    const ExtentId g2 = birth(100);
    death(a2, 30);
    op(14 + is.path, {0, a1, input}, {});
    const ExtentId g1 = birth(100);
    death(a1, is.activation);
    death(input, 8);
    op(15, {0, g1}, {Access::kWrite, Access::kRead});
    op(16, {1, g2}, {Access::kWrite, Access::kRead});
    grads_ = {g1, g2};
    predictor.on_step(now_ += 1000);
  }
  void op(SiteId site, std::vector<ExtentId> extents, std::vector<Access> accesses) {
    if (accesses.empty()) accesses.assign(extents.size(), Access::kRead);
    predictor.on_op({site, extents, false, now_ += 1000, accesses});
  }
  ExtentId birth(Bytes bytes) {
    ExtentId id = 3;
    while (table_[id].bytes > 0) ++id;
    table_[id].bytes = bytes;
    predictor.on_birth(id, bytes);
    return id;
  }
  void death(ExtentId id, Bytes bytes) {
    table_[id].bytes = 0;
    predictor.on_death(id, bytes);
  }
  bool read() { return predictor.read_cycle(table_, cycle); }
  const Cycle::Gap& gap(ExtentId id) const { return cycle.gaps[predictor.gap_of(id)]; }
  const std::vector<ExtentId>& grads() const { return grads_; }

  RepeatPredictor predictor;
  Cycle cycle;

 private:
  void drop_grads() {
    for (const ExtentId id : grads_) death(id, 100);
    grads_.clear();
  }
  bool late_;
  ExtentTable table_;
  std::vector<ExtentId> grads_;
  Nanos now_ = 0;
};

std::string to_text(const Cycle::Gap& gap) {
  return std::to_string(gap.bytes) + " bytes from " + std::to_string(gap.first) + " for " + std::to_string(gap.count) +
         (gap.returns ? "" : ", dies") + (gap.changed ? ", changed" : "") + (gap.lasts ? ", lasts" : "");
}

TEST(RepeatCycle, IsThereOnceAStepCameAgain) {
  Steps steps;
  EXPECT_FALSE(steps.read());
  steps.step();
  EXPECT_FALSE(steps.read()) << "it left two gradients and found none";
  steps.step();
  EXPECT_TRUE(steps.read());
  steps.step(100);  // other sites in the middle
  EXPECT_FALSE(steps.read());
  steps.step(100);
  EXPECT_TRUE(steps.read());
}

TEST(RepeatCycle, RepeatsOnlyWhereNothingIsOtherwise) {
  Steps steps;
  for (int i = 0; i < 4; ++i) steps.step();
  ASSERT_TRUE(steps.read());
  const Cycle before = steps.cycle;
  steps.step();
  EXPECT_TRUE(steps.predictor.cycle_repeats());
  ASSERT_TRUE(steps.read());
  EXPECT_EQ(steps.cycle, before);
  steps.step(100);
  EXPECT_FALSE(steps.predictor.cycle_repeats()) << "other ops";
  for (int i = 0; i < 3; ++i) steps.step(100);
  EXPECT_TRUE(steps.predictor.cycle_repeats());
  for (const Steps::Otherwise& is : {Steps::Otherwise{.path = 100, .activation = 21}, Steps::Otherwise{.path = 100, .swaps = true},
                                     Steps::Otherwise{.path = 100, .changes = true}}) {
    steps.step(is);
    EXPECT_FALSE(steps.predictor.cycle_repeats()) << "the same ops, but not with the same";
    for (int i = 0; i < 3; ++i) steps.step(100);
    EXPECT_TRUE(steps.predictor.cycle_repeats());
  }
  steps.predictor.on_step(1'000'000);
  EXPECT_FALSE(steps.predictor.cycle_repeats()) << "a step without ops";
}

TEST(RepeatCycle, SaysWhatIsAlive) {
  for (const bool late : {false, true}) {
    Steps steps(late);
    for (int i = 0; i < 3; ++i) steps.step();
    ASSERT_TRUE(steps.read());
    std::vector<Bytes> expected{-192, -172, -142, -42, 28, 0, 0};
    if (late) expected[0] = 8;  // the old gradients are still there
    EXPECT_EQ(steps.cycle.more, expected);
  }
}

TEST(RepeatCycle, TheGapsOfAWeight) {
  Steps steps;
  for (int i = 0; i < 3; ++i) steps.step();
  ASSERT_TRUE(steps.read());
  // Between U1 and F1 of the next step: op 6 and op 0, under both numbers.
  const std::uint32_t head = steps.predictor.gap_of(0);
  EXPECT_EQ(steps.cycle.gaps[head].bytes, 0);
  const std::uint32_t tail = head + 3;
  EXPECT_EQ(to_text(steps.cycle.gaps[tail]), "100 bytes from 6 for 2, changed, lasts");
  EXPECT_EQ(steps.cycle.gaps[tail].twin, head);
  EXPECT_EQ(to_text(steps.cycle.gaps[head + 1]), "100 bytes from 2 for 2, lasts");
  EXPECT_EQ(steps.cycle.gaps[head + 2].bytes, 0) << "U1 follows B1 at once";
  // Only U1 changes it: one write serves F1 to B1 and U1 to F1.
  EXPECT_EQ(steps.cycle.gaps[tail].version, steps.cycle.gaps[head + 1].version);
  EXPECT_NE(steps.cycle.gaps[tail].version, 0U);
  const std::uint32_t other = steps.predictor.gap_of(1);
  EXPECT_NE(steps.cycle.gaps[other + 3].version, steps.cycle.gaps[tail].version);
  EXPECT_EQ(steps.cycle.gaps[steps.predictor.gap_of(2) + 1].version, 0U) << "nothing ever changes the table";
}

TEST(RepeatCycle, TheGapsOfWhatIsBornInTheStep) {
  Steps steps;
  for (int i = 0; i < 3; ++i) steps.step();
  ASSERT_TRUE(steps.read());
  for (const ExtentId id : std::vector<ExtentId>(steps.grads())) {
    EXPECT_EQ(steps.gap(id).returns, false) << "it waits for its death";
  }
  const Cycle cycle = steps.cycle;
  // The next step, as far as F1: the activation is in the gap until F2, the input until B1.
  for (const ExtentId id : std::vector<ExtentId>(steps.grads())) steps.death(id, 100);
  steps.op(10, {}, {});
  const ExtentId input = steps.birth(8);
  steps.op(11, {0, 2}, {});
  const ExtentId a1 = steps.birth(20);
  EXPECT_EQ(steps.predictor.cycle_place(), 2U);
  EXPECT_EQ(to_text(steps.gap(input)), "8 bytes from 1 for 3, changed");
  EXPECT_EQ(steps.gap(a1).bytes, 0) << "F2 comes next";
  EXPECT_EQ(to_text(steps.gap(0)), "100 bytes from 2 for 2, lasts");
  steps.op(12, {1, a1}, {});
  const ExtentId a2 = steps.birth(30);
  steps.op(13, {1, a2, a1}, {});
  const ExtentId g2 = steps.birth(100);
  EXPECT_EQ(to_text(steps.gap(g2)), "100 bytes from 4 for 2, changed");
  EXPECT_EQ(steps.cycle.gaps[steps.predictor.gap_of(g2) + 1].bytes, 0) << "U2 is the last op, and it dies before the next";
  EXPECT_EQ(cycle, steps.cycle);
}

// What one step leaves dies in the next one: one gap, from the last use to the death.
TEST(RepeatCycle, WhatIsLeftHasAnHeir) {
  Steps steps(true);
  for (int i = 0; i < 4; ++i) steps.step();
  ASSERT_TRUE(steps.read());
  const ExtentId g1 = steps.grads()[0];
  const std::uint32_t as_heir = steps.predictor.gap_of(g1);
  std::uint32_t tails = 0;
  for (const Cycle::Gap& gap : steps.cycle.gaps) {
    if (gap.twin != as_heir) continue;
    ++tails;
    EXPECT_EQ(to_text(gap), "100 bytes from 6 for 2, dies");
  }
  EXPECT_EQ(tails, 1U);
}

// Once the path is another, nothing has a place in the cycle.
TEST(RepeatCycle, IsLeftWhereTheStepGoesOtherwise) {
  Steps steps;
  for (int i = 0; i < 3; ++i) steps.step();
  EXPECT_EQ(steps.predictor.cycle_place(), 0U);
  EXPECT_NE(steps.predictor.gap_of(0), kNoGap);
  for (SiteId site = 900; site < 906; ++site) steps.op(site, {0}, {});
  EXPECT_EQ(steps.predictor.cycle_place(), kNoPlace);
  EXPECT_EQ(steps.predictor.gap_of(0), kNoGap);
}

}  // namespace
}  // namespace outsize::repeat
