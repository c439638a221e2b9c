// Of several things of one name backward works on that which the op saved whose gradient is made; also a second time, where
// a graph is kept.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/pilot.h"

namespace outsize::pilot {
namespace {

constexpr std::uint32_t kTurns = 4;
constexpr ExtentId kWeight = 0, kCopies = 10;

// How an op comes by what its gradient will be made of.
enum class Saves : std::uint8_t { kWorksOn, kBears, kBearsShared, kBearsInOpenShared };

// A loop each of whose turns makes a copy of a weight and works on it, as the unrolled steps of an optimizer do; then
// backward through all of them, forward, and backward through all of them again. The copies live until the step ends.
class Unrolled {
 public:
  explicit Unrolled(Saves saves = Saves::kWorksOn) : pilot(table_, {}), saves_(saves) {
    table_.ensure(kCopies + kTurns);
    for (ExtentId id = 0; id < kCopies + kTurns; ++id) {
      table_[id].bytes = kMiB;
      table_[id].shared = id >= kCopies && (saves == Saves::kBearsShared || saves == Saves::kBearsInOpenShared);
    }
    pilot.on_birth(kWeight, kMiB);
    for (ExtentId copy = kCopies; saves == Saves::kBearsInOpenShared && copy < kCopies + kTurns; ++copy) pilot.on_birth(copy, kMiB);
  }
  void forward() {
    first_ = next_;
    for (ExtentId copy = kCopies; copy < kCopies + kTurns; ++copy) {
      op(71, {kWeight});
      if (saves_ == Saves::kWorksOn) {
        op(70, {});
        pilot.on_birth(copy, kMiB);
        op(100, {copy});
      } else {
        op(100, {kWeight});
        if (saves_ == Saves::kBearsInOpenShared) pilot.on_share(copy);
        else pilot.on_birth(copy, kMiB);
      }
      ++next_;  // it makes one node
    }
    op(60, {kWeight});
  }
  void backward() {
    for (std::uint32_t i = kTurns; i-- > 0;) backward_of(i);
  }
  // A gradient is made, and added up: by a node that has no number.
  void backward_of(std::uint32_t turn) {
    op(200, {kCopies + turn}, first_ + turn);
    pilot.on_op({300, {}, true, now_ += 1'000'000, {}, graph_place(next_, 0)});
  }
  void end_step() {
    for (ExtentId copy = kCopies; saves_ != Saves::kBearsInOpenShared && copy < kCopies + kTurns; ++copy) pilot.on_death(copy, kMiB);
    pilot.on_step(now_ += 1000);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      forward();
      backward();
      op(60, {kWeight});
      backward();
      end_step();
    }
  }
  // Steps enough to know it, and of one more all but the second time backward.
  void until_it_goes_through_again() {
    steps(20);
    forward();
    backward();
    op(60, {kWeight});
  }
  void op(std::uint64_t kind, const std::vector<ExtentId>& extents, std::uint32_t running = 0) {
    pilot.on_op({kind, extents, running != 0, now_ += 1'000'000, {}, graph_place(next_, running)});
  }
  // Copies that a plan made now tells of, soonest first.
  std::vector<ExtentId> foreseen() {
    pilot.on_sample({});
    std::vector<Upcoming> out(64);
    out.resize(pilot.upcoming(out));
    std::vector<ExtentId> copies;
    for (const Upcoming& next : out) {
      if (next.extent >= kCopies) copies.push_back(next.extent);
    }
    return copies;
  }
  ExtentTable table_;
  PilotPredictor pilot;

 private:
  Saves saves_;
  std::uint32_t next_ = 1, first_ = 1;
  Nanos now_ = 0;
};

const std::vector<ExtentId> kLastFirst{kCopies + 3, kCopies + 2, kCopies + 1, kCopies};

TEST(PilotPlanSaved, TheLatestTurnsCopyComesFirst) {
  Unrolled program;
  program.steps(20);
  program.forward();
  EXPECT_EQ(program.foreseen(), kLastFirst);
}

TEST(PilotPlanSaved, SoItDoesWhenAKeptGraphIsGoneThroughAgain) {
  Unrolled program;
  program.until_it_goes_through_again();
  EXPECT_EQ(program.foreseen(), kLastFirst);
}

TEST(PilotPlanSaved, WhatAnOpBoreIsSavedToo) {
  for (const Saves saves : {Saves::kBears, Saves::kBearsShared, Saves::kBearsInOpenShared}) {
    Unrolled program(saves);
    program.until_it_goes_through_again();
    EXPECT_EQ(program.foreseen(), kLastFirst) << static_cast<int>(saves);
  }
}

// A plan goes on into the next step, whose graph has no numbers yet.
TEST(PilotPlanSaved, WhatDiesWithTheStepIsNotTakenForTheNextOnes) {
  Unrolled program;
  program.until_it_goes_through_again();
  program.backward_of(3);
  program.foreseen();
  EXPECT_LE(program.pilot.next_use(kCopies + 3), program.pilot.position() + 2 * kTurns) << "it dies when this step ends";
}

TEST(PilotPlanSaved, WhileAGradientIsAddedUpTheTurnIsTheLastOnesStill) {
  Unrolled program;
  program.until_it_goes_through_again();
  program.backward_of(3);
  std::vector<ExtentId> foreseen = program.foreseen();
  ASSERT_GE(foreseen.size(), 3U);
  foreseen.resize(3);
  EXPECT_EQ(foreseen, (std::vector<ExtentId>{kCopies + 2, kCopies + 1, kCopies}));
}

TEST(PilotPlanSaved, HalfWayTheRestIsToldOf) {
  Unrolled program;
  program.steps(20);
  program.forward();
  program.backward_of(3);
  program.backward_of(2);
  const std::vector<ExtentId> foreseen = program.foreseen();
  ASSERT_GE(foreseen.size(), 2U);
  EXPECT_EQ(foreseen[0], kCopies + 1);
  EXPECT_EQ(foreseen[1], kCopies);
}

}  // namespace
}  // namespace outsize::pilot
