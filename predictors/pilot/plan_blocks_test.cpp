// What settings of the pilot that are for comparisons do to its plans.
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/mix.h"
#include "predictors/pilot/pilot.h"

namespace outsize::pilot {
namespace {

constexpr std::size_t kLayers = 6, kExperts = 3;

// At each of some layers an expert that the sample names, each with a weight of its own.
class Walk {
 public:
  explicit Walk(const PilotOptions& options) : pilot(table(), options) {
    for (ExtentId id = 0; id < kLayers * kExperts; ++id) {
      op(50, {id});
      pilot.on_birth(id, kMiB);
    }
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      sample();
      for (std::size_t layer = 0; layer < kLayers; ++layer) run(layer);
      pilot.on_step(now_ += 1000);
    }
  }
  // The next step has begun, and has run its first op.
  void begin() {
    sample();
    op(1, {});
  }
  std::vector<Upcoming> upcoming() const {
    std::vector<Upcoming> out(64);
    out.resize(pilot.upcoming(out));
    return out;
  }
  PilotPredictor pilot;

 private:
  static const ExtentTable& table() {
    static const ExtentTable kTable = [] {
      ExtentTable table;
      table.ensure(kLayers * kExperts);
      for (ExtentId id = 0; id < kLayers * kExperts; ++id) table[id].bytes = kMiB;
      return table;
    }();
    return kTable;
  }
  void sample() {
    std::vector<std::int64_t> encoded{77, kLayers};
    for (std::size_t& expert : path_) {
      expert = mix(number_, 1) % kExperts;
      ++number_;
      encoded.push_back(static_cast<std::int64_t>(expert));
    }
    pilot.on_sample(encoded);
  }
  void run(std::size_t layer) {
    op(1, {});
    op(2, {static_cast<ExtentId>(layer * kExperts + path_[layer])});
    op(3, {});
  }
  void op(std::uint64_t kind, const std::vector<ExtentId>& extents) { pilot.on_op({kind, extents, false, now_ += 1'000'000}); }

  std::array<std::size_t, kLayers> path_{};
  std::size_t number_ = 0;
  Nanos now_ = 0;
};

TEST(PilotPlanBlocks, FewBuffersLookLessFarAhead) {
  Walk all({.buffers = 0}), one({.buffers = 1}), two({.buffers = 2});
  for (Walk* const walk : {&all, &one, &two}) {
    walk->steps(30);
    walk->begin();
  }
  const std::size_t foreseen = all.upcoming().size();
  EXPECT_EQ(one.upcoming().size(), foreseen) << "who is judged is judged by all that he foresees";
  EXPECT_EQ(all.pilot.to_bring(all.upcoming()), foreseen);
  EXPECT_LT(one.pilot.to_bring(one.upcoming()), two.pilot.to_bring(two.upcoming()));
  EXPECT_LT(two.pilot.to_bring(two.upcoming()), foreseen);
}

TEST(PilotPlanBlocks, AllOfABlockIsWantedAtItsBegin) {
  Walk each({}), whole({.block = 64});
  for (Walk* const walk : {&each, &whole}) {
    walk->steps(30);
    walk->begin();
  }
  const std::vector<Upcoming> by_op = each.upcoming(), by_block = whole.upcoming();
  ASSERT_EQ(by_op.size(), by_block.size());
  ASSERT_FALSE(by_op.empty());
  for (std::size_t i = 0; i < by_op.size(); ++i) {
    EXPECT_EQ(by_op[i].extent, by_block[i].extent);
    EXPECT_LE(by_block[i].position, by_op[i].position);
    EXPECT_LE(by_block[i].in, by_op[i].in);
    EXPECT_GE(by_block[i].in, 0);
    EXPECT_EQ(whole.pilot.next_use(by_block[i].extent), by_block[i].position);
  }
}

// What a block brings before its op wants it is no surprise.
TEST(PilotPlanBlocks, WholeBlocksAreNoReasonForMorePlans) {
  Walk each({}), whole({.block = 64});
  for (Walk* const walk : {&each, &whole}) walk->steps(60);
  EXPECT_LE(whole.pilot.score().plans, each.pilot.score().plans);
}

TEST(PilotPlanBlocks, WithoutAskingAgainThereIsAPlanForEachSample) {
  constexpr int kSteps = 30;
  Walk run({.requery = false});
  run.steps(kSteps);
  EXPECT_GE(run.pilot.score().plans, std::uint64_t{kSteps});
  EXPECT_LE(run.pilot.score().plans, std::uint64_t{kSteps} + 2);
}

}  // namespace
}  // namespace outsize::pilot
