// The predictor against programs whose truth is known: every extent of every op, before it begins.
#include "predictors/deepum/deepum.h"

#include <array>

#include <gtest/gtest.h>

namespace outsize::deepum {
namespace {

using Ids = std::vector<ExtentId>;

class Program {
 public:
  explicit Program(const PredictorOptions& options = {}) : predictor_(options) {}
  // Before the op begins, what it uses is compared with what stood first in the chain.
  void op(SiteId site, const Ids& uses, bool in_backward = false) {
    std::array<Upcoming, 64> coming;
    const std::size_t count = predictor_.upcoming(coming);
    Ids next;
    for (std::size_t i = 0; i < count && coming[i].position == predictor_.position(); ++i) {
      next.push_back(coming[i].extent);
    }
    ++(next == uses ? right : wrong);
    for (const ExtentId id : uses) {
      if (next == uses) {
        EXPECT_EQ(predictor_.next_use(id), predictor_.position());
      }
    }
    predictor_.on_op({site, uses, in_backward, now += 1000});
  }
  // Ids are never used again: only names recur.
  ExtentId birth(Bytes bytes = 100) {
    predictor_.on_birth(next_id_, bytes);
    return next_id_++;
  }
  ExtentId adopt() { return next_id_++; }
  void death(ExtentId id, Bytes bytes = 100) { predictor_.on_death(id, bytes); }
  void forget_score() { right = wrong = 0; }
  DeepumPredictor& predictor() { return predictor_; }
  Ids coming(std::size_t limit = 64) {
    std::vector<Upcoming> out(limit);
    out.resize(predictor_.upcoming(out));
    Ids ids;
    for (const Upcoming& each : out) ids.push_back(each.extent);
    return ids;
  }

  int right = 0, wrong = 0;
  Nanos now = 0;

 private:
  DeepumPredictor predictor_;
  ExtentId next_id_ = 0;
};

// A training step over some layers that all look alike: one site for all forwards, one for all
// backwards. Weights tell them apart, and activations by how many are alive.
void train(Program& program, const Ids& weights) {
  Ids activations;
  program.op(1, {});
  activations.push_back(program.birth());
  for (const ExtentId weight : weights) {
    program.op(10, {weight, activations.back()});
    activations.push_back(program.birth());
  }
  program.op(2, {activations.back()}, true);
  ExtentId flow = program.birth();
  Ids grads;
  for (std::size_t i = weights.size(); i-- > 0;) {
    program.op(20, {weights[i], activations[i], flow}, true);
    grads.push_back(program.birth());
    const ExtentId next = program.birth();
    program.death(flow);
    program.death(activations[i + 1]);
    flow = next;
  }
  program.death(flow);
  program.death(activations[0]);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    program.op(30, {weights[weights.size() - 1 - i], grads[i]});
    program.death(grads[i]);
  }
}

TEST(Deepum, AfterTwoIterationsOfAStaticLoopEveryBlockIsForeseen) {
  Program program;
  Ids weights;
  for (int i = 0; i < 6; ++i) weights.push_back(program.adopt());
  train(program, weights);
  EXPECT_EQ(program.right, 1) << "nothing is known: only the op that uses nothing is as expected";
  train(program, weights);
  program.forget_score();
  for (int i = 0; i < 3; ++i) train(program, weights);
  EXPECT_EQ(program.wrong, 0);
  EXPECT_EQ(program.right, 3 * (1 + 6 + 1 + 6 + 6));
}

// Without chaining the next op is all that is foreseen.
TEST(Deepum, TheChainIsAsLongAsItsDegree) {
  for (const auto& [degree, chaining, expected] :
       {std::tuple{32U, true, Ids{1, 2, 3, 4, 0}}, {3U, true, Ids{1, 2, 3}}, {32U, false, Ids{1}}}) {
    PredictorOptions options;
    options.degree = degree;
    options.chaining = chaining;
    Program program(options);
    for (int i = 0; i < 5; ++i) program.adopt();
    for (int round = 0; round < 12; ++round) {
      for (ExtentId id = 0; id < 5; ++id) program.op(id, {id});
    }
    program.op(0, {0});
    EXPECT_EQ(program.coming(), expected) << degree << chaining;
  }
}

// a m x and b m y in turns: m is followed by x or y, and what came before m tells which.
TEST(Deepum, ABranchIsToldByWhatCameBefore) {
  Program program;
  enum : ExtentId { kA, kB, kM, kX, kY, kLast };
  for (ExtentId id = 0; id < kLast; ++id) program.adopt();
  auto path = [&](bool first) {
    const ExtentId begin = first ? kA : kB, end = first ? kX : kY;
    program.op(100 + begin, {begin});
    program.op(100 + kM, {kM});
    program.op(100 + end, {end});
  };
  for (const bool first : {true, false, true, true, false, false, true, false}) path(first);
  program.op(100 + kA, {kA});
  EXPECT_EQ(program.coming(2), (Ids{kM, kX}));
  program.op(100 + kM, {kM});
  program.op(100 + kX, {kX});
  program.op(100 + kB, {kB});
  EXPECT_EQ(program.coming(2), (Ids{kM, kY}));
}

// The branch not foreseen: what stood in the chain is no longer expected, and the chain starts anew.
TEST(Deepum, AWrongTurnIsForgottenAndOvercome) {
  Program program;
  for (int i = 0; i < 8; ++i) program.adopt();
  for (int round = 0; round < 4; ++round) {
    for (ExtentId id = 0; id < 8; ++id) program.op(id, {id});
  }
  program.op(0, {0});
  EXPECT_EQ(program.predictor().next_use(1), program.predictor().position());
  (void)program.predictor().take_rekeyed();
  program.op(99, {});  // never seen: nothing is foreseen after it
  EXPECT_TRUE(program.predictor().take_rekeyed());
  EXPECT_FALSE(program.predictor().take_rekeyed());
  for (ExtentId id = 0; id < 8; ++id) EXPECT_EQ(program.predictor().next_use(id), kNever);
  program.op(5, {5});
  EXPECT_EQ(program.coming(3), (Ids{6, 7, 0})) << "what followed it in other contexts";
}

// Ops without operands of their own recur three times a round, one or several in a row: the same execution ID, which only
// the context tells apart.
Program recurring(const PredictorOptions& options, int in_a_row) {
  Program program(options);
  for (int i = 0; i < 3; ++i) program.adopt();
  for (int round = 0; round < 5; ++round) {
    if (round == 2) program.forget_score();
    for (ExtentId id = 0; id < 3; ++id) {
      for (int i = 0; i < in_a_row; ++i) program.op(50, {});
      program.op(60 + id, {id});
    }
  }
  return program;
}

TEST(Deepum, AnExecutionIdThatRecurs) {
  constexpr PredictorOptions kPaper{.long_contexts = false};
  for (const PredictorOptions& options : {PredictorOptions{}, kPaper}) {
    const Program program = recurring(options, 1);
    EXPECT_EQ(program.wrong, 0);
    EXPECT_EQ(program.right, 18);
  }
  const Program five = recurring({}, 5), after_three = recurring(kPaper, 5);
  EXPECT_EQ(five.wrong, 0);
  EXPECT_EQ(five.right, 54);
  EXPECT_LT(after_three.right, 54);
}

// The site alone as execution ID: its table learns the blocks of all that share it, the latest first.
TEST(Deepum, WithoutOperandsInTheKeyOneTableServesThemAll) {
  PredictorOptions options;
  options.key_operands = 0;
  options.degree = 1;
  Program program(options);
  for (int i = 0; i < 4; ++i) program.adopt();
  for (int round = 0; round < 3; ++round) {
    program.op(1, {0, 1});
    program.op(2, {});
    program.op(1, {0, 2});
    program.op(2, {});
  }
  EXPECT_EQ(program.coming(), (Ids{0, 2, 1}));
}

TEST(Deepum, DemandIsWhatIsBornLessWhatDies) {
  Program program;
  const ExtentId weight = program.adopt();
  for (int round = 0; round < 4; ++round) {
    program.op(1, {weight});
    const ExtentId a = program.birth(100);
    if (round == 3) {
      // Still to come: 200 born, 100 dead, 50 born, all dead.
      EXPECT_EQ(program.predictor().demand_within(1'000'000), 200);
      Upcoming coming[2];
      ASSERT_EQ(program.predictor().upcoming(coming), 2U);
      EXPECT_EQ(coming[0].extent, a);
      EXPECT_EQ(coming[0].in, 1000);
      EXPECT_EQ(coming[0].demand, 0);
      EXPECT_EQ(coming[1].extent, weight);
      EXPECT_EQ(coming[1].in, 3000);
      EXPECT_EQ(coming[1].demand, 200);
      EXPECT_EQ(program.predictor().demand_within(999), 0);
    }
    program.op(2, {a});
    const ExtentId b = program.birth(200);
    program.death(a, 100);
    program.op(3, {});
    const ExtentId c = program.birth(50);
    program.death(b, 200);
    program.death(c, 50);
  }
}

// What an op bore in the first round and nobody let go is not born in the second: no room is asked for.
TEST(Deepum, WhatIsStillThereIsNotBornAgain) {
  Program program;
  const ExtentId weight = program.adopt(), other = program.adopt();
  ExtentId state = kNoExtent;
  for (int round = 0; round < 2; ++round) {
    program.op(1, {weight});
    if (round == 1) break;
    state = program.birth(700);
    program.op(2, {other});
    program.birth(30);
    program.op(3, {weight, other});
  }
  // Ops 2 and 3 are in sight. The running op may bear anew; the 30 bytes of op 2 are still there.
  EXPECT_EQ(program.predictor().demand_within(2000), 700);
  program.op(2, {other});
  program.op(3, {weight, other});
  EXPECT_EQ(program.predictor().demand_within(1'000'000), 0);
  program.death(state, 700);
  EXPECT_EQ(program.predictor().demand_within(1'000'000), 0) << "of its last run, which bore none";
}

// Extents of small storages do not name an op: their packing shifts from step to step.
TEST(Deepum, ShiftingSmallStoragesKeepTheChain) {
  Program program;
  const ExtentId weight = program.adopt(), other = program.adopt();
  ExtentId packed = program.birth(kSharedBytes);
  for (int round = 0; round < 6; ++round) {
    if (round == 2) program.forget_score();
    program.op(1, {weight});
    if (round % 2 == 1) {  // another op of the step, at times, begins a new one
      program.death(packed, kSharedBytes);
      packed = program.birth(kSharedBytes);
    }
    program.predictor().on_op({2, std::array{weight, packed}, false, program.now += 1000});
    program.op(3, {other});
  }
  EXPECT_EQ(program.wrong, 0);
}

// Ever new ops and extents: the tables reach their bounds and stay there.
TEST(Deepum, TablesAreBounded) {
  PredictorOptions options;
  options.executions = 200;
  options.records = 400;
  options.blocks = 300;
  DeepumPredictor predictor(options);
  Bytes at_bound = 0;
  std::uint64_t dice = 3;
  for (int i = 0; i < 60'000; ++i) {
    dice = mix(dice, 1);
    const std::array ids{static_cast<ExtentId>(dice % 500), static_cast<ExtentId>(500 + dice % 7)};
    predictor.on_op({dice >> 40, ids, false, i});
    if (i % 3 == 0) predictor.on_birth(1000 + dice % 50, 100);
    if (i % 5 == 0) predictor.on_death(1000 + dice % 50, 100);
    if (i == 20'000) at_bound = predictor.table_bytes();
  }
  EXPECT_GT(at_bound, 100'000);
  EXPECT_EQ(predictor.table_bytes(), at_bound);
}

// Once every op in its contexts and every extent was met, no table grows: nothing is allocated any more.
TEST(Deepum, AWarmLoopGrowsNothing) {
  DeepumPredictor predictor;
  Bytes warm = 0;
  for (int round = 0; round < 40; ++round) {
    for (ExtentId layer = 0; layer < 20; ++layer) {
      const std::array uses{layer, 20 + layer};
      predictor.on_op({layer, std::span(uses).first(layer == 0 ? 1 : 2), false, round});
      predictor.on_birth(21 + layer, 100);
    }
    for (ExtentId layer = 20; layer-- > 0;) {
      const std::array uses{layer, 21 + layer};
      predictor.on_op({100 + layer, uses, true, round});
      predictor.on_death(21 + layer, 100);
    }
    if (round == 2) warm = predictor.table_bytes();
    if (round > 2) {
      ASSERT_EQ(predictor.table_bytes(), warm) << round;
    }
  }
}

}  // namespace
}  // namespace outsize::deepum
