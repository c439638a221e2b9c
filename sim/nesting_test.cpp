// Composite ops: an op that runs many others, each bearing something that lives on, as an LSTM over
// a long sequence does. What inner ops bore may be touched raw by their caller, so it stays pinned,
// but not without bound: the whole may be larger than the budget.
#include <chrono>
#include <cstdio>

#include <gtest/gtest.h>

#include "sim/sim_driver.h"

namespace outsize::sim {
namespace {

// One op that bears and loses `inner` temporaries, in inner ops or itself.
Program temporaries(int inner, bool nested) {
  Program program;
  auto& actions = program.threads.emplace_back();
  auto add = [&](Action::Kind kind) -> Action& {
    actions.emplace_back().kind = kind;
    return actions.back();
  };
  add(Action::Kind::kOpBegin).site = 1;
  for (int i = 0; i < inner; ++i) {
    if (nested) add(Action::Kind::kOpBegin).site = 2;
    Action& action = add(Action::Kind::kBirth);
    action.object = program.objects++;
    action.bytes = kMiB;
    if (nested) add(Action::Kind::kOpEnd);
    add(Action::Kind::kDeath).object = program.objects - 1;
  }
  add(Action::Kind::kOpEnd);
  return program;
}

// One op around `inner` ops that each bear `bytes`; then it allocates once itself.
Program composite(int inner, Bytes bytes) {
  Program program;
  auto& actions = program.threads.emplace_back();
  auto add = [&](Action::Kind kind) -> Action& {
    actions.emplace_back().kind = kind;
    return actions.back();
  };
  auto birth = [&] {
    Action& action = add(Action::Kind::kBirth);
    action.object = program.objects++;
    action.bytes = bytes;
  };
  add(Action::Kind::kOpBegin).site = 1;
  for (int i = 0; i < inner; ++i) {
    Action& op = add(Action::Kind::kOpBegin);
    op.site = 2;
    if (i > 0) op.operands.push_back({program.objects - 1, Access::kRead});
    birth();
    add(Action::Kind::kWork).duration = 1000;
    add(Action::Kind::kOpEnd).flag = true;
  }
  birth();
  add(Action::Kind::kOpEnd).flag = true;
  return program;
}

TEST(Nesting, ACompositeMayBearMoreThanTheBudget) {
  for (const char* policy : {"lookahead", "ondemand", "deepum", "weights"}) {
    SimOptions options;
    options.budget = 400 * kMiB;
    options.policy = policy;
    const Program program = composite(100, 10 * kMiB);
    SimDriver driver(program, options);
    const SimResult result = driver.run();
    EXPECT_EQ(result.refused_budget, 0) << policy;
    EXPECT_LE(result.stats.need_peak, 200 * kMiB) << policy;
    for (const std::string& problem : result.problems) ADD_FAILURE() << policy << ": " << problem;
  }
}

// The caller of an allocating inner op writes to what it got: that must stay.
TEST(Nesting, WhatWasJustBornInsideIsAsPinnedAsTheCallersOwn) {
  SimOptions options;
  options.budget = 100 * kMiB;
  const Program program = composite(9, 10 * kMiB);
  SimDriver driver(program, options);
  EXPECT_EQ(driver.run().stats.evictions, 0);
  options.budget = 95 * kMiB;
  SimDriver tight(program, options);
  EXPECT_EQ(tight.run().refused_budget, 1);
}

// An extent born in an inner op long ago is its caller's own once the caller itself bears something
// small in it; whether before or after it was one of the latest.
TEST(Nesting, ASmallBirthOfItsOwnMakesItTheCallers) {
  for (const int before : {0, 30}) {
    Program program;
    auto& actions = program.threads.emplace_back();
    auto add = [&](Action::Kind kind) -> Action& {
      actions.emplace_back().kind = kind;
      return actions.back();
    };
    auto birth = [&](Bytes bytes, bool inside) {
      if (inside) add(Action::Kind::kOpBegin).site = 2;
      Action& action = add(Action::Kind::kBirth);
      action.object = program.objects++;
      action.bytes = bytes;
      if (inside) add(Action::Kind::kOpEnd);
    };
    add(Action::Kind::kOpBegin).site = 1;
    birth(60 * kMiB, true);
    for (int i = 0; i < before; ++i) birth(kMiB, true);
    add(Action::Kind::kShare).object = 0;
    for (int i = before; i < 30; ++i) birth(kMiB, true);
    birth(50 * kMiB, false);
    add(Action::Kind::kOpEnd);
    SimOptions options;
    options.budget = 100 * kMiB;
    SimDriver driver(program, options);
    const SimResult result = driver.run();
    EXPECT_EQ(result.refused_budget, 1) << before;
    EXPECT_EQ(result.stats.need_peak, (60 + 16 + 50) * kMiB) << before;
    for (const std::string& problem : result.problems) ADD_FAILURE() << problem;
  }
}

// What small storages need does not grow with the extents they lie in: an op whose operands lie in
// more than fit reaches them through raw accesses, and sees the right bytes.
TEST(Nesting, SmallOperandsInMoreExtentsThanFit) {
  for (const char* policy : {"lookahead", "ondemand", "deepum", "weights"}) {
    Program program;
    auto& actions = program.threads.emplace_back();
    auto add = [&](Action::Kind kind) -> Action& {
      actions.emplace_back().kind = kind;
      return actions.back();
    };
    for (int i = 0; i < 40; ++i) {
      Action& action = add(Action::Kind::kBirth);
      action.object = program.objects++;
      action.bytes = kSharedBytes;
      action.flag = true;
      add(Action::Kind::kShare).object = program.objects - 1;
    }
    for (int step = 0; step < 3; ++step) {
      Action& op = add(Action::Kind::kOpBegin);
      op.site = 1;
      for (ObjectId i = 0; i < 40; ++i) op.operands.push_back({i, i % 3 == 0 ? Access::kWrite : Access::kRead});
      add(Action::Kind::kOpEnd).flag = true;
      add(Action::Kind::kStep);
    }
    SimOptions options;
    options.policy = policy;
    options.budget = kSharedMax * kSharedBytes;
    SimDriver driver(program, options);
    const SimResult result = driver.run();
    EXPECT_EQ(result.refused_budget, 0);
    EXPECT_EQ(result.stats.need_peak, options.budget);
    EXPECT_GT(result.faults_in_ops, 0);
    for (const std::string& problem : result.problems) ADD_FAILURE() << problem;

    options.budget -= 1;
    SimDriver tight(program, options);
    EXPECT_EQ(tight.run().refused_budget, 3);
  }
}

long nanos_an_inner_op(const Program& program, int inner) {
  SimOptions options;
  options.budget = 1000 * kGiB;
  options.judge = false;
  SimDriver driver(program, options);
  const auto begin = std::chrono::steady_clock::now();
  driver.run();
  return static_cast<long>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count()) / inner;
}

// Measured generously: when entries piled up it was two hundred times this bound.
TEST(Nesting, TheCostOfAnInnerOpDoesNotGrow) {
  constexpr int kFew = 1000, kMany = 20'000;
  auto check = [&](const char* what, const Program& few, const Program& many) {
    nanos_an_inner_op(few, kFew);
    const long before = nanos_an_inner_op(few, kFew), after = nanos_an_inner_op(many, kMany);
    std::printf("[ measured ] %s: %ld ns an inner op among %d, %ld among %d\n", what, before, kFew, after, kMany);
    EXPECT_LT(after, 10 * before + 10'000) << what;
  };
  check("births that live on", composite(kFew, kMiB), composite(kMany, kMiB));
  check("temporaries of inner ops", temporaries(kFew, true), temporaries(kMany, true));
  check("temporaries of its own", temporaries(kFew, false), temporaries(kMany, false));
}

}  // namespace
}  // namespace outsize::sim
