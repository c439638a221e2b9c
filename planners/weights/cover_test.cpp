// Selections worked out by hand, and against the same rule carried out without its shortcuts.
#include "planners/weights/cover.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "planners/weights/weights_test_rig.h"

namespace outsize::weights {
namespace {

// Gaps of weights, each of an extent and a version of its own, that return.
class Case {
 public:
  explicit Case(std::vector<Bytes> more) { cycle.more = std::move(more); }
  Cycle::Gap& gap(Bytes bytes, std::uint32_t first, std::uint32_t count) {
    const auto number = static_cast<std::uint32_t>(cycle.gaps.size());
    return cycle.gaps.emplace_back(Cycle::Gap{bytes, first, count, cycle.versions++, kNoGap, number, true, true, true});
  }
  // The numbers of the gaps taken.
  std::string taken(Bytes memory, const CoverOptions& options = {}, Bytes alive = 0) {
    cover.select(cycle, alive, memory, options);
    std::string text;
    for (std::uint32_t number = 0; number < cycle.gaps.size(); ++number) {
      if (cover.away(number)) text += (text.empty() ? "" : " ") + std::to_string(number);
    }
    return text;
  }
  Cycle cycle;
  Cover cover;
};

TEST(WeightsCover, TakesWhatCoversMostUntilEverythingFits) {
  Case c({20, 22, 24, 22, 20});
  c.gap(10, 1, 3);  // covers 2 + 4 + 2 of what is over 20, then nothing is left
  c.gap(3, 1, 3);   // covers 2 + 3 + 2
  c.gap(10, 2, 1);  // covers 4
  EXPECT_EQ(c.taken(24), "");
  EXPECT_EQ(c.taken(20), "0");
  EXPECT_EQ(c.cover.kept(), (std::vector<Bytes>{20, 12, 14, 12, 20}));
  EXPECT_EQ(c.cover.overflow(), 0);
  EXPECT_EQ(c.taken(20, {}, 2), "0");
  EXPECT_EQ(c.cover.overflow(), 2) << "the first and the last op lie in no gap";
}

TEST(WeightsCover, ALateOpLeavesTheRestToTheNextBest) {
  Case c({20, 26, 26, 20});
  c.gap(4, 1, 2);
  c.gap(4, 1, 1);
  c.gap(4, 2, 1);
  EXPECT_EQ(c.taken(20), "0 1 2");
  EXPECT_EQ(c.taken(22), "0");
  EXPECT_TRUE(c.cover.written(0));
  EXPECT_FALSE(c.cover.written(1));
}

// What comes back and has to be written costs two transfers. What never changes, or dies, costs one.
TEST(WeightsCover, ATransferLessIsWorthTwiceTheCover) {
  Case c({10, 16, 16, 16, 10});
  c.gap(6, 1, 3);
  c.gap(6, 1, 2).version = 0;
  c.gap(6, 3, 1).returns = false;
  EXPECT_EQ(c.taken(10), "1 2");
  c.cycle.gaps[1].version = 1;
  EXPECT_EQ(c.taken(10), "0");
}

// One write serves all gaps with the same bytes: the second gap of such an extent covers 4 for one
// transfer and goes before gap 2, which covers 6 for two.
TEST(WeightsCover, TheSecondGapOfAVersionIsCheaper) {
  Case c({10, 14, 14, 14, 10, 14, 12, 10});
  c.gap(4, 1, 3);
  c.gap(4, 5, 1);
  c.gap(4, 5, 2);
  EXPECT_EQ(c.taken(10), "0 2");
  c.cycle.gaps[1].owner = 0;
  c.cycle.gaps[1].version = c.cycle.gaps[0].version;
  EXPECT_EQ(c.taken(10), "0 1 2");
  EXPECT_EQ(c.taken(10, {.solver = Solver::kGreedy}), "0 2") << "an extent leaves once";
}

TEST(WeightsCover, SettingsSayWhatMayLeave) {
  Case c({10, 20, 20, 10});
  c.gap(4, 1, 2);
  c.gap(4, 1, 2).changed = false;
  c.gap(4, 1, 2).lasts = false;
  EXPECT_EQ(c.taken(10), "0 1 2");
  EXPECT_EQ(c.taken(10, {.solver = Solver::kSingle}), "1");
  EXPECT_EQ(c.cover.overflow(), 6);
  EXPECT_EQ(c.taken(10, {.weights_only = true}), "0 1");
}

// A gap goes on past the step's end; at the begin of a step it has another number.
TEST(WeightsCover, AGapAroundTheStepsEnd) {
  Case c({16, 10, 10, 16});
  Cycle::Gap head = c.gap(0, 0, 1);
  c.gap(6, 3, 2).twin = 0;
  EXPECT_EQ(c.taken(10), "0 1") << "both numbers";
  EXPECT_EQ(c.cover.kept(), (std::vector<Bytes>{10, 10, 10, 10}));
  EXPECT_EQ(head.bytes, 0);
}

// More ops than slots: what is selected still fits at every op.
TEST(WeightsCover, ALongStepIsLookedAtInSlots) {
  Case c(std::vector<Bytes>(5000, 100));
  for (std::uint32_t i = 0; i < 40; ++i) c.gap(10, 100 * i, 2500);
  c.taken(70);
  EXPECT_EQ(c.cover.overflow(), 0);
  EXPECT_LE(*std::max_element(c.cover.kept().begin(), c.cover.kept().end()), 70);
  EXPECT_GE(*std::max_element(c.cover.kept().begin(), c.cover.kept().end()), 60) << "and not much more leaves";
}

// The rule, op by op, every candidate looked at anew each time.
std::string plainly(const Cycle& cycle, Bytes memory, Solver solver) {
  std::vector<Bytes> over;
  for (const Bytes more : cycle.more) over.push_back(more - memory);
  const std::size_t ops = over.size();
  std::vector<bool> taken(cycle.gaps.size()), written(cycle.versions), left(cycle.gaps.size());
  for (;;) {
    std::size_t best = cycle.gaps.size();
    Bytes best_covered = 0, best_price = 1;
    for (std::size_t i = 0; i < cycle.gaps.size(); ++i) {
      const Cycle::Gap& gap = cycle.gaps[i];
      if (taken[i] || (solver == Solver::kGreedy && left[gap.owner]) || (solver == Solver::kSingle && gap.changed)) continue;
      Bytes covered = 0;
      for (std::size_t k = 0; k < gap.count; ++k) {
        covered += std::clamp<Bytes>(over[(gap.first + k) % ops], 0, gap.bytes);
      }
      const Bytes price = gap.returns + (gap.version != 0 && !written[gap.version]);
      if (covered == 0) continue;
      const Bytes mine = covered * best_price, other = best_covered * price;
      if (best < cycle.gaps.size() && (mine < other || (mine == other && covered <= best_covered))) continue;
      best = i;
      best_covered = covered;
      best_price = price;
    }
    if (best == cycle.gaps.size()) break;
    const Cycle::Gap& gap = cycle.gaps[best];
    taken[best] = written[gap.version] = left[gap.owner] = true;
    for (std::size_t k = 0; k < gap.count; ++k) over[(gap.first + k) % ops] -= gap.bytes;
  }
  std::string text;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (taken[i]) text += (text.empty() ? "" : " ") + std::to_string(i);
  }
  return text;
}

TEST(WeightsCover, ItsShortcutsChangeNothing) {
  TestRandom random(test_seed(11));
  int taken = 0;
  for (int round = 0; round < 400; ++round) {
    Case c({});
    const auto ops = static_cast<std::uint32_t>(random.between(3, round % 4 == 0 ? 200 : 40));  // gaps cover whole blocks
    for (std::uint32_t op = 0; op < ops; ++op) c.cycle.more.push_back(random.between(50, 150));
    const std::int64_t gaps = random.between(1, 30);
    for (std::int64_t i = 0; i < gaps; ++i) {
      const auto first = static_cast<std::uint32_t>(random.between(0, ops - 1));
      Cycle::Gap& gap = c.gap(random.between(1, 20), first, static_cast<std::uint32_t>(random.between(1, ops - 1)));
      gap.returns = random.between(0, 3) > 0;
      gap.changed = random.between(0, 1) > 0;
      if (random.between(0, 2) == 0) gap.version = 0;
      else if (i > 0 && random.between(0, 2) == 0) gap.version = c.cycle.gaps[static_cast<std::size_t>(random.between(0, i - 1))].version;
      if (i > 0 && random.between(0, 2) == 0) gap.owner = c.cycle.gaps[static_cast<std::size_t>(random.between(0, i - 1))].owner;
    }
    for (const Solver solver : kSolvers) {
      const std::string expected = plainly(c.cycle, 80, solver);
      ASSERT_EQ(c.taken(80, {.solver = solver}), expected) << "round " << round << ", " << name_of(solver);
      taken += !expected.empty();
    }
  }
  EXPECT_GT(taken, 800);
}

}  // namespace
}  // namespace outsize::weights
