// What a sample says reaches the predictor, and the planner hears where that changed what is foreseen.
#include "core/engine/engine_test_rig.h"
#include "planners/ahead/ahead.h"
#include "planners/planner_test_rig.h"

namespace outsize {
namespace {

struct Heard {
  std::vector<std::vector<std::int64_t>> samples;
  int rekeyed = 0;
};

class Listener final : public ProphetBase {
 public:
  explicit Listener(Heard& heard) : heard_(heard) {}
  void on_sample(std::span<const std::int64_t> sample) override {
    heard_.samples.emplace_back(sample.begin(), sample.end());
    rekeyed_ = !sample.empty();
  }
  bool take_rekeyed() override { return std::exchange(rekeyed_, false); }
  Bytes demand_within(Nanos) const override { return 0; }

 private:
  Nanos time_until(Position) const override { return 0; }
  Bytes demand_before(Position) const override { return 0; }
  Heard& heard_;
  bool rekeyed_ = false;
};

class CountingPlanner final : public ahead::AheadPlanner {
 public:
  CountingPlanner(const ExtentTable& table, const Predictor& predictor, Heard& heard)
      : AheadPlanner(table, predictor), heard_(heard) {}
  const char* name() const override { return "counting"; }
  void on_rekey() override { ++heard_.rekeyed; }

 private:
  Heard& heard_;
};

TEST(EngineSample, IsToldWhereTheEngineIsWatching) {
  Heard heard;
  EngineRig rig(100, [&](const ExtentTable& table) {
    auto predictor = std::make_unique<Listener>(heard);
    auto planner = std::make_unique<CountingPlanner>(table, *predictor, heard);
    return Policy{std::move(predictor), std::move(planner)};
  });
  const std::int64_t sample[] = {77, 2, 5, -6};
  EXPECT_EQ(rig.sample(sample), "go");
  EXPECT_TRUE(heard.samples.empty()) << "everything fits easily: nothing is predicted";
  rig.op(0, {});
  rig.alloc(0, 1, 60);
  rig.end(0);
  EXPECT_EQ(rig.sample(sample), "go");
  EXPECT_EQ(heard.samples, (std::vector<std::vector<std::int64_t>>{{77, 2, 5, -6}}));
  EXPECT_EQ(heard.rekeyed, 1);
  EXPECT_EQ(rig.sample({}), "go");
  EXPECT_EQ(heard.samples.size(), 2U);
  EXPECT_EQ(heard.rekeyed, 1) << "nothing was foreseen anew";
}

// Most predictors make nothing of it.
TEST(EngineSample, ChangesNothingForOtherPolicies) {
  EngineRig rig(100, "lookahead");
  rig.op(0, {});
  rig.alloc(0, 1, 60);
  rig.end(0);
  const std::int64_t sample[] = {77, 0};
  EXPECT_EQ(rig.sample(sample), "go");
}

}  // namespace
}  // namespace outsize
