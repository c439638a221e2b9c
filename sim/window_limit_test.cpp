#include "sim/window_limit.h"

#include <algorithm>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "sim/checked_run.h"
#include "sim/program_rig.h"
#include "sim/random.h"
#include "sim/random_program.h"

namespace outsize::sim {
namespace {

constexpr Nanos kMilli = 1'000'000;

LinkOptions disk() {
  LinkOptions link;
  link.read_rate = 1'000'000'000;
  link.write_rate = 500'000'000;
  link.mixed_read_rate = 500'000'000;
  link.mixed_write_rate = 250'000'000;
  return link;
}

TEST(LeastTransferTime, MixesWhereThatIsFaster) {
  EXPECT_EQ(least_transfer_time(0, 0, disk()), 0);
  EXPECT_EQ(least_transfer_time(1'000'000, 0, disk()), kMilli);
  EXPECT_EQ(least_transfer_time(0, 1'000'000, disk()), 2 * kMilli);
  EXPECT_EQ(least_transfer_time(1'000'000, 500'000, disk()), 2 * kMilli) << "one after the other, or together: the same";
  LinkOptions both = disk();  // that do not disturb one another
  both.mixed_read_rate = both.read_rate, both.mixed_write_rate = both.write_rate;
  EXPECT_EQ(least_transfer_time(1'000'000, 500'000, both), kMilli);
  EXPECT_NEAR(least_transfer_time(4'000'000, 500'000, both), 4 * kMilli, 2) << "rounded down";
  EXPECT_NEAR(least_transfer_time(1'000'000, 5'000'000, both), 10 * kMilli, 2);
  LinkOptions bad = disk();  // together they are slower than in turns
  bad.mixed_read_rate = 100'000'000, bad.mixed_write_rate = 50'000'000;
  EXPECT_EQ(least_transfer_time(1'000'000, 500'000, bad), 2 * kMilli);
  LinkOptions better = disk();  // a read is faster beside writes, by a measurement's chance
  better.mixed_read_rate = 2'000'000'000;
  EXPECT_EQ(least_transfer_time(1'000'000, 0, better), kMilli / 2);
  LinkOptions percent;
  percent.mixed_percent = 80;
  EXPECT_EQ(least_transfer_time(8'000'000, 8'000'000, percent), 10 * kMilli);
  EXPECT_NEAR(least_transfer_time(16'000'000, 8'000'000, percent), 18 * kMilli, 2) << "apart 24, always both 20";
}

class WindowLimitTest : public ProgramTest {
 protected:
  void op(std::vector<ObjectRef> operands, Nanos takes) {
    add(Action::Kind::kOpBegin).operands = std::move(operands);
    add(Action::Kind::kWork).duration = takes;
    add(Action::Kind::kOpEnd);
  }
  void step() { add(Action::Kind::kStep); }
  // `objects` of a million bytes each.
  void born(ObjectId objects) {
    for (ObjectId id = 0; id < objects; ++id) add(Action::Kind::kBirth, id, 1'000'000);
    step();
  }
  Nanos waits(Bytes millions) const {
    const WindowLimit limit = window_limit(program, millions * 1'000'000, disk());
    return limit.least - limit.compute;
  }
};

TEST_F(WindowLimitTest, WhatAMomentUsesCannotComeLongBefore) {
  born(10);
  for (int round = 0; round < 3; ++round) {
    op({}, 100 * kMilli);  // in which nothing is used
    for (ObjectId id = 0; id < 10; ++id) op({{id, Access::kRead}}, 0);
    step();
  }
  const WindowLimit half = window_limit(program, 5'000'000, disk());
  EXPECT_EQ(half.steps, 3U);
  EXPECT_EQ(half.compute, 300 * kMilli);
  EXPECT_EQ(half.least, 3 * 105 * kMilli) << "half of it may come in the pause, half must come after it";
  EXPECT_EQ(waits(10), 0);
  EXPECT_EQ(waits(9), 3 * kMilli);
  EXPECT_EQ(waits(0), 30 * kMilli);
}

TEST_F(WindowLimitTest, WhatAMomentMakesMustBeWrittenInIt) {
  step();
  for (ObjectId id = 0; id < 10; ++id) add(Action::Kind::kBirth, id, 1'000'000);
  op({}, 100 * kMilli);
  for (ObjectId id = 0; id < 10; ++id) op({{id, Access::kRead}}, 10 * kMilli);
  step();
  EXPECT_EQ(waits(10), 0);
  EXPECT_EQ(waits(4), 12 * kMilli) << "six are written at the births; the reading is hidden";
}

TEST_F(WindowLimitTest, WhatIsNotUsedAgainNeedNotBeWritten) {
  step();
  for (ObjectId id = 0; id < 10; ++id) {
    add(Action::Kind::kBirth, id, 1'000'000);
    op({{id, Access::kWrite}}, 0);
  }
  step();
  EXPECT_EQ(waits(1), 0);
  for (ObjectId id = 0; id < 10; ++id) op({{id, Access::kRead}}, 0);
  step();
  EXPECT_EQ(waits(1), 9 * 2 * kMilli + 9 * kMilli) << "now it is";
}

TEST_F(WindowLimitTest, WhatIsBornInAWindowIsNotReadInIt) {
  born(1);
  for (ObjectId id = 1; id < 6; ++id) {
    add(Action::Kind::kBirth, id, 1'000'000);
    op({{id, Access::kRead}, {id, Access::kRead}, {0, Access::kRead}}, 0);
    add(Action::Kind::kDeath, id);
  }
  step();
  EXPECT_EQ(waits(2), 0) << "two are there at a time, of six";
}

TEST_F(WindowLimitTest, ARawAccessIsAUse) {
  born(3);
  for (ObjectId id = 0; id < 3; ++id) add(Action::Kind::kRawAccess, id).flag = true;
  for (ObjectId id = 0; id < 3; ++id) add(Action::Kind::kRawAccess, id);
  step();
  EXPECT_EQ(waits(0), 3 * 3 * kMilli + 3 * kMilli) << "read and, as it changed and is used again, written; and read";
}

TEST_F(WindowLimitTest, SaysNothingOfOneStepOrWhenCancelled) {
  EXPECT_EQ(window_limit(program, 1, disk()).steps, 0U);
  born(2);
  EXPECT_EQ(window_limit(program, 1, disk()).steps, 0U);
  op({{0, Access::kRead}, {1, Access::kRead}}, 0);
  step();
  EXPECT_EQ(window_limit(program, 1, disk()).steps, 1U);
  EXPECT_EQ(window_limit(program, 1, disk(), 1, [] { return true; }).steps, 0U);
}

TEST_F(WindowLimitTest, LeavesTheFirstStepsOut) {
  born(4);
  for (int round = 1; round <= 3; ++round) {
    for (ObjectId id = 0; id < 4; ++id) op({{id, Access::kRead}}, round * kMilli);
    step();
  }
  const WindowLimit all = window_limit(program, 10'000'000, disk()), last = window_limit(program, 10'000'000, disk(), 3);
  EXPECT_EQ(all.least, (1 + 2 + 3) * 4 * kMilli);
  EXPECT_EQ(last.least, 3 * 4 * kMilli);
  EXPECT_EQ(last.steps, 1U);
  EXPECT_EQ(window_limit(program, 10'000'000, disk(), 4).steps, 0U);
}

TEST_F(WindowLimitTest, AWindowMayHaveTheEndOfAStepInIt) {
  born(10);
  for (int round = 0; round < 3; ++round) {
    for (ObjectId id = 0; id < 5; ++id) op({{id, Access::kRead}}, 0);
    op({}, 100 * kMilli);
    for (ObjectId id = 5; id < 10; ++id) op({{id, Access::kRead}}, 0);
    step();
  }
  EXPECT_EQ(waits(5), 10 * kMilli) << "all ten between two pauses, twice";
}

TEST_F(WindowLimitTest, WhatOpsWriteToMustBeWritten) {
  born(10);
  for (ObjectId id = 0; id < 10; ++id) op({{id, Access::kWrite}}, 0);
  step();
  for (ObjectId id = 0; id < 10; ++id) op({{id, Access::kRead}}, 0);
  step();
  EXPECT_NEAR(waits(5), 5 * kMilli + 5 * 2 * kMilli + 5 * kMilli, 10);
}

TEST_F(WindowLimitTest, AFileLiesBelowBeforeItIsRead) {
  step();
  for (ObjectId id = 0; id < 4; ++id) add(Action::Kind::kAdopt, id, 1'000'000).flag = true;
  step();
  for (ObjectId id = 0; id < 4; ++id) op({{id, Access::kRead}}, 0);
  step();
  EXPECT_EQ(waits(1), 3 * kMilli) << "and is never written";
}

LinkOptions random_disk(Random& random) {
  LinkOptions link;
  link.latency = 0;
  link.read_rate = random.between(2, 40) * 100'000'000;
  link.write_rate = random.between(2, 40) * 100'000'000;
  link.mixed_read_rate = link.read_rate * random.between(20, 110) / 100;
  link.mixed_write_rate = link.write_rate * random.between(20, 110) / 100;
  return link;
}

// Steps of a run without faults whose ops all ran within the budget, or -1.
Nanos simulated(const Program& program, Bytes budget, const LinkOptions& link, const char* policy) {
  SimOptions options = options_of(budget, policy);
  options.link = link;
  const SimResult result = SimDriver(program, options).run();
  const bool whole = result.problems.empty() && result.refused_budget + result.refused_io == 0 && result.peak <= budget;
  return whole ? result.time_at_step.back() - result.time_at_step.front() : -1;
}

constexpr Nanos kRounding = 100'000;  // a nanosecond for each of very many transfers

// The engine in the simulator, under whatever policy, is never faster.
TEST(WindowLimit, NoPlannerIsFaster) {
  constexpr std::uint64_t kSeed = 20261128;
  Random random(kSeed);
  int binding = 0;
  for (int round = 0; round < 16; ++round) {
    TrainingOptions options;
    options.layers = static_cast<int>(random.between(6, 20));
    options.steps = 5;
    options.states = static_cast<int>(random.between(0, 2));
    options.grads_stay = random.one_in(2);
    options.op_time = static_cast<Nanos>(random.between(200'000, 4'000'000));
    const Program program = training_program(options);
    const Bytes budget = std::max<Bytes>(peak_bytes(program) * static_cast<Bytes>(random.between(25, 90)) / 100, 40 * kMiB);
    const LinkOptions link = random_disk(random);
    const WindowLimit limit = window_limit(program, budget, link);
    ASSERT_EQ(limit.steps, 4U);
    EXPECT_GE(limit.least, limit.compute);
    if (limit.least > limit.compute * 101 / 100) ++binding;
    for (const char* policy : {"lookahead", "ondemand", "oracle", "weights"}) {
      EXPECT_GE(simulated(program, budget, link, policy) + kRounding, limit.least)
          << policy << ", " << budget << " bytes, seed " << kSeed << ", round " << round;
    }
  }
  EXPECT_GE(binding, 8) << "of 16";
}

TEST(WindowLimit, NoPlannerIsFasterOnWhateverPrograms) {
  int whole = 0, binding = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    RandomProgramOptions options;
    options.seed = seed;
    options.actions = 80;
    options.big_percent = 0;
    options.repeats = true;
    const Program program = random_program(options);
    Random random(seed);
    const LinkOptions link = random_disk(random);
    const Bytes budget = options.budget * random.between(70, 200) / 100;
    const WindowLimit limit = window_limit(program, budget, link);
    if (limit.steps == 0) continue;
    for (const char* policy : {"lookahead", "ondemand"}) {
      const Nanos took = simulated(program, budget, link, policy);
      if (took < 0) continue;
      ++whole;
      if (limit.least > limit.compute * 101 / 100) ++binding;
      EXPECT_GE(took + kRounding, limit.least) << policy << ", seed " << seed;
    }
  }
  EXPECT_GE(whole, 30) << "of 120";
  EXPECT_GE(binding, 10);
}

// What a recurring pause cannot hide is what is waited for: the engine comes near to it.
TEST(WindowLimit, LookaheadComesNearToIt) {
  TrainingOptions options;
  options.steps = 6;
  const Program program = training_program(options);
  const Bytes budget = peak_bytes(program) * 4 / 10;
  const WindowLimit limit = window_limit(program, budget, LinkOptions{});
  const SimResult result = run(program, budget, "lookahead");
  const Nanos took = result.time_at_step.back() - result.time_at_step.front();
  EXPECT_GT(limit.least, limit.compute * 102 / 100) << "the optimizer's state does not fit";
  EXPECT_LT(took, limit.least * 13 / 10);
}

}  // namespace
}  // namespace outsize::sim
