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

// A loop each of whose turns makes a copy of a weight and works on it, as the unrolled steps of an optimizer do; then
// backward through all of them, forward, and backward through all of them again. The copies live until the step ends.
class Unrolled {
 public:
  Unrolled() : pilot(table_, {}) {
    table_.ensure(kCopies + kTurns);
    for (ExtentId id = 0; id < kCopies + kTurns; ++id) table_[id].bytes = kMiB;
    pilot.on_birth(kWeight, kMiB);
  }
  void forward() {
    first_ = next_;
    for (ExtentId copy = kCopies; copy < kCopies + kTurns; ++copy) {
      op(71, {kWeight});
      op(70, {});
      pilot.on_birth(copy, kMiB);
      op(100, {copy});
      ++next_;  // it makes one node
    }
    op(60, {kWeight});
  }
  void backward() {
    for (std::uint32_t i = kTurns; i-- > 0;) op(200, {kCopies + i}, first_ + i);
  }
  void end_step() {
    for (ExtentId copy = kCopies; copy < kCopies + kTurns; ++copy) pilot.on_death(copy, kMiB);
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
  program.steps(20);
  program.forward();
  program.backward();
  program.op(60, {kWeight});
  EXPECT_EQ(program.foreseen(), kLastFirst);
}

TEST(PilotPlanSaved, HalfWayTheRestIsToldOf) {
  Unrolled program;
  program.steps(20);
  program.forward();
  program.op(200, {kCopies + 3}, kTurns * 20 + 4);
  program.op(200, {kCopies + 2}, kTurns * 20 + 3);
  const std::vector<ExtentId> foreseen = program.foreseen();
  ASSERT_GE(foreseen.size(), 2U);
  EXPECT_EQ(foreseen[0], kCopies + 1);
  EXPECT_EQ(foreseen[1], kCopies);
}

}  // namespace
}  // namespace outsize::pilot
