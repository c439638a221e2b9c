// What backward returns to: which gradient is made next where some are added up and others not, and where it ends.
#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/chooser.h"
#include "predictors/pilot/pilot.h"

namespace outsize::pilot {
namespace {

constexpr unsigned kSeed = 20261127;
constexpr int kSteps = 120;

struct Tally {
  int choices = 0, right = 0;
  void add(bool is_right) {
    ++choices;
    right += is_right ? 1 : 0;
  }
  double share() const { return choices == 0 ? 0 : static_cast<double>(right) / choices; }
};

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
  std::mt19937 random_{kSeed};
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
    if (step < kSteps / 2) continue;
    tally.choices += of_step.choices;
    tally.right += of_step.right;
  }
  EXPECT_GT(tally.choices, 200) << "seed " << kSeed;
  EXPECT_GT(tally.share(), 0.9) << tally.right << " of " << tally.choices << ", seed " << kSeed;
}

// Sequences, each of a head of so many tensors and then cells in any order. Backward ends with the head of the first; it has
// met heads of most sizes, and of many never as the last.
class Sequences {
 public:
  // Of an end after a head's last op that was no end before, where several things have come after it.
  Tally step() {
    std::vector<std::pair<Token, Token>> made;  // by what, and what backward returns to it with
    for (int sequence = 0; sequence < 8; ++sequence) {
      const Token tensors = random_() % 60;
      make(made, kHead, kHeadBackward + tensors);
      for (std::uint32_t cells = 2 + random_() % 3; cells > 0; --cells) {
        const Token kind = random_() % 6;
        make(made, kCell + kind, kCellBackward + kind);
      }
    }
    go(kLoss, false);
    for (auto each = made.rbegin(); each != made.rend(); ++each) {
      const ThingId thing = network_.graph_node(network_.node(each->first, false));
      go(each->second, true);
      network_[running_].returns_to = thing;
      instances_.pop(thing);
      if (each->first == kHead) go(kHeadLast + each->second, true);
    }
    const NodeId update = network_.node(kUpdate, false);
    const std::vector<Way>& ways = network_[running_].ways;
    const bool ended = std::any_of(ways.begin(), ways.end(), [&](const Way& way) { return way.to == update; });
    const bool judged = ways.size() > 1 && !ended;
    Tally tally;
    const bool right = go(kUpdate, false);
    if (judged) tally.add(right);
    go(kStepEnds, false);
    instances_.clear();
    ++step_;
    return tally;
  }

 private:
  static constexpr Token kStepEnds = 1, kLoss = 2, kUpdate = 3, kHead = 4, kCell = 10;
  static constexpr Token kCellBackward = 20, kHeadBackward = 100, kHeadLast = 1000;

  void make(std::vector<std::pair<Token, Token>>& made, Token token, Token backward) {
    go(token, false);
    instances_.push(network_.graph_node(running_), {op_, kNobody, false, true});
    made.emplace_back(token, backward);
  }
  // Whether it was said.
  bool go(Token token, bool backward) {
    const NodeId node = network_.node(token, backward);
    network_.is_of(node, token >= kHeadLast ? static_cast<std::uint32_t>(kHeadLast) : static_cast<std::uint32_t>(token), 0);
    const Standing standing{network_, instances_, trail_, sample_, running_};
    const bool said = chooser_.choose(standing).to == node;
    chooser_.learn(standing, node);
    network_.pass(running_, node, step_);
    if (const ClassId choice = network_.class_of(network_[node]); choice != kNobody) trail_.enter(choice, node);
    running_ = node;
    instances_.run(node);
    ++op_;
    return said;
  }

  Network network_;
  Chooser chooser_;
  Instances instances_;
  Trail trail_;
  Sample sample_;
  std::mt19937 random_{kSeed};
  NodeId running_ = network_.node(kStepEnds, false);
  std::uint64_t step_ = 1, op_ = 0;
};

// Whatever backward's last op is: there is nothing left to return to.
TEST(PilotReturning, BackwardEndsAlsoAfterAnOpThatNeverWasItsLast) {
  Sequences sequences;
  Tally tally;
  for (int step = 0; step < kSteps; ++step) {
    const Tally of_step = sequences.step();
    tally.choices += of_step.choices;
    tally.right += of_step.right;
  }
  EXPECT_GT(tally.choices, 15) << "seed " << kSeed;
  EXPECT_GT(tally.share(), 0.8) << tally.right << " of " << tally.choices << ", seed " << kSeed;
}

}  // namespace
}  // namespace outsize::pilot
