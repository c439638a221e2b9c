#include "predictors/pilot/step_uses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace outsize::pilot {
namespace {

constexpr Bytes kMost = static_cast<Bytes>(StepUses::kMax * sizeof(StepUses::Use)) + 1024;  // whatever is used

using Found = std::vector<std::pair<ExtentId, ThingId>>;

Found alive(const StepUses& uses, std::uint64_t op) {
  Found found;
  for (const StepUses::Use& use : uses.of(op)) {
    if (uses.alive(use)) found.emplace_back(use.id, use.thing);
  }
  return found;
}

TEST(PilotStepUses, AreFoundByOp) {
  StepUses uses;
  EXPECT_TRUE(alive(uses, 10).empty());
  uses.use(10, 3, 30);
  uses.use(10, 1, kNobody);
  uses.use(12, 3, 30);
  EXPECT_EQ(alive(uses, 10), (Found{{3, 30}, {1, kNobody}}));
  EXPECT_TRUE(alive(uses, 9).empty());
  EXPECT_TRUE(alive(uses, 11).empty());
  EXPECT_EQ(alive(uses, 12), (Found{{3, 30}}));
  EXPECT_TRUE(alive(uses, 13).empty());
}

TEST(PilotStepUses, TheDeadAndEarlierStepsAreForgotten) {
  StepUses uses;
  uses.use(10, 3, 30);
  uses.use(10, 4, 40);
  uses.die(3);
  uses.die(7);
  EXPECT_EQ(alive(uses, 10), (Found{{4, 40}}));
  uses.use(10, 3, 31);  // another one in its place, born by the same op
  EXPECT_EQ(alive(uses, 10), (Found{{4, 40}, {3, 31}}));
  uses.clear();
  EXPECT_TRUE(alive(uses, 10).empty());
  uses.use(30, 3, 31);
  EXPECT_EQ(alive(uses, 30), (Found{{3, 31}})) << "that one of its name died in an earlier step";
  uses.die(3);
  EXPECT_TRUE(alive(uses, 30).empty());
}

TEST(PilotStepUses, WhereNoStepEndsTheOlderAreForgotten) {
  StepUses uses;
  std::uint64_t op = 1;
  for (; op <= 3 * StepUses::kMax; ++op) {
    uses.use(op, op % 8, 5);
    if (op % 8 != 3) uses.die(op % 8);
  }
  EXPECT_TRUE(uses.of(1).empty());
  EXPECT_TRUE(alive(uses, op - 1).empty()) << "it died";
  const std::uint64_t latest = op - 1 - (op - 1 - 3) % 8;
  EXPECT_EQ(alive(uses, latest), (Found{{3, 5}}));
  EXPECT_LE(uses.bytes(), kMost);
}

TEST(PilotStepUses, OfAnOpOfVeryManyUsesTheNewerAreKept) {
  StepUses uses;
  uses.use(1, 9, 90);
  for (std::size_t i = 1; i <= 3 * StepUses::kMax; ++i) {
    uses.use(2, static_cast<ExtentId>(i), 30);
    if (i % (StepUses::kMax / 8) != 0) continue;
    ASSERT_GE(uses.of(2).size(), std::min(i, StepUses::kMax / 2)) << i;
    ASSERT_EQ(uses.of(2).back().id, i);
  }
  EXPECT_TRUE(uses.of(1).empty());
  EXPECT_LE(uses.bytes(), kMost);
}

}  // namespace
}  // namespace outsize::pilot
