// What an op needs does not depend on how small storages are packed.
#include <gtest/gtest.h>

#include "core/check/checker.h"
#include "core/engine/engine.h"
#include "planners/registry/policies.h"

namespace outsize {
namespace {

constexpr Bytes kLarge = 10 * kMiB;

// One op that reads a large extent and two small storages, and bears a third one. Says whether it
// was refused.
class Packed {
 public:
  explicit Packed(Bytes budget) : checker_(budget) {
    Policy made = make_policy("ondemand", table_);
    EngineOptions options;
    options.budget = budget;
    engine_ = std::make_unique<Engine>(options, std::move(made.predictor), std::move(made.planner), table_);
  }

  // `packing`: the extent of each of the three.
  bool refused(const std::vector<ExtentId>& packing) {
    alloc(0, kLarge, false);
    for (ExtentId id : packing) {
      if (id >= opened_) alloc(id, kSharedBytes, true), opened_ = id + 1;
    }
    const std::vector<OperandRef> operands = {{0, Access::kRead}, {packing[0], Access::kRead}, {packing[1], Access::kRead}};
    Input input;
    input.kind = Input::Kind::kOpBegin;
    input.operands = operands;
    if (step(input)) return true;
    input = Input{};
    input.kind = Input::Kind::kTouch;
    input.extent = packing[2];
    const bool refused = step(input);
    input = Input{};
    input.kind = Input::Kind::kOpEnd;
    step(input);
    return refused;
  }
  Bytes need() const { return engine_->stats().need_peak; }

 private:
  void alloc(ExtentId id, Bytes bytes, bool shared) {
    Input input;
    input.kind = Input::Kind::kAlloc;
    input.extent = id;
    input.bytes = bytes;
    input.flag = shared;
    EXPECT_FALSE(step(input));
  }
  bool step(const Input& input) {
    commands_.clear();
    const Outcome outcome = engine_->step(input, commands_);
    EXPECT_EQ(checker_.observe(input, commands_), outcome);
    for (const std::string& violation : checker_.violations()) ADD_FAILURE() << violation;
    bool refused = false;
    for (const Command& command : commands_) refused = refused || command.kind == Command::Kind::kRefuse;
    EXPECT_EQ(refused, outcome == Outcome::kWait);
    return refused;
  }

  ExtentTable table_;
  std::unique_ptr<Engine> engine_;
  check::Checker checker_;
  Commands commands_;
  ExtentId opened_ = 1;
};

const std::vector<std::vector<ExtentId>> kPackings = {{1, 1, 1}, {1, 2, 1}, {1, 2, 2}, {1, 2, 3}};

TEST(EngineNeed, IsTheSameForEveryPacking) {
  for (const auto& packing : kPackings) {
    Packed run(kGiB);
    EXPECT_FALSE(run.refused(packing));
    EXPECT_EQ(run.need(), kLarge + 3 * kSharedBytes);
  }
}

TEST(EngineNeed, IsEnoughForEveryPackingAndAByteLessForNone) {
  for (const auto& packing : kPackings) {
    EXPECT_FALSE(Packed(kLarge + 3 * kSharedBytes).refused(packing));
    if (packing.back() == 3) continue;  // would not even be born there
    EXPECT_TRUE(Packed(kLarge + 3 * kSharedBytes - 1).refused(packing));
  }
}

}  // namespace
}  // namespace outsize
