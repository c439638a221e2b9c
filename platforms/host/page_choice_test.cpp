// Which pages are chosen for programs of which it is known.
#include "platforms/host/page_choice.h"

#include <gtest/gtest.h>

#include "platforms/host/page_choice_rig.h"

namespace outsize::host {
namespace {

class PageChoiceTest : public testing::Test {
 protected:
  PageChoice choice_{true, TestClock::now, TestClock::busy};
  TestProgram program_{choice_};
};
constexpr Nanos kSecond = 1000 * kMilli;
constexpr Nanos kTrial = 65 * kSecond;  // what leads to it, eight turns, and what five of them wait

TEST_F(PageChoiceTest, SmallOnesWhereOpsAreFasterWithThem) {
  program_.small = 9 * kMilli;
  program_.run(kTrial);
  EXPECT_TRUE(choice_.small());
  EXPECT_EQ(program_.switches, 5) << "a b b a a b b a, and a was not where it began";
}

TEST_F(PageChoiceTest, HugeOnesWhereOpsAreFasterWithThoseThoughMakingThemTakesLong) {
  program_.small = 11 * kMilli;
  program_.remakes = 5 * kMilli;
  program_.run(kTrial + 5 * kSecond);
  EXPECT_FALSE(choice_.small());
  EXPECT_EQ(program_.switches, 6);
}

TEST_F(PageChoiceTest, FourTurnsAreEnoughWhereTheyAreClear) {
  program_.small = 10 * kMilli * 88 / 100;  // and an eighth is 9.9
  program_.run(kTrial);
  EXPECT_TRUE(choice_.small());
  EXPECT_EQ(program_.switches, 3) << "a b b a";

  choice_.forget();
  program_.switches = 0;
  program_.small = 10 * kMilli * 113 / 100;
  program_.run(kTrial);
  EXPECT_FALSE(choice_.small());
  EXPECT_EQ(program_.switches, 4);

  choice_.forget();
  program_.switches = 0;
  program_.small = 10 * kMilli * 89 / 100;  // and an eighth is 10.01
  program_.run(kTrial);
  EXPECT_TRUE(choice_.small());
  EXPECT_EQ(program_.switches, 5);
}

TEST_F(PageChoiceTest, EightTurnsAreTakenWhereOneOfFourIsNotClear) {
  program_.small = 9 * kMilli;
  Nanos changed = 0;  // when the first turn of huge pages began
  for (const Nanos end = TestClock::time + kTrial + 10 * kSecond; TestClock::time < end;) {
    const bool first = program_.switches == 2 && TestClock::time - changed < 8 * kSecond;
    program_.huge = first ? 20 * kMilli : 10 * kMilli;
    program_.op();
    if (program_.switches < 2) changed = TestClock::time;
  }
  EXPECT_TRUE(choice_.small());
  EXPECT_EQ(program_.switches, 5);
}

// What the last four turns of an earlier trial found is of another program: ops that are ten times shorter or longer now.
TEST_F(PageChoiceTest, FourTurnsDecideByThemselves) {
  for (const Nanos unit : {kMilli, 100 * kMilli}) {
    choice_.forget();
    program_.huge = 10 * kMilli;
    program_.small = 9 * kMilli;
    program_.run(kTrial);
    ASSERT_TRUE(choice_.small());
    program_.huge = unit;
    program_.small = unit * 13 / 10;
    program_.run(180 * kSecond);
    EXPECT_FALSE(choice_.small()) << unit;
  }
}

TEST_F(PageChoiceTest, HugeOnesWhereThereIsNoDifference) {
  program_.run(kTrial);
  EXPECT_FALSE(choice_.small());
  EXPECT_EQ(program_.switches, 6);
}

TEST_F(PageChoiceTest, SmallOnesComeFirstAndAtOnce) {
  program_.run(kSecond / 2);
  EXPECT_FALSE(choice_.small()) << "making them took 50 ms";
  program_.run(kSecond / 4);
  EXPECT_TRUE(choice_.small()) << "75 ms, more than a 96th of six seconds";
  program_.run(7 * kSecond);
  EXPECT_TRUE(choice_.small());
}

// One op takes longer than a window: of that it was little.
TEST_F(PageChoiceTest, WhatWasMadeIsAShareOfWhatRan) {
  program_.run(kSecond / 10);
  program_.huge = 12 * kSecond;
  program_.remakes = 100 * kMilli;
  program_.run(200 * kSecond);
  EXPECT_EQ(program_.switches, 0);
}

TEST_F(PageChoiceTest, NothingIsTriedWhereHugePagesLast) {
  program_.small = kMilli;
  program_.remakes = program_.huge / 100;
  program_.run(1000 * kSecond);
  EXPECT_EQ(program_.switches, 0);
}

TEST_F(PageChoiceTest, AProgramThatGetsFasterMeanwhileDoesNotMislead) {
  program_.remakes = 5 * kMilli;
  for (const int percent : {97, 103}) {
    choice_.forget();
    program_.huge = 100 * kMilli;
    program_.small = program_.huge * percent / 100;
    for (const Nanos end = TestClock::time + kTrial + 20 * kSecond; TestClock::time < end;) {
      program_.op();
      program_.huge -= kMilli / 50;  // by a sixth over the trial
      program_.small = program_.huge * percent / 100;
    }
    EXPECT_EQ(choice_.small(), percent < 100) << percent;
  }
}

// Half of a step's ops take a hundred times as long as the others: with turns that end anywhere luck would decide.
TEST_F(PageChoiceTest, TurnsAreWholeSteps) {
  for (const int percent : {98, 102}) {
    choice_.forget();
    program_.step = 100;
    program_.remakes = 2 * kMilli;
    for (int i = 0; i < 3000; ++i) {
      program_.huge = program_.ops % 100 < 50 ? kMilli : 100 * kMilli;
      program_.small = program_.huge * percent / 100;
      program_.op();
    }
    EXPECT_EQ(choice_.small(), percent < 100) << percent;
  }
}

TEST_F(PageChoiceTest, WhereNoStepIsToldATurnEndsAllTheSame) {
  program_.step = 0;
  program_.small = 9 * kMilli;
  program_.run(kTrial);
  EXPECT_TRUE(choice_.small());
  EXPECT_EQ(program_.switches, 5);
}

// What the other side left does its harm for two seconds.
TEST_F(PageChoiceTest, WhatFollowsAChangeOfSidesDoesNotCount) {
  program_.small = 10 * kMilli + kMilli / 2;
  Nanos changed = 0;
  for (const Nanos end = TestClock::time + kTrial + 10 * kSecond; TestClock::time < end;) {
    const int before = program_.switches;
    program_.huge = TestClock::time - changed < 2 * kSecond ? 20 * kMilli : 10 * kMilli;
    program_.op();
    if (program_.switches != before) changed = TestClock::time;
  }
  EXPECT_FALSE(choice_.small());
  EXPECT_EQ(program_.switches, 6);
}

TEST_F(PageChoiceTest, ItIsTriedAgainMoreAndMoreSeldom) {
  program_.small = 9 * kMilli;
  program_.run(kTrial);
  ASSERT_TRUE(choice_.small());
  program_.switches = 0;
  program_.run(110 * kSecond);
  EXPECT_EQ(program_.switches, 0) << "twice as long as the trial took";
  program_.small = 11 * kMilli;  // the program has changed
  program_.run(120 * kSecond);
  EXPECT_FALSE(choice_.small());
  program_.switches = 0;
  program_.run(2 * 3600 * kSecond);
  EXPECT_FALSE(choice_.small());
  EXPECT_LE(program_.switches, 4 * 9) << "later every quarter of an hour";
  EXPECT_GT(program_.switches, 4 * 5);
}

TEST_F(PageChoiceTest, WhatIsClearIsTriedAgainLater) {
  program_.small = 8 * kMilli;
  program_.run(35 * kSecond);
  ASSERT_TRUE(choice_.small());
  ASSERT_EQ(program_.switches, 3);
  program_.run(115 * kSecond);
  EXPECT_EQ(program_.switches, 3) << "two minutes";
  program_.run(40 * kSecond);
  EXPECT_EQ(program_.switches, 5);
  program_.run(470 * kSecond);
  EXPECT_EQ(program_.switches, 5) << "eight minutes";
  program_.run(60 * kSecond);
  EXPECT_EQ(program_.switches, 7);
  program_.run(930 * kSecond);
  EXPECT_EQ(program_.switches, 7);
  program_.run(70 * kSecond);
  EXPECT_EQ(program_.switches, 9) << "a quarter of an hour is the most";
}

// Two minutes later, or eight, it would still be on the side that was just found clearly slower.
TEST_F(PageChoiceTest, WhatIsClearAndNotDoneIsTriedAgainSoon) {
  program_.small = 5 * kMilli;
  program_.run(35 * kSecond);
  program_.huge = 8 * kMilli;
  program_.small = 10 * kMilli;
  program_.run(155 * kSecond);
  EXPECT_TRUE(choice_.small()) << "the first was clearer, and counts half";
  program_.run(290 * kSecond);
  EXPECT_FALSE(choice_.small());
}

// One that was disturbed: older ones count half.
TEST_F(PageChoiceTest, OneTrialDoesNotOverthrowAnotherThatWasClearer) {
  program_.small = 8 * kMilli;
  program_.run(kTrial);
  ASSERT_TRUE(choice_.small());
  program_.small = 10 * kMilli + kMilli / 2;
  program_.run(kTrial + 110 * kSecond);
  EXPECT_TRUE(choice_.small());
  program_.run(310 * kSecond);
  EXPECT_FALSE(choice_.small());
}

TEST_F(PageChoiceTest, StopsDoNotCountAndLongOpsDo) {
  program_.small = 9 * kMilli;
  for (const Nanos end = TestClock::used + kTrial; TestClock::used < end;) {
    program_.op();
    // Another program has the machine, but where pages are huge.
    if (choice_.small() && program_.ops % 500 == 0) TestClock::time += 60 * kSecond;
  }
  EXPECT_TRUE(choice_.small());

  choice_.forget();
  program_.huge = 1200 * kMilli;
  program_.small = 1100 * kMilli;
  program_.remakes = 100 * kMilli;
  program_.step = 4;
  program_.run(2 * kTrial);
  EXPECT_TRUE(choice_.small()) << "an op's time is more than the quarter of a second that a pause may be";
}

// Only the wait tells, for such an op uses no processor. It is told before or after a look.
TEST_F(PageChoiceTest, LongWaitsCount) {
  enum Told { kNever, kBefore, kAfter };
  for (const Told told : {kNever, kBefore, kAfter}) {
    choice_.forget();
    TestProgram program{choice_, 2000 * kMilli, 1850 * kMilli, 200 * kMilli, 2};
    program.idle = true;
    program.waits = told == kBefore;
    int left = 60;  // after the last turn has begun: until it is over
    for (int i = 0; i < 5000 && left > 0; ++i) {
      program.op();
      if (told == kBefore) choice_.look(program.ops, program.waited);  // another look, by whoever takes pages next
      if (told == kAfter) program.waited = TestClock::time;
      if (program.switches >= 5) --left;
    }
    EXPECT_EQ(left, 0);
    EXPECT_EQ(choice_.small(), told != kNever) << told;
  }
}

// A checkpoint or an evaluation: a minute without an op, within one turn.
TEST_F(PageChoiceTest, OneDisturbedTurnDoesNotDecide) {
  program_.small = 8 * kMilli;
  int turns = 0;
  for (const Nanos end = TestClock::time + kTrial + 70 * kSecond; TestClock::time < end;) {
    const bool before = choice_.small();
    program_.op();
    if (choice_.small() != before && ++turns == 3) {
      program_.run(3 * kSecond);
      for (int i = 0; i < 600; ++i) {
        TestClock::run(100 * kMilli);
        choice_.look(program_.ops, 0);
      }
      ASSERT_TRUE(choice_.small());
    }
  }
  EXPECT_TRUE(choice_.small());
}

// Steps of ten seconds, of which nine go into the last ten ops.
TEST_F(PageChoiceTest, LongStepsAreWholeToo) {
  for (const int percent : {98, 102}) {
    choice_.forget();
    program_.step = 100;
    for (int i = 0; i < 3000; ++i) {
      program_.huge = program_.ops % 100 < 90 ? 10 * kMilli : 910 * kMilli;
      program_.small = program_.huge * percent / 100;
      program_.remakes = program_.huge / 10;
      program_.op();
    }
    EXPECT_EQ(choice_.small(), percent < 100) << percent;
  }
}

TEST_F(PageChoiceTest, AnotherProgramIsAskedAnew) {
  program_.small = 8 * kMilli;
  program_.run(kTrial);
  ASSERT_TRUE(choice_.small());
  choice_.forget();
  EXPECT_FALSE(choice_.small());
  program_.small = 10 * kMilli + kMilli / 2;
  program_.run(kTrial + 5 * kSecond);
  EXPECT_FALSE(choice_.small()) << "what the last one found does not count";
}

TEST(PageChoice, HugeOnesWhereThereIsNoChoice) {
  PageChoice choice(false, TestClock::now, TestClock::busy);
  TestProgram program{choice};
  program.small = kMilli;
  program.run(kTrial);
  EXPECT_EQ(program.switches, 0);
}

}  // namespace
}  // namespace outsize::host
