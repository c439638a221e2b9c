// Foresight against the truth: a program is written down first, so that every next use is known,
// and then shown to the predictor event by event.
#include "predictors/repeat/repeat.h"

#include <algorithm>
#include <array>
#include <random>

#include <gtest/gtest.h>

namespace outsize::repeat {
namespace {

struct Event {
  enum class Kind : std::uint8_t { kOp, kBirth, kDeath, kStep };
  Kind kind = Kind::kOp;
  SiteId site = 0;
  bool in_backward = false;
  ExtentId extent = kNoExtent;
  std::vector<ExtentId> uses;
};

// A training loop over some layers: parameters from the start, activations born in forward and
// dead after backward, gradients born in each backward and dead at the next step's start, optimizer
// state born in the first step.
class Loop {
 public:
  explicit Loop(int layers = 4) {
    for (int i = 0; i < layers; ++i) {
      parameters_.push_back(birth());
      all_.push_back(i);
    }
    states_.assign(all_.size(), kNoExtent);
  }
  void step() { step(all_); }
  // `order`: the layers that the step runs; `extra`: an op at its start that no other step has.
  void step(const std::vector<int>& order, bool extra = false) {
    for (ExtentId grad : grads_) death(grad);
    grads_.clear();
    if (extra) op(999, {});
    std::vector<ExtentId> activations;
    op(1, {});
    activations.push_back(birth());
    for (int layer : order) {
      op(10 + site(layer), {parameters_[at(layer)], activations.back()});
      activations.push_back(birth());
    }
    for (std::size_t i = order.size(); i-- > 0;) {
      op(100 + site(order[i]), {parameters_[at(order[i])], activations[i], activations[i + 1]}, true);
      grads_.push_back(birth());
      death(activations[i + 1]);
    }
    death(activations[0]);
    for (std::size_t i = 0; i < grads_.size(); ++i) {
      const int layer = order[order.size() - 1 - i];
      ExtentId& state = states_[at(layer)];
      std::vector<ExtentId> uses{parameters_[at(layer)], grads_[i]};
      if (state != kNoExtent) uses.push_back(state);
      op(1000 + site(layer), uses);
      if (state == kNoExtent) state = birth();
    }
    events_.push_back({Event::Kind::kStep, 0, false, kNoExtent, {}});
  }
  const std::vector<Event>& events() const { return events_; }
  ExtentId parameter(int layer) const { return parameters_[at(layer)]; }

 private:
  static std::size_t at(int layer) { return static_cast<std::size_t>(layer); }
  static SiteId site(int layer) { return static_cast<SiteId>(layer); }
  void op(SiteId site, std::vector<ExtentId> uses, bool in_backward = false) {
    events_.push_back({Event::Kind::kOp, site, in_backward, kNoExtent, std::move(uses)});
  }
  ExtentId birth() {  // ids are used again, last in first out, as a driver does
    ExtentId id = next_id_;
    if (free_.empty()) {
      ++next_id_;
    } else {
      id = free_.back();
      free_.pop_back();
    }
    events_.push_back({Event::Kind::kBirth, 0, false, id, {}});
    return id;
  }
  void death(ExtentId id) {
    events_.push_back({Event::Kind::kDeath, 0, false, id, {}});
    free_.push_back(id);
  }

  std::vector<Event> events_;
  std::vector<int> all_;
  std::vector<ExtentId> parameters_, grads_, states_, free_;
  ExtentId next_id_ = 0;
};

// Ops from event `from` until `id` is used, 0 where the next op uses it; -1 if it dies unused.
int true_distance(const std::vector<Event>& events, std::size_t from, ExtentId id) {
  int ops = 0;
  for (std::size_t i = from; i < events.size(); ++i) {
    const Event& event = events[i];
    if (event.kind == Event::Kind::kDeath && event.extent == id) return -1;
    if (event.kind != Event::Kind::kOp) continue;
    if (std::find(event.uses.begin(), event.uses.end(), id) != event.uses.end()) return ops;
    ++ops;
  }
  return -1;
}

struct Score {
  int right = 0, wrong = 0, listed = 0;
};

// Shows the events to a predictor; from step `judged` on, compares what it foresees after each op
// with the truth, for every extent alive.
Score show(const std::vector<Event>& events, int judged, RepeatPredictor& predictor) {
  Score score;
  std::vector<ExtentId> alive;
  int step = 0;
  Nanos now = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    switch (event.kind) {
      case Event::Kind::kOp: predictor.on_op({event.site, event.uses, event.in_backward, now += 1000}); break;
      case Event::Kind::kBirth:
        predictor.on_birth(event.extent, 100);
        alive.push_back(event.extent);
        break;
      case Event::Kind::kDeath:
        predictor.on_death(event.extent, 100);
        std::erase(alive, event.extent);
        break;
      case Event::Kind::kStep:
        predictor.on_step(now += 1000);
        ++step;
        break;
    }
    const bool next_is_op = i + 1 < events.size() && events[i + 1].kind == Event::Kind::kOp;
    if (step < judged || !next_is_op) continue;
    for (ExtentId id : alive) {
      const int truth = true_distance(events, i + 1, id);
      if (truth < 0) continue;
      const Position foreseen = predictor.next_use(id) - predictor.position();
      ++(foreseen == static_cast<Position>(truth) ? score.right : score.wrong);
    }
    std::array<Upcoming, 64> coming;
    const std::size_t count = predictor.upcoming(coming);
    for (std::size_t k = 0; k < count; ++k) {
      EXPECT_EQ(coming[k].position, predictor.next_use(coming[k].extent));
      if (k > 0) {
        EXPECT_GE(coming[k].position, coming[k - 1].position);
      }
      score.listed += coming[k].position - predictor.position() ==
                      static_cast<Position>(true_distance(events, i + 1, coming[k].extent));
    }
  }
  return score;
}

TEST(Repeat, AfterTwoStepsEveryNextUseIsForeseen) {
  Loop loop;
  for (int i = 0; i < 6; ++i) loop.step();
  RepeatPredictor predictor;
  // The last step is not judged: the truth ends with it. Step 2 has seen one with optimizer state.
  std::vector<Event> events = loop.events();
  const Score score = show(events, 2, predictor);
  EXPECT_EQ(score.wrong, 0);
  EXPECT_GT(score.right, 300);
  EXPECT_GT(score.listed, 300);
}

TEST(Repeat, AnExtraOpCostsNoForesight) {
  Loop loop;
  for (int i = 0; i < 5; ++i) loop.step({0, 1, 2, 3}, i == 3);
  RepeatPredictor predictor;
  const Score score = show(loop.events(), 2, predictor);
  EXPECT_GT(score.right, 8 * score.wrong);
}

// Four layers in the middle are left out in one step: two ops later the place is found again, and
// what the next few ops use is foreseen as before.
TEST(Repeat, AChangedPathIsTakenUpAgain) {
  Loop loop(12);
  for (int i = 0; i < 3; ++i) loop.step();
  const std::size_t before = loop.events().size();
  loop.step({0, 1, 2, 3, 8, 9, 10, 11});
  RepeatPredictor predictor;
  const std::vector<Event>& events = loop.events();
  (void)show({events.begin(), events.begin() + static_cast<std::ptrdiff_t>(before)}, 99, predictor);
  int right = 0, wrong = 0, ops = 0;
  for (std::size_t i = before; i < events.size(); ++i) {
    const Event& event = events[i];
    if (event.kind == Event::Kind::kBirth) predictor.on_birth(event.extent, 100);
    if (event.kind == Event::Kind::kDeath) predictor.on_death(event.extent, 100);
    if (event.kind != Event::Kind::kOp) continue;
    predictor.on_op({event.site, event.uses, event.in_backward, 0});
    if (++ops < 7 || ops > 12) continue;  // layers 9, 10 and 11, and their way back
    for (int layer = 9; layer < 12; ++layer) {
      const int truth = true_distance(events, i + 1, loop.parameter(layer));
      if (truth < 0 || truth > 4) continue;
      const Position foreseen = predictor.next_use(loop.parameter(layer)) - predictor.position();
      ++(foreseen == static_cast<Position>(truth) ? right : wrong);
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(right, 6);
}

// No step is known yet: what forward bore comes back in reverse order of birth.
TEST(Repeat, TheFirstBackwardIsForeseenInReverse) {
  RepeatPredictor predictor;
  for (ExtentId id = 0; id < 8; ++id) {
    predictor.on_op({id + 1, {}, false, 0});
    predictor.on_birth(id, 100);
  }
  std::array<Upcoming, 16> coming;
  EXPECT_EQ(predictor.upcoming(coming), 0U) << "forward: nothing is known";
  EXPECT_LT(predictor.next_use(7), predictor.next_use(0)) << "the oldest comes back last";
  const ExtentId last[] = {7};
  predictor.on_op({100, last, true, 0});
  ASSERT_EQ(predictor.upcoming(coming), 7U);
  for (ExtentId i = 0; i < 7; ++i) EXPECT_EQ(coming[i].extent, 6 - i);
}

// Planners keep what next_use said when an extent was used, until they are told to ask anew.
TEST(Repeat, WithoutAnEarlierStepTheLongestUnusedIsForeseenLast) {
  constexpr ExtentId kExtents = 10;
  RepeatPredictor predictor;
  std::vector<Position> kept(kExtents, 0);
  std::vector<int> used(kExtents, -1);
  for (int op = 0; op < 500; ++op) {
    const ExtentId id[] = {static_cast<ExtentId>(op * op % 97) % kExtents};
    predictor.on_op({static_cast<SiteId>(op), id, false, op});
    used[id[0]] = op;
    kept[id[0]] = predictor.next_use(id[0]);
    const bool anew = predictor.take_rekeyed();
    for (ExtentId each = 0; each < kExtents; ++each) {
      if (anew && used[each] >= 0) kept[each] = predictor.next_use(each);
    }
    for (ExtentId a = 0; a < kExtents; ++a) {
      for (ExtentId b = 0; b < kExtents; ++b) {
        if (used[b] < 0 || used[b] >= used[a]) continue;
        ASSERT_GT(kept[b], kept[a]) << "op " << op;
      }
    }
  }
}

// A step of cells in an order of their own: where a weight stood in the last step says nothing of when it
// is used in this one.
TEST(Repeat, WhereStepsGoOtherwiseAllTheTimeFarUsesAreNotForeseen) {
  std::mt19937 random(5);
  RepeatPredictor predictor;
  std::array<Upcoming, 64> coming;
  std::size_t far = 0;
  for (int step = 0; step < 6; ++step) {
    for (int cell = 0; cell < 200; ++cell) {
      const auto kind = static_cast<ExtentId>(random() % 8);
      const ExtentId weight[] = {kind};
      for (SiteId op = 0; op < 4; ++op) predictor.on_op({100 * kind + op, weight, false, 0});
      const std::size_t count = predictor.upcoming(coming);
      for (std::size_t i = 0; i < count && step > 1; ++i) far += coming[i].position - predictor.position() > 100;
    }
    predictor.on_step(0);
  }
  EXPECT_EQ(far, 0U);
}

// One op in fifty is another in every step: what lies far beyond is still farther off than what is near.
TEST(Repeat, BeyondItsReachNothingIsNear) {
  RepeatPredictor predictor;
  constexpr ExtentId kNear = 1, kFar = 2, kStay = 3;
  for (int step = 0; step < 4; ++step) {
    for (SiteId op = 0; op < 1'000; ++op) {
      std::vector<ExtentId> uses;
      if (op % 100 == 99) uses = {kNear};
      if (op == 960) uses = {kFar};
      if (op == 900) uses = {kStay};
      predictor.on_op({op % 50 == 25 ? 10'000 * static_cast<SiteId>(step + 1) + op : op, uses, false, 0});
      if (op == 10) predictor.on_birth(kFar, 100);
      if (op == 960) predictor.on_death(kFar, 100);
      if (step < 2 || op < 20 || op > 600) continue;
      ASSERT_GT(predictor.next_use(kFar), predictor.next_use(kNear)) << "op " << op;
      ASSERT_GT(predictor.next_use(kStay), predictor.next_use(kNear)) << "op " << op;
    }
    predictor.on_step(0);
  }
}

TEST(Repeat, DemandIsWhatIsBornLessWhatDies) {
  RepeatPredictor predictor;
  auto step = [&](bool look) {
    for (ExtentId id = 0; id < 6; ++id) {
      predictor.on_op({id + 1, {}, false, 1000 * (id + 1)});
      predictor.on_birth(id, 100);
      if (id % 2 == 1) predictor.on_death(id, 100);
      if (!look) continue;
      const Bytes left = 100 * ((5 - static_cast<Bytes>(id)) / 2 + 1) - (id == 5 ? 100 : 0);
      EXPECT_EQ(predictor.demand_within(1'000'000), left) << "after op " << id;
    }
    for (ExtentId id = 0; id < 6; id += 2) predictor.on_death(id, 100);
    predictor.on_step(10'000);
  };
  step(false);
  step(false);
  for (int i = 0; i < 2; ++i) step(true);
}

TEST(Repeat, PositionsNeverGoBack) {
  Loop loop;
  loop.step();
  loop.step({0, 1});
  loop.step({3, 2, 1, 0}, true);
  loop.step();
  RepeatPredictor predictor;
  Position last = 0;
  for (const Event& event : loop.events()) {
    if (event.kind == Event::Kind::kBirth) predictor.on_birth(event.extent, 100);
    if (event.kind == Event::Kind::kDeath) predictor.on_death(event.extent, 100);
    if (event.kind == Event::Kind::kOp) predictor.on_op({event.site, event.uses, event.in_backward, 0});
    if (event.kind == Event::Kind::kStep) {
      predictor.on_step(0);
      EXPECT_GT(predictor.position(), last) << "a step must move on";
      last = predictor.position();
    }
  }
}

// A step too short to be remembered must still say that positions moved.
TEST(Repeat, AShortStepRekeys) {
  RepeatPredictor predictor;
  predictor.on_op({1, {}, false, 0});
  predictor.on_step(0);
  EXPECT_TRUE(predictor.take_rekeyed());
  EXPECT_FALSE(predictor.take_rekeyed());
}

}  // namespace
}  // namespace outsize::repeat
