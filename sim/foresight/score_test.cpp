// Paths whose foresight is known by hand: what each control can know of them and what nobody can.
#include "sim/foresight/score.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/foresight/predicted.h"
#include "sim/foresight/stage.h"
#include "sim/random.h"

namespace outsize::sim::foresight {
namespace {

using Kind = Action::Kind;
constexpr int kWeights = 8;
constexpr ObjectId kAlways = 0, kOptimizer = 1;  // weights of what always comes, and of what ends a step
constexpr SiteId kInit = 100, kAhead = 200, kWay = 300, kLast = 400;

// Programs whose weights are born in the first step; later ones work on them.
class Written {
 public:
  Written() {
    program_.threads.resize(1);
    program_.objects = kWeights;
    for (ObjectId weight = 0; weight < kWeights; ++weight) {
      begin(kInit + weight, {});
      add(Kind::kBirth).object = weight;
      program_.threads[0].back().bytes = kMiB;
      add(Kind::kOpEnd);
    }
    step();
  }
  void op(SiteId site, std::vector<ObjectRef> operands) {
    begin(site, std::move(operands));
    add(Kind::kOpEnd);
  }
  void sample(std::int64_t value) { add(Kind::kSample).sample = {7, 1, value}; }
  void step() { add(Kind::kStep); }
  // Ops that always come, then one on the weight of that way.
  void way(int which) {
    for (SiteId i = 0; i < 12; ++i) op(kAhead + i, {{kAlways}});
    op(kWay, {{static_cast<ObjectId>(2 + which)}});
  }
  const Program& program() const { return program_; }
  Program& program() { return program_; }

 private:
  Action& add(Kind kind) {
    Action& action = program_.threads[0].emplace_back();
    action.kind = kind;
    return action;
  }
  void begin(SiteId site, std::vector<ObjectRef> operands) {
    Action& action = add(Kind::kOpBegin);
    action.site = site;
    action.operands = std::move(operands);
    add(Kind::kWork).duration = 1000;
  }
  Program program_;
};

struct Shares {
  double next = 0, whole = 0, precision = 0, recall = 0;
};

Shares shares(const std::string& name, const Program& program, std::size_t from_step) {
  Result<Path> path = read_path(program);
  EXPECT_TRUE(path.ok());
  Result<Score> score = judge(name, program, *path, from_step);
  EXPECT_TRUE(score.ok()) << name;
  const auto share = [](auto part, auto all) { return all == 0 ? -1 : static_cast<double>(part) / static_cast<double>(all); };
  return {share(score->right, score->choices), share(score->whole, score->windows), share(score->both, score->foreseen),
          share(score->both, score->used)};
}

// Two ways by turns; the sample tells which.
Written turns(int steps) {
  Written written;
  for (int step = 0; step < steps; ++step) {
    written.sample(step % 2);
    written.way(step % 2);
    written.step();
  }
  return written;
}

Written at_random(int steps, int ways, bool tells) {
  Written written;
  Random random(5);
  for (int step = 0; step < steps; ++step) {
    const int which = static_cast<int>(random.below(static_cast<std::uint64_t>(ways)));
    written.sample(tells ? which : 0);
    written.way(which);
    written.step();
  }
  return written;
}

TEST(PathForesight, APathIsReadAsItIs) {
  const Written written = turns(10);
  Result<Path> path = read_path(written.program());
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(path->steps(), 11u);
  EXPECT_EQ(path->ops.size(), 8u + 10 * 13);
  EXPECT_EQ(path->windows.size(), 11u);  // the first step, without samples, is one
  EXPECT_EQ(path->windows[1].first, 8u);
  EXPECT_TRUE(path->windows[1].ends_step);
  // The ops that always come are a block, whose way parts, and each way is one.
  const Place before = path->ops[8 + 11];
  EXPECT_TRUE(path->is_choice(before));
  EXPECT_EQ(path->blocks[path->block_of[before]].tokens.size(), 12u);
  EXPECT_FALSE(path->is_choice(path->ops[8 + 12]));
  const Dependent dependent = path_dependent(*path);
  EXPECT_EQ(dependent.count, 2u);
  EXPECT_EQ(dependent.bytes, 2 * kMiB);
}

TEST(PathForesight, TheOracleIsAlwaysRight) {
  const Written turning = turns(20), random = at_random(60, 4, false);
  for (const Program* program : {&turning.program(), &random.program()}) {
    const Shares oracle = shares("oracle", *program, 1);
    EXPECT_EQ(oracle.next, 1);
    EXPECT_EQ(oracle.whole, 1);
    EXPECT_EQ(oracle.precision, 1);
    EXPECT_EQ(oracle.recall, 1);
  }
}

// What came last comes never, and what came as often as the other comes later: only who looks back beyond the step's begin
// knows of turns, or who looks at the sample.
TEST(PathForesight, TurnsAreKnownToWhoLooksBackFarEnough) {
  const Written written = turns(80);
  for (const char* wrong : {"last", "frequent", "markov1", "markov2", "repeat"}) {
    const Shares found = shares(wrong, written.program(), 41);
    EXPECT_EQ(found.next, 0) << wrong;
    EXPECT_EQ(found.whole, 0) << wrong;
    EXPECT_EQ(found.precision, 0) << wrong;
    EXPECT_EQ(found.recall, 0) << wrong;
  }
  for (const char* right : {"markov3", "pilot", "pilot:markov=off"}) {
    const Shares found = shares(right, written.program(), 41);
    EXPECT_EQ(found.next, 1) << right;
    EXPECT_EQ(found.whole, 1) << right;
    EXPECT_EQ(found.precision, 1) << right;
    EXPECT_EQ(found.recall, 1) << right;
  }
  // Its three ops back are all of what always comes.
  EXPECT_EQ(shares("deepum", written.program(), 41).next, 0);
}

TEST(PathForesight, WhereNothingTellsItIsChance) {
  const Written written = at_random(1200, 4, false);
  for (const char* name : {"pilot", "last", "frequent", "markov1", "markov3", "deepum", "repeat"}) {
    const Shares found = shares(name, written.program(), 201);
    EXPECT_NEAR(found.next, 0.25, 0.05) << name;
    EXPECT_NEAR(found.whole, found.next, 0.05) << name;
    EXPECT_NEAR(found.recall, found.whole, 1e-9) << name;
  }
  const Written told = at_random(400, 4, true);
  EXPECT_EQ(shares("pilot", told.program(), 201).next, 1);
  EXPECT_LT(shares("pilot:sample=off", told.program(), 201).next, 0.4);
}

// Two samples a step, and an op that ends each step: what that works on depends on no path.
TEST(PathForesight, WindowsAreComparedWithTheirLike) {
  Written written;
  for (int step = 0; step < 40; ++step) {
    for (const int part : {0, 1}) {
      written.sample(part);
      written.way(2 * part);
    }
    written.op(kLast, {{kOptimizer}});
    written.step();
  }
  Result<Path> path = read_path(written.program());
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(path->windows.size(), 1u + 80);
  EXPECT_FALSE(path->windows[1].ends_step);
  EXPECT_TRUE(path->windows[2].ends_step);
  EXPECT_EQ(path_dependent(*path).count, 0u);
  // The path is always the same, and there are two ways on from the ops that come twice.
  const Shares last = shares("last", written.program(), 21);
  EXPECT_EQ(last.next, 1);
  EXPECT_EQ(last.whole, 1);
  EXPECT_EQ(last.precision, -1);
  EXPECT_EQ(shares("markov2", written.program(), 21).next, 1);
  EXPECT_EQ(shares("repeat", written.program(), 21).whole, 1);
}

class Fed final : public Watcher {
 public:
  Fed(Forecaster& forecaster, const Path& path, bool asks) : forecaster_(forecaster), path_(path), asks_(asks) {}
  void op(const OpEvent& op) override {
    std::vector<Place> row;
    if (asks_) forecaster_.foresee(1, row);
    if (asks_) forecaster_.foresee(100, row);
    forecaster_.op(op, path_.ops[at_++]);
  }
  void birth(ExtentId id, Bytes bytes) override { forecaster_.birth(id, bytes); }
  void death(ExtentId id, Bytes bytes) override { forecaster_.death(id, bytes); }
  void sample(std::span<const std::int64_t> sample) override { forecaster_.sample(sample); }
  void step(Nanos now) override { forecaster_.step(now); }

 private:
  Forecaster& forecaster_;
  const Path& path_;
  bool asks_;
  std::size_t at_ = 0;
};

TEST(PathForesight, AskingThePilotChangesNothing) {
  const Written written = at_random(200, 4, true);
  Result<Path> path = read_path(written.program());
  ASSERT_TRUE(path.ok());
  std::vector<pilot::PilotPredictor::Score> scores;
  for (const bool asks : {false, true}) {
    Stage stage(written.program());
    Pilot forecaster(*path, stage.table(), {});
    Fed fed(forecaster, *path, asks);
    ASSERT_TRUE(stage.play(fed, nullptr));
    scores.push_back(forecaster.predictor().score());
  }
  EXPECT_GT(scores[0].choices.choices, 0u);
  EXPECT_EQ(scores[0].choices.choices, scores[1].choices.choices);
  EXPECT_EQ(scores[0].choices.right, scores[1].choices.right);
  EXPECT_EQ(scores[0].foreseen, scores[1].foreseen);
  EXPECT_EQ(scores[0].plans, scores[1].plans);
  EXPECT_EQ(scores[0].planned, scores[1].planned);
}

TEST(PathForesight, WhatMakesNoSenseIsRefused) {
  Written written = turns(4);
  Result<Path> path = read_path(written.program());
  ASSERT_TRUE(path.ok());
  EXPECT_FALSE(judge("nobody", written.program(), *path, 0).ok());
  EXPECT_FALSE(judge("last:x=1", written.program(), *path, 0).ok());
  EXPECT_FALSE(judge("pilot:x=1", written.program(), *path, 0).ok());
  EXPECT_FALSE(read_path(Written().program()).ok());  // one step
  written.program().threads.resize(2);
  EXPECT_FALSE(read_path(written.program()).ok());
}

}  // namespace
}  // namespace outsize::sim::foresight
