// The planner alone, with a predictor that says what the test wants it to say.
#include "planners/lookahead/lookahead.h"

#include <gtest/gtest.h>

#include "planners/planner_test_rig.h"

namespace outsize::lookahead {
namespace {

// An op takes a millisecond.
class Prophet final : public ProphetBase {
 public:
  Bytes demand_within(Nanos nanos) const override {
    return static_cast<Nanos>(birth_at - now) * 1'000'000 <= nanos ? birth_bytes : 0;
  }

  Position birth_at = 1'000'000;
  Bytes birth_bytes = 0;

 private:
  Nanos time_until(Position position) const override { return static_cast<Nanos>(position - now) * 1'000'000; }
  Bytes demand_before(Position position) const override { return position >= birth_at ? birth_bytes : 0; }
};

class Lookahead : public PlannerTest<LookaheadPlanner, Prophet> {
 protected:
  Lookahead() {
    table_.ensure(64);
    state_.budget = 1000 * kMiB;
    state_.reading_max = state_.writing_max = 64 * kMiB;
    state_.read_rate = state_.write_rate = 1'000'000'000;
  }
  // `use` in ops from now on.
  void add(ExtentId id, Where where, Below below, Position use, Bytes bytes = 10 * kMiB) {
    table_[id].bytes = bytes;
    table_[id].where = where;
    table_[id].below = below;
    prophet_.uses[id] = prophet_.now + use;
    if (where == Where::kResident) planner_.on_resident(id);
  }
  void clean_at(ExtentId id, Position use) { add(id, Where::kResident, Below::kValid, use); }
  void changed_at(ExtentId id, Position use) { add(id, Where::kResident, Below::kNone, use); }
  void absent_at(ExtentId id, Position use) { add(id, Where::kAbsent, Below::kValid, use); }
};

TEST_F(Lookahead, TheFarthestUseLeavesFirst) {
  clean_at(1, 5);
  clean_at(2, 50);
  changed_at(3, 20);
  EXPECT_EQ(victims(false), (std::vector<ExtentId>{2, 3, 1}));
  prophet_.uses[1] = prophet_.now + 90;
  planner_.on_resident(1);
  planner_.on_gone(2);
  EXPECT_EQ(victims(false), (std::vector<ExtentId>{1, 3}));
}

TEST_F(Lookahead, WhoIsHeldIsNoVictimAndWhoIsWantedALateOne) {
  for (ExtentId id = 1; id <= 5; ++id) clean_at(id, id);
  table_[1].pins = 1;
  table_[2].soft = 1;
  table_[3].hot = true;
  table_[4].wanted = true;
  EXPECT_EQ(victims(false), (std::vector<ExtentId>{5}));
  EXPECT_EQ(victims(true), (std::vector<ExtentId>{5, 4, 3, 2}));
}

TEST_F(Lookahead, FetchesSoonestFirstWhileThereIsRoom) {
  absent_at(1, 9);
  absent_at(2, 3);
  absent_at(3, 6);
  state_.free = 20 * kMiB;
  EXPECT_EQ(plan(), "fetch:2 fetch:3");
}

TEST_F(Lookahead, WhatIsUsedLaterMakesRoomForWhatIsUsedSooner) {
  absent_at(1, 20);
  clean_at(2, 10);
  EXPECT_EQ(plan(), "") << "the resident one is used sooner";
  clean_at(3, 200);
  EXPECT_EQ(plan(), "evict:3 fetch:1");
}

TEST_F(Lookahead, ComesInTimeNotAsEarlyAsPossible) {
  state_.free = 20 * kMiB;
  absent_at(1, 500);  // half a second ahead; its read takes 10 ms
  EXPECT_EQ(plan(), "");
  prophet_.now += 460;
  EXPECT_EQ(plan(), "fetch:1");
}

TEST_F(Lookahead, TransferSlotsAreBounded) {
  for (ExtentId id = 1; id <= 8; ++id) absent_at(id, id);
  state_.free = 500 * kMiB;
  state_.reading = 50 * kMiB;
  EXPECT_EQ(plan(), "fetch:1");
}

TEST_F(Lookahead, BirthsBeforeTheUseComeFirst) {
  absent_at(1, 30);
  state_.free = 15 * kMiB;
  prophet_.birth_at = prophet_.now + 20;
  prophet_.birth_bytes = 10 * kMiB;
  EXPECT_EQ(plan(), "") << "it could not stay until its use";
  prophet_.birth_at = prophet_.now + 40;
  EXPECT_EQ(plan(), "fetch:1") << "now the birth comes after it";
}

// The birth may not come, and clean bytes can leave as fast when it does.
TEST_F(Lookahead, NothingLeavesAheadOfABirth) {
  clean_at(1, 500);
  prophet_.birth_at = prophet_.now + 10;
  prophet_.birth_bytes = 10 * kMiB;
  EXPECT_EQ(plan(), "");
}

TEST_F(Lookahead, WhatComesLeavesRoomForBirthsShortlyAhead) {
  absent_at(1, 12);
  clean_at(2, 500);
  clean_at(3, 600);
  prophet_.birth_at = prophet_.now + 10;
  prophet_.birth_bytes = 5 * kMiB;
  EXPECT_EQ(plan(), "evict:3 evict:2 fetch:1");
}

TEST_F(Lookahead, AnExtentUsedBeforeTheBirthComesForAllThat) {
  prophet_.birth_at = prophet_.now + 25;
  prophet_.birth_bytes = 30 * kMiB;
  clean_at(1, 20);
  EXPECT_EQ(plan(), "");
  absent_at(2, 22);
  state_.free = 10 * kMiB;
  EXPECT_EQ(plan(), "fetch:2");
}

TEST_F(Lookahead, ChangedBytesAreWrittenBeforeTheyMustLeave) {
  changed_at(1, 500);
  changed_at(2, 400);
  table_[2].write_pins = 1;
  prophet_.birth_at = prophet_.now + 55;
  prophet_.birth_bytes = 10 * kMiB;
  absent_at(3, 60);  // whatever is foreseen behind the birth carries its demand
  table_[3].bytes = 1;
  EXPECT_EQ(plan(), "") << "what is written early may be changed again";
  prophet_.now += 15;
  EXPECT_EQ(plan(), "write:1") << "30 ms and twice 10";
  table_[1].below = Below::kValid;
  EXPECT_EQ(plan().find("write"), std::string::npos);
}

TEST_F(Lookahead, WhereTheLinkIsTheWallNoNearerOneLeavesForAFartherThatIsChanged) {
  absent_at(1, 5);
  clean_at(2, 500);
  changed_at(3, 900);
  EXPECT_EQ(plan(), "write:3 evict:2 fetch:1") << "there is time to bring it back";
  add(4, Where::kAbsent, Below::kValid, 899, 600 * kMiB);
  EXPECT_EQ(plan(), "write:3") << "610 MiB take 640 of 900 ms";
  table_[3].below = Below::kValid;
  EXPECT_EQ(plan(), "evict:3 fetch:1");
}

TEST_F(Lookahead, WhereTheLinkIsTheWallNothingComesBeforeItsTransferMustBegin) {
  state_.free = 100 * kMiB;
  absent_at(1, 40);
  EXPECT_EQ(plan(), "fetch:1");
  absent_at(5, 41);
  absent_at(6, 42);
  add(2, Where::kResident, Below::kValid, 43);
  EXPECT_EQ(plan(), "") << "30 MiB take 31 of 43 ms, the first of them 10";
  prophet_.now += 30;
  EXPECT_EQ(plan(), "fetch:1 fetch:5 fetch:6");
}

// A byte that came for nothing costs the trust that two used ones earn.
TEST_F(Lookahead, WhatOftenComesForNothingHardlyComes) {
  state_.budget = 100 * kMiB;
  state_.free = 10 * kMiB;
  absent_at(1, 5);
  state_.foreseen.missed = 45 * kMiB;
  EXPECT_EQ(plan(), "fetch:1");
  state_.foreseen.open = 1;
  EXPECT_EQ(plan(), "") << "10 MiB are trusted, and a byte of them is there unused";
  state_.foreseen.hit = 1;
  EXPECT_EQ(plan(), "fetch:1") << "another was used";
  state_.foreseen.missed += 10 * kMiB;
  EXPECT_EQ(plan(), "") << "trust does not go below nothing";
  state_.foreseen.open = 0;
  state_.demanded = 159 * kMiB;
  EXPECT_EQ(plan(), "");
  state_.demanded = 161 * kMiB;
  EXPECT_EQ(plan(), "fetch:1") << "on trial: ten of 160 that were waited for";
}

// Trust grows with what was used, and what it does not reach for holds up nothing behind it.
TEST_F(Lookahead, WhatIsSmallerComesOnTrialBeforeWhatIsLarger) {
  state_.free = 100 * kMiB;
  add(1, Where::kAbsent, Below::kValid, 5, 40 * kMiB);
  absent_at(2, 6);
  absent_at(3, 7);
  state_.foreseen.missed = 490 * kMiB;
  EXPECT_EQ(plan(), "fetch:2 fetch:3") << "20 MiB are trusted";
  state_.foreseen.hit = 25 * kMiB;
  EXPECT_EQ(plan(), "fetch:1") << "45 MiB are";
  state_.foreseen.hit = 40 * kMiB;
  EXPECT_EQ(plan(), "fetch:1 fetch:2 fetch:3");
}

TEST_F(Lookahead, MarginsAreWhatTheSlotsTransferTakes) {
  state_.free = 20 * kMiB;
  absent_at(1, 65);
  EXPECT_EQ(plan(), "fetch:1") << "30 ms and four times the 10 ms that it takes";
  state_.read_rate = 25'000'000'000;
  EXPECT_EQ(plan(), "") << "2.7 ms and four times 0.4 ms";
  prophet_.now += 61;
  EXPECT_EQ(plan(), "fetch:1");
}

TEST_F(Lookahead, OnAFastLinkOnlyBirthsAboutToComeAreLeftRoom) {
  absent_at(1, 12);
  clean_at(2, 500);
  clean_at(3, 600);
  prophet_.birth_at = prophet_.now + 10;
  prophet_.birth_bytes = 5 * kMiB;
  state_.write_rate = 25'000'000'000;
  EXPECT_EQ(plan(), "evict:3 fetch:1") << "the birth is 10 ms away, the slots' transfer takes 2.7";
}

TEST_F(Lookahead, OnAFastLinkChangedBytesAreWrittenShortlyBeforeTheyMustLeave) {
  changed_at(1, 500);
  prophet_.birth_at = prophet_.now + 40;
  prophet_.birth_bytes = 10 * kMiB;
  absent_at(3, 45);  // whatever is foreseen behind the birth carries its demand
  table_[3].bytes = 1;
  state_.read_rate = 25'000'000'000;
  EXPECT_EQ(plan(), "write:1") << "30 ms and twice 10";
  state_.write_rate = 25'000'000'000;
  EXPECT_EQ(plan(), "") << "2.7 ms and twice 0.4";
  prophet_.now += 40;
  EXPECT_EQ(plan(), "") << "5 ms are left";
  prophet_.now += 2;
  EXPECT_EQ(plan(), "write:1");
}

TEST_F(Lookahead, NeededSoonIsADozenOps) {
  clean_at(1, 5);
  clean_at(2, 50);
  EXPECT_TRUE(planner_.needed_soon(1));
  EXPECT_FALSE(planner_.needed_soon(2));
  EXPECT_FALSE(planner_.needed_soon(33)) << "not even resident";
}

}  // namespace
}  // namespace outsize::lookahead
