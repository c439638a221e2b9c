// What backward returns to: which gradient is made next where some are added up and others not, and where it ends.
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/chooser_test_rig.h"
#include "predictors/pilot/pilot.h"

namespace outsize::pilot {
namespace {

constexpr unsigned kCellsSeed = 20261127;
constexpr int kSteps = 120;

// Steps of cells in any order, each of some kind with a weight of its own. Nothing is told of the order. A kind's gradient is
// added up from the second time on.
class Cells {
 public:
  Cells() : pilot_(table_, {}) {
    table_.ensure(kKinds);
    for (ExtentId id = 0; id < kKinds; ++id) {
      table_[id].bytes = kMiB;
      pilot_.on_birth(id, kMiB);
    }
  }
  // Of ops that come after a gradient that was not added up.
  Tally step() {
    std::vector<ExtentId> kinds;
    const std::uint32_t first = next_;
    for (std::uint32_t cells = 12 + random_() % 12; cells > 0; --cells) {
      kinds.push_back(random_() % 4 == 0 ? random_() % kKinds : random_() % 4);  // some come seldom
      op(kCell, {kinds.back()});
      ++next_;  // it makes a node
    }
    op(kLoss, {0});
    Tally tally;
    std::map<ExtentId, int> times;
    bool judged = false;
    for (auto i = static_cast<std::uint32_t>(kinds.size()); i-- > 0;) {
      const bool right = op(kCellBackward, {kinds[i]}, first + i);
      if (judged) tally.add(right);
      judged = times[kinds[i]]++ == 0;
      if (!judged) op(kAdd, {kinds[i]}, 0, true);
    }
    op(kUpdate, {0});
    pilot_.on_step(now_ += 1000);
    return tally;
  }

 private:
  static constexpr ExtentId kKinds = 32;
  static constexpr SiteId kCell = 100, kLoss = 60, kCellBackward = 200, kAdd = 300, kUpdate = 50;

  // Whether it was said.
  bool op(SiteId site, const std::vector<ExtentId>& extents, std::uint32_t running = 0, bool backward = false) {
    pilot_.foresee(plan_, 2);
    const NodeId said = plan_.nodes().size() > 1 ? plan_.nodes()[1] : kNobody;
    pilot_.on_op({site, extents, backward || running != 0, now_ += 1'000'000, {}, graph_place(next_, running)});
    pilot_.foresee(plan_, 1);
    return plan_.nodes()[0] == said;
  }

  ExtentTable table_;
  PilotPredictor pilot_;
  Plan plan_;
  std::mt19937 random_{kCellsSeed};
  std::uint32_t next_ = 1;
  Nanos now_ = 0;
};

// That gradients of a kind were nearly always added up, and what came after that, says nothing of the first. The second half is
// judged.
TEST(PilotReturning, AfterAGradientThatIsNotAddedUpComesThatOfWhatWasMadeLast) {
  Cells cells;
  Tally tally;
  for (int step = 0; step < kSteps; ++step) {
    const Tally of_step = cells.step();
    if (step >= kSteps / 2) tally.add(of_step);
  }
  EXPECT_GT(tally.choices, 200) << "seed " << kCellsSeed;
  EXPECT_GT(tally.share(), 0.9) << tally.right << " of " << tally.choices << ", seed " << kCellsSeed;
}

// Sequences, each of a head of so many tensors and then cells in any order. Backward ends with the head of the first; it has
// met heads of most sizes, and of many never as the last. Told is what it says of an end after a head's last op that was no end
// before, where several things have come after it.
Tally step_of_sequences(World& world) {
  constexpr Token kLoss = 2, kUpdate = 3, kHead = 4, kCell = 10, kCellBackward = 20, kHeadBackward = 100, kHeadLast = 1000;
  constexpr std::uint32_t kOfHeads = 1;  // kind
  std::vector<std::pair<Token, Token>> made;  // by what, and what backward returns to it with
  const auto make = [&](Token token, Token backward) {
    world.go(token);
    world.make();
    made.emplace_back(token, backward);
  };
  for (int sequence = 0; sequence < 8; ++sequence) {
    make(kHead, kHeadBackward + static_cast<Token>(world.any(60)));
    for (int cells = 2 + world.any(3); cells > 0; --cells) {
      const auto kind = static_cast<Token>(world.any(6));
      make(kCell + kind, kCellBackward + kind);
    }
  }
  world.go(kLoss);
  for (auto each = made.rbegin(); each != made.rend(); ++each) {
    world.go(each->second, true);
    world.return_to(each->first);
    if (each->first == kHead) world.go(kHeadLast + each->second, true, kOfHeads);
  }
  Tally tally;
  const bool judged = world.ways() > 1 && !world.came_before(kUpdate);
  const bool right = world.go(kUpdate);
  if (judged) tally.add(right);
  world.end_step();
  return tally;
}

// Whatever backward's last op is: there is nothing left to return to.
TEST(PilotReturning, BackwardEndsAlsoAfterAnOpThatNeverWasItsLast) {
  World world;
  Tally tally;
  for (int step = 0; step < kSteps; ++step) tally.add(step_of_sequences(world));
  EXPECT_GT(tally.choices, 15) << "seed " << kSeed;
  EXPECT_GT(tally.share(), 0.8) << tally.right << " of " << tally.choices << ", seed " << kSeed;
}

}  // namespace
}  // namespace outsize::pilot
