// The oracle on programs written down by hand, played again with other extents.
#include "predictors/oracle/oracle.h"

#include <gtest/gtest.h>

#include "core/trace/trace_test_rig.h"

namespace outsize::oracle {
namespace {

using Part = Recording::Part;
constexpr Bytes kLarge = 2 * kMiB;
constexpr Nanos kTime = 1'024'000;  // of an op

class OracleTest : public testing::Test {
 protected:
  // --- the recorded run
  std::uint32_t bear(Part part = Part::kOwn, Bytes bytes = kLarge) { return recording_->bear(part, bytes); }
  void recorded(SiteId site, std::vector<std::uint32_t> operands = {}) {
    recording_->begin_op(site, time_ += kTime, operands);
  }
  void finish() {
    recording_->finish(time_ += kTime);
    oracle_ = std::make_unique<OraclePredictor>(table_, std::move(recording_));
  }

  // --- the live one
  void op(SiteId site, std::vector<ExtentId> extents = {}) {
    std::vector<OperandRef> operands;
    std::vector<ExtentId> distinct;
    for (const ExtentId id : extents) {
      operands.push_back({id, Access::kRead});
      if (std::ranges::find(distinct, id) == distinct.end()) distinct.push_back(id);
    }
    OpEvent event;
    event.site = site;
    event.extents = distinct;
    event.operands = operands;
    event.now = now_ += pace_;
    oracle_->on_op(event);
  }
  Extent& there(ExtentId id, Bytes bytes, bool shared) {
    table_.ensure(id);
    Extent& e = table_[id];
    e = Extent{};
    e.where = Where::kResident;
    e.bytes = bytes;
    e.shared = shared;
    return e;
  }
  void birth(ExtentId id, Bytes bytes = kLarge, bool shared = false) {
    there(id, bytes, shared);
    oracle_->on_birth(id, bytes);
  }
  std::vector<ExtentId> coming() const {
    Upcoming out[16];
    std::vector<ExtentId> ids;
    for (std::size_t i = 0; i < oracle_->upcoming(out); ++i) ids.push_back(out[i].extent);
    return ids;
  }
  Position away(ExtentId id) const { return oracle_->next_use(id) - oracle_->position(); }

  // A row of ops with these sites that use nothing.
  void recorded_row(SiteId first, SiteId end) {
    for (SiteId site = first; site < end; ++site) recorded(site);
  }
  void row(SiteId first, SiteId end) {
    for (SiteId site = first; site < end; ++site) op(site);
  }

  std::unique_ptr<Recording> recording_ = std::make_unique<Recording>();
  ExtentTable table_;
  std::unique_ptr<OraclePredictor> oracle_;
  Nanos time_ = 0, now_ = 5'000'000, pace_ = kTime;
};

TEST_F(OracleTest, BirthsComeInTheSameOrderInOtherExtents) {
  recorded(10);
  const std::uint32_t a = bear(), b = bear(Part::kOwn, kMiB);
  recorded(11, {b});
  recorded(12, {a});
  recorded(13, {b, a});
  recording_->bury(b);
  recorded(14);
  recording_->bury(a);
  finish();
  op(10);
  birth(7);
  birth(3, kMiB);
  EXPECT_EQ(away(3), 0U);
  EXPECT_EQ(away(7), 1U);
  EXPECT_EQ(coming(), (std::vector<ExtentId>{3, 7}));
  op(11, {3});
  EXPECT_EQ(away(3), 1U);
  op(12, {7});
  op(13, {3, 7});
  EXPECT_EQ(oracle_->next_use(3), oracle_->position()) << "it dies before the next op";
  EXPECT_EQ(away(7), 0U) << "and this one in it";
  EXPECT_TRUE(coming().empty());
  EXPECT_EQ(oracle_->recognized().known, 4U);
  EXPECT_EQ(oracle_->foresight(), "the recorded run, op 4 of 5");
}

TEST_F(OracleTest, WhatWasThereBeforeIsKnownFromItsPlaceAmongOperands) {
  const std::uint32_t first = bear(Part::kPiece, kChunkBytes), second = bear(Part::kPiece, kMiB);
  recorded(10, {first, second});
  recorded(11, {second});
  recorded(12, {first});
  finish();
  there(5, kChunkBytes, false);
  oracle_->on_adopt(5, kChunkBytes);  // told before its first use
  EXPECT_EQ(away(5), 0U);
  there(4, kMiB - kPageBytes, false);  // not told, and otherwise aligned
  op(10, {5, 4});
  EXPECT_EQ(away(5), 1U);
  EXPECT_EQ(away(4), 0U);
}

TEST_F(OracleTest, OfAFileNothingIsTakenForSomethingElse) {
  const std::uint32_t file = bear(Part::kFile, 0);
  recorded(10);
  const std::uint32_t born = bear();
  recorded(11, {file, born});
  recorded(12, {born});
  finish();
  for (const ExtentId id : {1U, 2U, 3U}) {
    there(id, kChunkBytes, false);
    oracle_->on_adopt(id, kChunkBytes);
  }
  op(10);
  birth(8);
  op(11, {1, 2, 3, 8});
  EXPECT_EQ(coming(), (std::vector<ExtentId>{8}));
}

TEST_F(OracleTest, AnExtentThatSmallStoragesShareIsUsedWhenTheFirstOfThemIs) {
  recorded(10);
  const std::uint32_t a = bear(Part::kSmall, 64), b = bear(Part::kSmall, 64), c = bear(Part::kSmall, 64);
  recorded(11);
  recorded(12, {b, b});
  recorded(13, {c});
  recorded(14, {a});
  finish();
  op(10);
  birth(6, kSharedBytes, true);
  EXPECT_TRUE(oracle_->on_share(6));  // a
  EXPECT_EQ(away(6), 3U);
  EXPECT_TRUE(oracle_->on_share(6));  // b
  EXPECT_EQ(away(6), 1U);
  birth(2, kSharedBytes, true);
  EXPECT_TRUE(oracle_->on_share(2));  // c
  EXPECT_FALSE(oracle_->on_share(2)) << "nothing more was recorded";
  EXPECT_EQ(coming(), (std::vector<ExtentId>{6, 2})) << "once, though two of its storages come";
  op(11);
  op(12, {6, 6});
  EXPECT_EQ(away(6), 1U) << "a is due";
  op(13, {2});
  EXPECT_EQ(oracle_->next_use(2), kNever);
  oracle_->on_death(2, kSharedBytes);
  op(14, {6});
  EXPECT_EQ(oracle_->next_use(6), kNever);
}

// What was taken for another is put right when it is used.
TEST_F(OracleTest, AWrongGuessIsPutRightByTheNextUse) {
  recorded(10);
  const std::uint32_t a = bear(), b = bear();
  recorded(11, {a});
  recorded(12, {b});
  recorded(13, {a});
  finish();
  op(10);
  birth(1);
  birth(2);
  op(11, {2});  // so they were born in another order
  EXPECT_EQ(away(2), 1U);
  op(12, {1});
  EXPECT_EQ(coming(), (std::vector<ExtentId>{2}));
}

TEST_F(OracleTest, ThePlaceIsFoundAgainBehindOpsThatWereNotRecorded) {
  recorded(10);
  const std::uint32_t a = bear();
  recorded_row(100, 120);
  recorded(11, {a});
  finish();
  op(10);
  birth(1);
  EXPECT_EQ(away(1), 20U);
  op(999);
  EXPECT_TRUE(coming().empty()) << "nothing comes ahead of need while the place is unknown";
  EXPECT_EQ(oracle_->demand_within(1'000'000'000), 0);
  EXPECT_EQ(oracle_->foresight(), "the recorded run, lost after op 1");
  row(100, 100 + OraclePredictor::kAgree);
  EXPECT_TRUE(oracle_->take_rekeyed());
  EXPECT_EQ(away(1), 20U - OraclePredictor::kAgree);
  EXPECT_EQ(coming(), (std::vector<ExtentId>{1}));
  row(100 + OraclePredictor::kAgree, 120);
  op(11, {1});
  const Predictor::Recognized known = oracle_->recognized();
  EXPECT_EQ(known.ops, 23U);
  EXPECT_EQ(known.known, 23U - OraclePredictor::kAgree);  // 999 and those that had to agree, but for the last of them
  EXPECT_FALSE(known.given_up);
}

TEST_F(OracleTest, ThePlaceIsFoundAgainBehindRecordedOpsThatDidNotCome) {
  recorded(10);
  const std::uint32_t a = bear(), small = bear(Part::kSmall, 64);
  recorded_row(100, 150);
  recorded(11, {a, small});
  finish();
  op(10);
  birth(1);
  birth(2, kSharedBytes, true);
  oracle_->on_share(2);
  row(130, 130 + OraclePredictor::kAgree);
  EXPECT_EQ(away(1), 20U - OraclePredictor::kAgree);
  // And back: what lies before it comes again.
  row(100, 100 + OraclePredictor::kAgree);
  EXPECT_EQ(away(1), 50U - OraclePredictor::kAgree);
  EXPECT_EQ(away(2), 50U - OraclePredictor::kAgree);
}

TEST_F(OracleTest, ARunThatStaysAwayIsGivenUpAndTheLeastRecentlyUsedLeavesFirst) {
  recorded(10);
  const std::uint32_t a = bear(), b = bear();
  recorded_row(100, 120);
  recorded(11, {b});
  recorded(12, {a});
  finish();
  op(10);
  birth(1);
  birth(2);
  oracle_->take_rekeyed();
  op(500, {1});
  EXPECT_GT(oracle_->next_use(1), oracle_->next_use(2)) << "for a while what was foreseen still counts";
  row(600, 600 + 70);
  EXPECT_TRUE(oracle_->take_rekeyed());
  EXPECT_LT(oracle_->next_use(1), oracle_->next_use(2)) << "1 was used later";
  for (std::uint32_t i = 0; i < OraclePredictor::kLostMax; ++i) op(1'000 + i);
  EXPECT_TRUE(oracle_->recognized().given_up);
  EXPECT_EQ(oracle_->foresight(), "none: the recorded run was lost after op 1");
  row(100, 120);
  op(11, {2});
  EXPECT_TRUE(coming().empty());
  EXPECT_LT(oracle_->next_use(2), oracle_->next_use(1));
  EXPECT_EQ(oracle_->recognized().known, 1U);
}

TEST_F(OracleTest, WhereTheRecordedRunEndsNothingIsForeseen) {
  recorded(10);
  const std::uint32_t a = bear();
  recorded(11, {a});
  finish();
  op(10);
  birth(1);
  op(11, {1});
  op(0, {1});  // one of outsize's own: at the end it brings all back
  EXPECT_FALSE(oracle_->recognized().given_up);
  op(10);
  EXPECT_EQ(oracle_->foresight(), "none: the recorded run is over");
  EXPECT_EQ(oracle_->recognized().ops, 3U);
  EXPECT_EQ(oracle_->recognized().known, 2U);
}

TEST_F(OracleTest, TimesStretchAsTheRunDoesAndBirthsAreTold) {
  recorded(10);
  const std::uint32_t a = bear();
  recorded(11);
  const std::uint32_t b = bear(Part::kOwn, 4 * kMiB);
  recorded(12);
  recording_->bury(b);
  recorded(13, {a});
  finish();
  pace_ = 3 * kTime;
  op(10);
  birth(1);
  op(11);  // recorded one time behind the last, here three
  Upcoming next[1];
  ASSERT_EQ(oracle_->upcoming(next), 1U);
  EXPECT_EQ(next[0].in, 3 * kTime);
  EXPECT_EQ(next[0].demand, 4 * kMiB) << "what the running op has yet to bear";
  EXPECT_EQ(oracle_->demand_within(0), 4 * kMiB);
  birth(2, 4 * kMiB);
  ASSERT_EQ(oracle_->upcoming(next), 1U);
  EXPECT_EQ(next[0].demand, 0);
}

// --- what a trace says ------------------------------------------------------------------------

TEST(TraceReading, TellsHowStoragesAreHeldAndWhatTimeWasTheProgramsOwn) {
  TraceReading reading;
  Nanos time = 0;
  const auto see = [&](trace::Event::Kind kind, trace::StorageId storage = trace::kNoStorage, Bytes bytes = 0) {
    trace::Event event;
    event.kind = kind;
    event.time = time += 100;
    event.storage = storage;
    event.bytes = bytes;
    reading.see(event);
  };
  const auto op = [&](SiteId site, std::vector<trace::Operand> operands) {
    trace::Event event;
    event.kind = trace::Event::Kind::kOpBegin;
    event.time = time += 100;
    event.site = site;
    event.operands = operands;
    reading.see(event);
  };
  using Kind = trace::Event::Kind;
  see(Kind::kAdopt, 0, 2 * kChunkBytes + 1);
  op(10, {{0, Access::kRead}});
  see(Kind::kBirth, 1, kLargeBytes + 1);
  see(Kind::kBirth, 2, 65);
  see(Kind::kBirth, 3, 0);
  trace::Event wait;
  wait.kind = Kind::kWait;
  wait.time = time += 5'000;
  wait.duration = 5'000;
  reading.see(wait);
  see(Kind::kDeath, 2);
  see(Kind::kRawAccess, 1);
  op(11, {{1, Access::kRead}, {77, Access::kRead}, {3, Access::kRead}});  // 77 makes no sense
  const std::unique_ptr<const Recording> made = reading.finish();
  const steps::StepRecord& run = made->run();
  ASSERT_EQ(run.size(), 3U);
  ASSERT_EQ(run.objects.size(), 5U);
  EXPECT_EQ(made->operands(1).size(), 3U) << "pieces of a chunk each";
  EXPECT_EQ(made->object(0).part, Part::kPiece);
  EXPECT_EQ(made->object(0).whole, round_up(2 * kChunkBytes + 1, kPageBytes));
  EXPECT_EQ(made->object(3).part, Part::kOwn);
  EXPECT_EQ(run.objects[3].bytes, kLargeBytes + kPageBytes);
  EXPECT_EQ(made->object(4).part, Part::kSmall);
  EXPECT_EQ(run.objects[4].bytes, 128);
  EXPECT_EQ(run.objects[4].death_op, 1U);
  EXPECT_EQ(run.ops[1].death_bytes, 128);
  EXPECT_EQ(std::vector<std::uint32_t>(made->operands(2).begin(), made->operands(2).end()), std::vector<std::uint32_t>{3});
  EXPECT_EQ(run.uses(3).size(), 2U) << "an operand, and touched raw before";
  EXPECT_EQ(run.ops[2].at - run.ops[1].at, 600);
}

}  // namespace
}  // namespace outsize::oracle
