// Extents that small storages share come with what backward returns to; and plans that go wrong in what ops work on.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/pilot.h"

namespace outsize::pilot {
namespace {

constexpr std::uint32_t kLayers = 40;  // so many that forward has more ops than a plan tells again of what is shared

// Forward through layers, each with a weight and, from op to op, small results in an extent of the layer's own; then
// backward in reverse, which works on both again. Autograd's numbers go on from step to step.
class Chain {
 public:
  explicit Chain(bool swaps = false) : pilot(table_, {}), swaps_(swaps) {
    table_.ensure(3 * kLayers);
    for (ExtentId id = 0; id < 3 * kLayers; ++id) {
      table_[id].bytes = kMiB;
      table_[id].shared = id >= kLayers && id < 2 * kLayers;
    }
    for (ExtentId id = 0; id < kLayers; ++id) pilot.on_birth(id, kMiB);
    for (ExtentId id = 2 * kLayers; id < 3 * kLayers; ++id) pilot.on_birth(id, kMiB);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      forward();
      backward();
      pilot.on_step(now_ += 1000);
    }
  }
  void forward() {
    first_ = next_;
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      pilot.on_birth(kLayers + layer, kMiB);
      op(100 + layer, {weight(layer), kLayers + layer}, 0, next_);
      ++next_;  // it makes one node
      op(50, {kLayers + layer}, 0, next_);
    }
    op(60, {}, 0, next_);
  }
  ExtentTable table_;
  PilotPredictor pilot;

 private:
  // What stands there now and then, in no order.
  ExtentId weight(std::uint32_t layer) {
    if (!swaps_) return layer;
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (random_ >> 60) % 2 == 0 ? layer : 2 * kLayers + layer;
  }
  void backward() {
    for (std::uint32_t layer = kLayers; layer-- > 0;) {
      op(200 + layer, {layer, kLayers + layer}, first_ + layer, next_);
      pilot.on_death(kLayers + layer, kMiB);
    }
  }
  void op(std::uint64_t kind, const std::vector<ExtentId>& extents, std::uint32_t running, std::uint32_t next) {
    const GraphPlace graph = graph_place(next, running);
    pilot.on_op({kind, extents, running != 0, now_ += 1'000'000, {}, graph});
  }
  bool swaps_ = false;
  std::uint64_t random_ = 1;
  std::uint32_t next_ = 1, first_ = 1;
  Nanos now_ = 0;
};

TEST(PilotShared, ExtentsComeInTheOrderInWhichBackwardReturnsToThem) {
  Chain chain;
  chain.steps(20);
  chain.forward();
  chain.pilot.on_sample({});  // so that a plan is made here
  std::vector<Upcoming> out(256);
  out.resize(chain.pilot.upcoming(out));
  std::vector<ExtentId> shared;
  for (const Upcoming& next : out) {
    if (chain.table_[next.extent].shared) shared.push_back(next.extent);
  }
  ASSERT_EQ(shared.size(), std::size_t{kLayers}) << "each once";
  EXPECT_TRUE(std::is_sorted(shared.rbegin(), shared.rend())) << "the last one first";
}

TEST(PilotShared, ThePlanTellsOfAllButThoseJustUsedWhichAreWantedAtOnceWhateverItSays) {
  Chain chain;
  chain.steps(20);
  chain.forward();
  chain.pilot.on_sample({});
  std::vector<Upcoming> out(256);
  out.resize(chain.pilot.upcoming(out));
  std::uint32_t planned = 0, at_once = 0;
  for (const Upcoming& next : out) {
    if (!chain.table_[next.extent].shared) continue;
    if (chain.pilot.wanted_at_once(next.extent)) {
      ++at_once;
      EXPECT_LE(chain.pilot.next_use(next.extent), chain.pilot.position());
      EXPECT_GE(next.position, chain.pilot.position()) << "which the plan knows better";
    } else {
      ++planned;
      EXPECT_EQ(chain.pilot.next_use(next.extent), next.position);
    }
  }
  EXPECT_EQ(at_once, Plan::kToldAgain / 2) << "two ops a layer";
  EXPECT_EQ(planned, kLayers - at_once);
}

TEST(PilotShared, APlanOfRightOpsOnOtherExtentsIsMadeAnew) {
  Chain same, swaps(true);
  for (Chain* const chain : {&same, &swaps}) chain->steps(60);
  EXPECT_GT(swaps.pilot.score().plans, same.pilot.score().plans);
}

// What a pilot is told of: ops on so many extents, in forward.
class Forward {
 public:
  explicit Forward(ExtentId extents, const PilotOptions& options = {}) : pilot(table_, options) {
    table_.ensure(extents);
    for (ExtentId id = 0; id < extents; ++id) table_[id].bytes = kMiB;
  }

 protected:
  void op(std::uint64_t kind, const std::vector<ExtentId>& extents) {
    pilot.on_op({kind, extents, false, now_ += 1'000'000, {}, {}});
  }
  void end_step() { pilot.on_step(now_ += 1000); }
  ExtentTable table_;

 private:
  Nanos now_ = 0;

 public:
  PilotPredictor pilot;
};

// Always the same ops; each second one works on either of two things made just before, nobody knows which.
class Picks : public Forward {
 public:
  Picks() : Forward(1 + 2 * kLayers) { pilot.on_birth(kWeight, kMiB); }
  void layers() {
    for (ExtentId id = 1; id < 1 + 2 * kLayers; id += 2) {
      for (const ExtentId made : {id, id + 1}) {
        op(made % 2 == 0 ? 70 : 71, {kWeight});
        pilot.on_birth(made, kMiB);
      }
      op(100 + id, {id + static_cast<ExtentId>(random_() % 2)});
    }
  }
  void step() {
    layers();
    for (ExtentId id = 1; id < 1 + 2 * kLayers; ++id) pilot.on_death(id, kMiB);
    end_step();
  }

 private:
  static constexpr ExtentId kWeight = 0;
  std::mt19937 random_{7};
};

TEST(PilotShared, APlanForASampleIsNotAsShortAsOneAfterSurprises) {
  Picks picks;
  for (int i = 0; i < 20; ++i) picks.step();
  picks.layers();
  ASSERT_EQ(picks.pilot.facts().plan_ops, 256U);
  picks.pilot.on_sample({});
  EXPECT_EQ(picks.pilot.facts().plan_ops, 512U);
}

// Two surprises come every twelve ops, about.
TEST(PilotShared, WhereOnePlanAfterTheOtherIsSurprisedFewerAreMadeUntilASampleComes) {
  Picks picks;
  for (int i = 0; i < 20; ++i) picks.step();
  const auto made_in = [&](int steps) {
    const std::uint64_t before = picks.pilot.score().plans;
    for (int i = 0; i < steps; ++i) picks.step();
    return picks.pilot.score().plans - before;
  };
  constexpr int kSteps = 20;
  constexpr std::uint64_t kOps = kSteps * 3 * kLayers;
  const std::uint64_t seldom = made_in(kSteps);
  EXPECT_LT(seldom, kOps / 24);
  std::uint64_t made = 0;
  for (int i = 0; i < kSteps; ++i) {
    picks.pilot.on_sample({});
    made += made_in(1);
  }
  EXPECT_GT(made, seldom + kSteps) << "beside those for samples";
}

// Which op comes is drawn: hardly any plan comes true.
class Drawn : public Forward {
 public:
  static constexpr std::uint64_t kOps = 2000;  // of a step

  explicit Drawn(const PilotOptions& options = {}) : Forward(kWeights, options) {
    for (ExtentId id = 0; id < kWeights; ++id) pilot.on_birth(id, kMiB);
    plans_in(kOps, kOps);
    end_step();
  }
  std::uint64_t plans_in(std::uint64_t ops, std::uint64_t sample_each) {
    const std::uint64_t before = pilot.score().plans;
    for (std::uint64_t i = 0; i < ops; ++i) {
      if (i % sample_each == 0) pilot.on_sample({});
      draw();
    }
    return pilot.score().plans - before;
  }
  // Ops that came unplanned until a plan was made.
  std::uint64_t unplanned() {
    std::uint64_t ops = 0;
    for (const std::uint64_t plans = pilot.score().plans; pilot.score().plans == plans;) {
      const std::uint64_t foreseen = pilot.score().foreseen;
      draw();
      ops = pilot.score().foreseen == foreseen ? ops + 1 : 0;
    }
    return ops;
  }

 private:
  static constexpr ExtentId kWeights = 40;
  void draw() {
    const auto drawn = static_cast<ExtentId>(random_() % kWeights);
    op(100 + drawn, {drawn});
  }
  std::mt19937 random_{7};
};

TEST(PilotShared, WhereStepsLeaveOnePlanAfterTheOtherFewerAreMadeUntilASampleComes) {
  constexpr std::uint64_t kSampleEach = 40;
  Drawn drawn;
  const std::uint64_t seldom = drawn.plans_in(Drawn::kOps, Drawn::kOps);
  EXPECT_LT(seldom, Drawn::kOps / 20);
  const std::uint64_t made = drawn.plans_in(Drawn::kOps, kSampleEach);
  EXPECT_GT(made, 2 * Drawn::kOps / kSampleEach) << "more than those for samples";
}

TEST(PilotShared, WhereStepsLeaveOnePlanAfterTheOtherItTakesMoreEachTimeUntilASampleComes) {
  Drawn drawn({.skip = 0});
  drawn.plans_in(Drawn::kOps, Drawn::kOps);
  for (int i = 0; i < 2; ++i) {
    drawn.pilot.on_sample({});
    for (const std::uint64_t ops : {4, 4, 8, 16, 32, 64, 128}) EXPECT_EQ(drawn.unplanned(), ops);
  }
}

// Small weights lie in an extent that small storages share; no graph tells of them. And on what one op leaves in such an extent, a new one
// each step, another works a hundred ops later.
class Habits : public Forward {
 public:
  static constexpr ExtentId kWeights = 0, kLarge = 1, kLeft = 2;

  Habits() : Forward(40) {
    for (ExtentId id = 0; id < 40; ++id) table_[id].shared = id != kLarge;
    pilot.on_birth(kWeights, kMiB);
    pilot.on_birth(kLarge, kMiB);
  }
  ExtentId left() const { return kLeft + step_ % 30; }
  // Until just before the ops that work on these.
  void begin() {
    op(1, {kLarge});
    pilot.on_birth(left(), kMiB);
    op(2, {left()});
    for (std::uint64_t i = 0; i < 100; ++i) op(100 + i, {kLarge});
    pilot.on_sample({});  // so that a plan is made here
  }
  void step() {
    begin();
    end();
  }
  void end() {
    op(3, {kWeights});
    op(4, {left()});
    pilot.on_death(left(), kMiB);
    end_step();
    ++step_;
  }
  bool foreseen(ExtentId id) {
    std::vector<Upcoming> out(64);
    out.resize(pilot.upcoming(out));
    return std::any_of(out.begin(), out.end(), [id](const Upcoming& next) { return next.extent == id; });
  }

 private:
  ExtentId step_ = 0;
};

TEST(PilotShared, WhatAnOpWorksOnTimeAndAgainAndWhatItFindsWhereAnotherWorkedIsForeseen) {
  Habits habits;
  habits.begin();
  EXPECT_FALSE(habits.foreseen(Habits::kWeights));
  EXPECT_FALSE(habits.foreseen(habits.left()));
  Habits later;
  for (int i = 0; i < 8; ++i) later.step();
  later.begin();
  EXPECT_TRUE(later.foreseen(Habits::kWeights));
  EXPECT_TRUE(later.foreseen(later.left()));
  later.pilot.on_death(Habits::kWeights, kMiB);
  later.pilot.on_sample({});
  EXPECT_FALSE(later.foreseen(Habits::kWeights)) << "it is not there";
}

// Ops get the numbers that they had before, for they have names from the first step on: what was a habit then would be one at once.
TEST(PilotShared, HabitsAreForgottenWithTheNetwork) {
  Habits habits;
  habits.step();
  habits.pilot.forget_network();
  for (int i = 0; i < 8; ++i) habits.step();
  habits.pilot.forget_network();
  habits.step();
  habits.begin();
  EXPECT_FALSE(habits.foreseen(Habits::kWeights)) << "an op that worked on it once";
  habits.end();
  for (int i = 0; i < 4; ++i) habits.step();
  habits.begin();
  EXPECT_TRUE(habits.foreseen(Habits::kWeights));
}

}  // namespace
}  // namespace outsize::pilot
