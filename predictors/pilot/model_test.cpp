// What is learnt comes back as it was, and whatever bytes are read do no harm.
#include "predictors/pilot/model.h"

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/mix.h"
#include "predictors/pilot/pilot.h"

namespace outsize::pilot {
namespace {

// A program of weights, activations and a path that the sample says, or chance does.
class Program {
 public:
  explicit Program(std::uint64_t seed, std::uint64_t kinds = 0) : chance_(seed), kinds_(kinds) { table_.ensure(256); }
  const ExtentTable& table() const { return table_; }

  void step(PilotPredictor& pilot, std::size_t layers = 5) {
    for (; weights_ < 4; ++weights_) {
      op(pilot, weights_, {}, false);
      birth(pilot, weights_);
    }
    std::vector<std::int64_t> sample{77, static_cast<std::int64_t>(layers)};
    std::vector<ExtentId> path;
    for (std::size_t i = 0; i < layers; ++i) path.push_back(static_cast<ExtentId>(random() % 4));
    for (const ExtentId layer : path) sample.push_back(layer);
    pilot.on_sample(sample);
    for (std::size_t i = 0; i < layers; ++i) {
      op(pilot, 10 + path[i], {path[i]}, false);
      birth(pilot, static_cast<ExtentId>(100 + i));
    }
    for (std::size_t i = layers; i-- > 0;) {
      op(pilot, 20 + path[i], {path[i], static_cast<ExtentId>(100 + i)}, true);
      pilot.on_death(static_cast<ExtentId>(100 + i), kMiB);
      op(pilot, 30, {path[i]}, false);
    }
    pilot.on_step(now_ += 1000);
    ask(pilot);
  }

 private:
  std::uint64_t random() { return chance_ = mix(chance_, 1); }
  void op(PilotPredictor& pilot, std::uint64_t kind, std::vector<ExtentId> extents, bool backward) {
    pilot.on_op({kind + kinds_, extents, backward, now_ += 1'000'000});
  }
  void birth(PilotPredictor& pilot, ExtentId id) {
    table_[id].bytes = kMiB;
    pilot.on_birth(id, kMiB);
  }
  static void ask(PilotPredictor& pilot) {
    std::array<Upcoming, 32> out;
    pilot.upcoming(out);
    pilot.demand_within(1'000'000'000);
    for (ExtentId id = 0; id < 128; ++id) pilot.next_use(id);
  }

  ExtentTable table_;
  std::uint64_t chance_;
  std::uint64_t kinds_;
  Nanos now_ = 0;
  ExtentId weights_ = 0;
};

std::string taught(std::uint64_t seed, int steps, std::uint64_t kinds = 0) {
  Program program(seed, kinds);
  PilotPredictor pilot(program.table(), {.early = true});
  for (int i = 0; i < steps; ++i) program.step(pilot);
  return pilot.learnt();
}

struct Foreseen {
  std::uint64_t foreseen = 0, ops = 0;
  Predictor::Recognized recognized;
};

Foreseen first_steps(const std::string& model, int steps = 4, std::uint64_t kinds = 0, std::uint64_t seed = 99) {
  Program program(seed, kinds);
  PilotPredictor pilot(program.table(), {.early = true});
  if (!model.empty()) {
    const Status begun = pilot.begin_with(model);
    EXPECT_TRUE(begun.ok()) << begun.error().message();
  }
  for (int i = 0; i < steps; ++i) program.step(pilot);
  return {pilot.score().foreseen, pilot.score().ops, pilot.recognized()};
}

// What is read of it, under which a few steps then run.
bool accepted(const std::string& model) {
  Program program(5);
  PilotPredictor pilot(program.table(), {.plan_ops_max = 2048, .judge = false});
  if (!pilot.begin_with(model)) return false;
  for (int i = 0; i < 4; ++i) program.step(pilot, 7);
  return !pilot.learnt().empty();
}

TEST(PilotModel, SameLearningGivesTheSameBytesAndTheyComeBack) {
  const std::string model = taught(1, 40);
  EXPECT_EQ(model, taught(1, 40));
  EXPECT_NE(model, taught(2, 40));
  const ExtentTable table;
  PilotPredictor pilot(table, {});
  ASSERT_TRUE(pilot.begin_with(model).ok());
  EXPECT_EQ(pilot.learnt(), model);
  const auto facts = model_facts(model);
  ASSERT_TRUE(facts.ok());
  EXPECT_GT(facts.value().nodes, 10U);
  EXPECT_GT(facts.value().contexts, 20U);
  EXPECT_EQ(facts.value().features, 2U) << "its own and that of the sample before";
}

TEST(PilotModel, ARunThatBeginsWithOneForeseesFromItsFirstSteps) {
  const std::string model = taught(1, 60);
  std::uint64_t with = 0, without = 0, ops = 0, judged = 0, known = 0;
  for (std::uint64_t seed = 90; seed < 110; ++seed) {  // paths are drawn
    const Foreseen taught_run = first_steps(model, 4, 0, seed), blank_run = first_steps("", 4, 0, seed);
    EXPECT_EQ(taught_run.ops, blank_run.ops);
    EXPECT_FALSE(taught_run.recognized.given_up);
    EXPECT_GT(taught_run.recognized.known * 2, taught_run.recognized.ops);
    known += taught_run.recognized.known;
    judged += taught_run.recognized.ops;
    with += taught_run.foreseen;
    without += blank_run.foreseen;
    ops += taught_run.ops;
  }
  // Weights have their names once the first step is over: it is foreseen in part.
  EXPECT_GT(with * 5, ops * 2);
  EXPECT_GT(with, without + ops / 5);
  EXPECT_GT(known * 10, judged * 6);  // two thirds of what was drawn
}

std::size_t nodes_after(int steps) {
  Program program(3);
  PilotPredictor pilot(program.table(), {.early = true});
  for (int i = 0; i < steps; ++i) program.step(pilot);
  return pilot.facts().nodes;
}

TEST(PilotModel, OneOfAnotherNetworkIsGivenUpAndDoesNoHarm) {
  constexpr std::uint64_t kOther = 1000;
  const Foreseen other = first_steps(taught(1, 60, kOther), 40), without = first_steps("", 40);
  EXPECT_TRUE(other.recognized.given_up);
  EXPECT_LT(other.recognized.known * 4, other.recognized.ops);
  EXPECT_GE(other.foreseen + other.ops / 50, without.foreseen);
  // Its tables are gone: what is saved then is this program's.
  Program program(3);
  PilotPredictor pilot(program.table(), {.early = true});
  ASSERT_TRUE(pilot.begin_with(taught(1, 60, kOther)).ok());
  for (int i = 0; i < 3; ++i) program.step(pilot);
  EXPECT_EQ(pilot.facts().nodes, nodes_after(3)) << "and what it saw while the model was judged is not lost";
  EXPECT_GT(pilot.facts().kinds, 0U);
}

TEST(PilotModel, LearningGoesOnFromWhatWasLearnt) {
  Program program(8);
  PilotPredictor pilot(program.table(), {.early = true, .judge = false});
  ASSERT_TRUE(pilot.begin_with(taught(1, 40, 1000)).ok());
  for (int i = 0; i < 40; ++i) program.step(pilot);
  const std::string both = pilot.learnt();
  EXPECT_FALSE(first_steps(both).recognized.given_up);
  EXPECT_FALSE(first_steps(both, 4, 1000).recognized.given_up);
}

TEST(PilotModel, WhateverBytesAreReadDoNoHarm) {
  const std::string model = taught(1, 3);
  ASSERT_TRUE(accepted(model));
  for (std::size_t size = 0; size < model.size(); ++size) EXPECT_FALSE(accepted(model.substr(0, size))) << size;
  EXPECT_FALSE(accepted(model + '\0'));
  std::map<std::string, int> refusals;
  int taken = 0;
  for (std::size_t at = 0; at < model.size(); ++at) {
    std::string bad = model;
    bad[at] = static_cast<char>(static_cast<unsigned char>(bad[at]) ^ (at % 9 == 8 ? 0xffU : 1U << (at % 9)));
    taken += accepted(bad) ? 1 : 0;
    if (const auto facts = model_facts(bad); !facts.ok()) ++refusals[facts.error().what];
  }
  EXPECT_GT(taken, 50) << "the tables are tried, not the checks alone";
  EXPECT_GT(refusals.size(), 8U);
}

TEST(PilotModel, KnowsWhatOpsDoWithMemory) {
  const ExtentTable table;
  PilotPredictor pilot(table, {.early = true});
  Nanos now = 0;
  const auto op = [&](std::uint64_t kind, const char* name) {
    pilot.on_op({with_idiom_class(kind, idiom_class_named(name)), {}, false, now += 1000});
  };
  for (int step = 0; step < 3; ++step) {
    op(7, "aten::convolution");  // 0 1 0 1 1 2
    op(8, "aten::mm");           // 0 0 0 1 2 0
    op(9, "aten::nothing");
    pilot.on_step(now += 1000);
  }
  const auto facts = model_facts(pilot.learnt());
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts.value().base, BaseType::kConvolution);
  EXPECT_EQ(facts.value().idioms, (std::array<std::uint64_t, kIdioms>{0, 1, 0, 2, 3, 2}));
  pilot.forget_network();
  EXPECT_EQ(pilot.facts().base, BaseType::kPlain);
}

TEST(PilotModel, OfAnotherVersionItIsRefusedByName) {
  std::string model = taught(1, 3);
  ++model[0];
  const auto facts = model_facts(model);
  ASSERT_FALSE(facts.ok());
  EXPECT_EQ(facts.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(facts.error().what, "the pilot's model has version 9.3, and this outsize reads 8.3");
}

TEST(PilotModel, NumbersBeyondTheirBoundsAreRefused) {
  constexpr float kNan = __builtin_nanf("");
  for (const float bad : {-0.5F, 1.5F, kNan, __builtin_inff()}) {
    ModelWriter out;
    out.real(bad);
    const std::string bytes = out.take();
    ModelReader in(bytes);
    in.real(0, 1, "a share");
    EXPECT_FALSE(in.ok());
    EXPECT_NE(in.error().message().find("a share"), std::string::npos);
  }
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, UINT64_MAX}) {
    ModelWriter out;
    out.number(value);
    const std::string bytes = out.take();
    ModelReader in(bytes);
    EXPECT_EQ(in.any(), value);
    EXPECT_TRUE(in.ok() && in.at_end());
  }
}

}  // namespace
}  // namespace outsize::pilot
