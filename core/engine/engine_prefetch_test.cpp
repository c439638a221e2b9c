// The account of what planners bring ahead of need: used, for nothing, or neither yet.
#include "core/engine/engine_test_rig.h"
#include "planners/ahead/ahead.h"
#include "planners/ondemand/ondemand.h"

namespace outsize {
namespace {

// Brings what the test tells it to, once, and keeps what it was told.
class ToldPlanner : public ahead::AheadPlanner {
 public:
  ToldPlanner(const ExtentTable& table, const Predictor& predictor, std::vector<ExtentId>& bring, PrefetchAccount& told)
      : AheadPlanner(table, predictor), bring_(bring), told_(told) {}
  const char* name() const override { return "told"; }
  void plan(const PlanState& state, std::vector<Decision>& out) override {
    told_ = state.foreseen;
    for (const ExtentId id : bring_) out.push_back({Decision::Kind::kPrefetch, Decision::Reason::kForeseenUse, id});
    bring_.clear();
  }

 private:
  std::vector<ExtentId>& bring_;
  PrefetchAccount& told_;
};

class EnginePrefetch : public testing::Test {
 protected:
  EnginePrefetch() {
    rig.spilled(9, 1);
    rig.hint(9, true), rig.hint(9, false);  // from now on planners are asked
  }
  void foresee(ExtentId id, Bytes bytes) {
    rig.spilled(id, bytes);
    bring.push_back(id);
    EXPECT_EQ(rig.plan(now += 1'000'000'000), "go fetch:" + std::to_string(id));
  }
  // "used 1, for nothing 2, open 3", as the planner is told.
  std::string account() {
    rig.plan(now += 1'000'000'000);
    EXPECT_EQ(told.open, rig.engine().foreseen().open);
    return "used " + std::to_string(told.hit) + ", for nothing " + std::to_string(told.missed) + ", open " +
           std::to_string(told.open);
  }

  std::vector<ExtentId> bring;
  PrefetchAccount told;
  Nanos now = 0;
  EngineRig rig{100, [this](const ExtentTable& table) {
    auto predictor = std::make_unique<ondemand::NoPredictor>();
    auto planner = std::make_unique<ToldPlanner>(table, *predictor, bring, told);
    return Policy{std::move(predictor), std::move(planner)};
  }};
};

TEST_F(EnginePrefetch, WhatAnOpUsesIsCountedOnce) {
  foresee(1, 60);
  EXPECT_EQ(account(), "used 0, for nothing 0, open 60") << "on its way";
  rig.read_done(1);
  EXPECT_EQ(account(), "used 0, for nothing 0, open 60") << "here";
  for (int i = 0; i < 2; ++i) rig.op(0, {{1}, {}}), rig.end(0);
  EXPECT_EQ(account(), "used 60, for nothing 0, open 0");
  rig.death(1);
  EXPECT_EQ(account(), "used 60, for nothing 0, open 0");
}

TEST_F(EnginePrefetch, WhatARawAccessWaitsForIsUsed) {
  foresee(1, 60);
  EXPECT_EQ(rig.fault(1, false), "go promote:1");
  EXPECT_EQ(account(), "used 60, for nothing 0, open 0") << "on its way";
  rig.read_done(1);
  rig.alloc(0, 2, 60);
  rig.death(2);
  EXPECT_EQ(account(), "used 60, for nothing 0, open 0") << "it left, or did not: it was used";
  foresee(3, 30);
  rig.read_done(3);
  rig.fault(3, true);
  EXPECT_EQ(account(), "used 90, for nothing 0, open 0") << "here, and changed";
}

TEST_F(EnginePrefetch, WhatLeavesUnusedCameForNothing) {
  foresee(1, 60);
  rig.read_done(1);
  EXPECT_EQ(rig.alloc(0, 2, 80), "wait evict:1 grant:t0");
  EXPECT_EQ(account(), "used 0, for nothing 60, open 0");
  EXPECT_EQ(rig.engine().stats().prefetch_missed, 60);
}

TEST_F(EnginePrefetch, WhatDiesUnusedCameForNothingHereOrOnItsWay) {
  foresee(1, 30);
  foresee(2, 40);
  rig.read_done(1);
  rig.death(1);
  EXPECT_EQ(account(), "used 0, for nothing 30, open 40");
  rig.death(2);
  EXPECT_EQ(account(), "used 0, for nothing 70, open 0");
  rig.read_done(2);
  EXPECT_EQ(account(), "used 0, for nothing 70, open 0") << "once";
}

TEST_F(EnginePrefetch, WhatCannotBeReadCameForNothing) {
  foresee(1, 60);
  rig.read_done(1, true);
  EXPECT_EQ(rig.engine().foreseen().missed, 60);
  EXPECT_EQ(rig.engine().foreseen().open, 0);
}

// Who asked for it is no planner's doing, right or wrong.
TEST_F(EnginePrefetch, WhatTheProgramAskedForIsNotInThePlannersAccount) {
  for (const ExtentId id : {1U, 2U}) rig.spilled(id, 30), rig.hint(id, true);
  EXPECT_EQ(rig.plan(now += 1'000'000'000), "go fetch:1 fetch:2");
  rig.read_done(1), rig.read_done(2);
  rig.op(0, {{1}, {}}), rig.end(0);
  rig.death(2);
  EXPECT_EQ(account(), "used 0, for nothing 0, open 0");
  const EngineStats& stats = rig.engine().stats();
  EXPECT_EQ(stats.prefetched, 60);
  EXPECT_EQ(stats.prefetch_hit, 30);
  EXPECT_EQ(stats.prefetch_missed, 30);
}

}  // namespace
}  // namespace outsize
