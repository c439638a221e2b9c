// Two predictors that say what the test wants, of a program that goes another way in every step.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "predictors/automatic/automatic.h"

namespace outsize::automatic {
namespace {

constexpr ExtentId kExtents = 64;
constexpr Bytes kBytes = 1 << 20;

// What runs: each extent once a step, in an order of the step's own.
struct World {
  std::vector<ExtentId> order = std::vector<ExtentId>(2 * kExtents);  // this step's, and the next one's
  std::size_t at = 0;                                                 // next op
  std::uint64_t chance = 1;

  std::uint64_t below(std::uint64_t end) {
    chance = chance * 6364136223846793005ULL + 1442695040888963407ULL;
    return (chance >> 33) % end;
  }
  void shuffle(std::size_t from) {
    std::iota(order.begin() + static_cast<std::ptrdiff_t>(from), order.begin() + static_cast<std::ptrdiff_t>(from + kExtents), 0);
    for (std::size_t i = kExtents - 1; i > 0; --i) std::swap(order[from + i], order[from + below(i + 1)]);
  }
};

// Of four extents that come it knows so many, and takes the others to come too late.
struct Skill {
  World* world = nullptr;
  int knows = 4;
  std::uint64_t ops = 0, births = 0, shares = 0, deaths = 0, steps = 0, samples = 0;  // told to it
  bool rekeys = false;                                                    // with the next op
  int made = 0;
};

class Scripted final : public Predictor {
 public:
  Scripted(Skill& skill, Position scale) : skill_(skill), position_(scale) { ++skill.made; }
  const char* name() const override { return "scripted"; }
  void on_op(const OpEvent&) override {
    ++skill_.ops;
    ++position_;
  }
  void on_birth(ExtentId, Bytes) override { ++skill_.births; }
  bool on_share(ExtentId) override { return ++skill_.shares > 0; }
  void on_death(ExtentId, Bytes) override { ++skill_.deaths; }
  void on_step(Nanos) override { ++skill_.steps; }
  void on_sample(std::span<const std::int64_t>) override { ++skill_.samples; }
  Position position() const override { return position_; }
  Position next_use(ExtentId id) const override { return position_ + id; }
  Bytes demand_within(Nanos) const override { return 0; }
  Bytes table_bytes() const override { return 7; }
  bool take_rekeyed() override { return std::exchange(skill_.rekeys, false); }
  std::size_t upcoming(std::span<Upcoming> out) const override {
    std::size_t count = 0;
    const World& world = *skill_.world;
    for (std::size_t i = 0; i < 32 && world.at + i < world.order.size(); ++i) {
      const ExtentId id = world.order[world.at + i];
      if (static_cast<int>(id % 4) >= skill_.knows) continue;
      out[count++] = {.extent = id, .position = position_ + i, .in = static_cast<Nanos>(i) * 1'000'000};
    }
    return count;
  }

 private:
  Skill& skill_;
  Position position_;
};

class Automatic : public testing::Test {
 protected:
  static constexpr Position kUsualScale = 1'000, kPilotScale = 1'000'000'000;
  Automatic() {
    usual_.world = pilot_.world = &world_;
    table_.ensure(kExtents);
    for (ExtentId id = 0; id < kExtents; ++id) {
      table_[id].bytes = kBytes;
      table_[id].where = Where::kAbsent;
    }
    world_.shuffle(0);
    world_.shuffle(kExtents);
    automatic_ = std::make_unique<AutomaticPredictor>(
        table_, std::make_unique<Scripted>(usual_, kUsualScale),
        [this] { return std::make_unique<Scripted>(pilot_, kPilotScale); }, AutomaticOptions{});
  }
  void step() {
    for (ExtentId i = 0; i < kExtents; ++i) {
      const ExtentId id[] = {world_.order[world_.at++]};
      automatic_->on_op({1, id, false, now_});
      now_ += 1'000'000;
      automatic_->take_rekeyed();
    }
    std::copy(world_.order.begin() + kExtents, world_.order.end(), world_.order.begin());
    world_.shuffle(kExtents);
    world_.at = 0;
    automatic_->on_step(now_);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) step();
  }
  // Steps until it is so; -1 where it never is.
  template <class Is>
  int until(Is is, int most = 400) {
    for (int i = 0; i < most; ++i) {
      if (is()) return i;
      step();
    }
    return -1;
  }

  World world_;
  Skill usual_, pilot_;
  ExtentTable table_;
  std::unique_ptr<AutomaticPredictor> automatic_;
  Nanos now_ = 0;
};

TEST_F(Automatic, WhoeverForeseesBetterAnswers) {
  usual_.knows = 1;
  EXPECT_FALSE(automatic_->steered());
  EXPECT_LT(automatic_->position(), kPilotScale);
  const int took = until([&] { return automatic_->steered(); });
  EXPECT_GE(took, 3) << "on one step's word";
  EXPECT_LE(took, 8);
  EXPECT_TRUE(automatic_->take_rekeyed()) << "positions are on another scale now";
  EXPECT_GE(automatic_->position(), kPilotScale);
  EXPECT_EQ(automatic_->next_use(5), automatic_->position() + 5);
  steps(10);
  EXPECT_TRUE(automatic_->steered());
  std::swap(usual_.knows, pilot_.knows);
  const int gave = until([&] { return !automatic_->steered(); });
  EXPECT_GE(gave, 8) << "too eager";
  EXPECT_LE(gave, 20);
  EXPECT_TRUE(automatic_->take_rekeyed());
  EXPECT_LT(automatic_->position(), kPilotScale);
}

TEST_F(Automatic, BothHearOfEverything) {
  automatic_->on_birth(3, kBytes);
  EXPECT_TRUE(automatic_->on_share(3));
  automatic_->on_death(3, kBytes);
  const std::int64_t sample[] = {1, 0};
  automatic_->on_sample(sample);
  step();
  for (const Skill* skill : {&usual_, &pilot_}) {
    EXPECT_EQ(skill->births, 1U);
    EXPECT_EQ(skill->shares, 1U);
    EXPECT_EQ(skill->deaths, 1U);
    EXPECT_EQ(skill->samples, 1U);
    EXPECT_EQ(skill->ops, kExtents);
    EXPECT_EQ(skill->steps, 1U);
  }
  EXPECT_EQ(automatic_->table_bytes(), 14);
}

TEST_F(Automatic, WhoDoesNotAnswerHasNothingAskedAnew) {
  const ExtentId none[] = {0};
  pilot_.rekeys = true;
  automatic_->on_op({1, none, false, now_});
  EXPECT_FALSE(automatic_->take_rekeyed());
  usual_.rekeys = true;
  automatic_->on_op({1, none, false, now_});
  EXPECT_TRUE(automatic_->take_rekeyed());
  EXPECT_FALSE(automatic_->take_rekeyed());
}

TEST_F(Automatic, APilotThatIsNoBetterRests) {
  EXPECT_EQ(until([&] { return automatic_->resting(); }), 32);
  const std::uint64_t told = pilot_.ops;
  steps(600);
  EXPECT_EQ(pilot_.ops, told) << "it costs something";
  EXPECT_TRUE(automatic_->resting()) << "there is nothing to win";
  EXPECT_EQ(pilot_.made, 1);
}

TEST_F(Automatic, WhereTheUsualOneIsBadThePilotLearnsLonger) {
  usual_.knows = pilot_.knows = 2;
  EXPECT_EQ(until([&] { return automatic_->resting(); }), 96);
  EXPECT_EQ(until([&] { return !automatic_->resting(); }, 1000), 8 * 32);
  EXPECT_EQ(until([&] { return automatic_->resting(); }), 96);
  EXPECT_EQ(until([&] { return !automatic_->resting(); }, 1000), 16 * 32) << "each time twice as long";
}

TEST_F(Automatic, WhatRestsIsWokenWhereTheUsualOneBecomesWorse) {
  until([&] { return automatic_->resting(); });
  steps(20);
  usual_.knows = 2;
  EXPECT_LE(until([&] { return !automatic_->resting(); }), 12);
  EXPECT_EQ(pilot_.made, 2);
  EXPECT_LE(until([&] { return automatic_->steered(); }), 12);
  EXPECT_GE(automatic_->position(), kPilotScale);
}

TEST_F(Automatic, NoiseDoesNotMakeItChangeAllTheTime) {
  int changes = 0;
  bool steered = false;
  for (int i = 0; i < 400; ++i) {
    usual_.knows = 2 + static_cast<int>(world_.below(2));
    pilot_.knows = 2 + static_cast<int>(world_.below(2));
    step();
    if (automatic_->steered() != steered) ++changes;
    steered = automatic_->steered();
  }
  EXPECT_LE(changes, 6);
}

TEST_F(Automatic, WhereNothingComesBackItDoesNotMatter) {
  for (ExtentId id = 0; id < kExtents; ++id) table_[id].where = Where::kResident;
  usual_.knows = 0;
  steps(32);
  EXPECT_TRUE(automatic_->resting());
  steps(600);
  EXPECT_TRUE(automatic_->resting());
  for (ExtentId id = 0; id < kExtents; ++id) table_[id].where = Where::kAbsent;
  EXPECT_GE(until([&] { return automatic_->steered(); }), 0) << "now it does";
}

TEST_F(Automatic, SaysWhoForesees) {
  EXPECT_EQ(automatic_->foresight(), "the usual way; the pilot learns");
  usual_.knows = 1;
  until([&] { return automatic_->steered(); });
  steps(20);
  EXPECT_TRUE(automatic_->foresight().starts_with("pilot since step ")) << automatic_->foresight();
  EXPECT_NE(automatic_->foresight().find(" (foresees 100 %, the usual way 2"), std::string::npos) << automatic_->foresight();
  usual_.knows = 4;
  until([&] { return !automatic_->steered(); });
  EXPECT_TRUE(automatic_->foresight().starts_with("the usual way (foresees ")) << automatic_->foresight();
  until([&] { return automatic_->resting(); });
  EXPECT_TRUE(automatic_->foresight().starts_with("the usual way (foresees 100 %); the pilot rests since step "))
      << automatic_->foresight();
}

// What is listed and dies, or does not come, would have been brought for nothing; that weighs as what was missed does.
TEST_F(Automatic, WhatWouldComeForNothingCounts) {
  Contest contest(table_);
  Skill all, half;
  all.world = half.world = &world_;
  half.knows = 2;
  Scripted usual(all, kUsualScale), pilot(half, kPilotScale);
  for (int s = 0; s < 12; ++s) {
    for (ExtentId i = 0; i < kExtents; ++i) {
      const ExtentId id[] = {world_.order[world_.at++] ^ 1U};  // what was said, with neighbours changed for one another
      contest.on_op({1, id, false, now_ += 1'000'000}, usual, &pilot);
    }
    std::copy(world_.order.begin() + kExtents, world_.order.end(), world_.order.begin());
    world_.shuffle(kExtents);
    world_.at = 0;
    contest.on_step();
  }
  EXPECT_TRUE(contest.known(Contest::kPilot));
  EXPECT_LT(contest.share(Contest::kUsual), 300);
  EXPECT_LT(contest.share(Contest::kPilot), 300);
  EXPECT_TRUE(contest.matters());
  contest.forget_pilot();
  EXPECT_FALSE(contest.known(Contest::kPilot));
}

}  // namespace
}  // namespace outsize::automatic
