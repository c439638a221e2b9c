// Small programs whose course is worked out by hand, one rule each.
#include "sim/simrd/simulation.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace outsize::sim::simrd {
namespace {

using Results = std::vector<ProgramBuilder::ResultSpec>;

class Script {
 public:
  Script& constant(std::string_view name, Bytes bytes) {
    return check(builder_.constant(name, bytes));
  }
  Script& call(const Results& results, const ProgramBuilder::Names& operands, Nanos compute) {
    return check(builder_.call(results, operands, compute));
  }
  Script& mutate(const ProgramBuilder::Names& operands, std::vector<std::int64_t> mutated,
                 Nanos compute) {
    return check(builder_.mutate(operands, mutated, compute));
  }
  Script& copy(std::string_view to, std::string_view from) {
    return check(builder_.copy(to, from));
  }
  Script& copy_from(std::string_view to, std::string_view from) {
    return check(builder_.copy_from(to, from));
  }
  Script& release(std::initializer_list<std::string_view> names) {
    for (std::string_view name : names) check(builder_.release(name));
    return *this;
  }
  Program program() {
    Result<Program> made = builder_.finish();
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  }

 private:
  Script& check(const Status& status) {
    EXPECT_TRUE(status.ok()) << status.error().what;
    return *this;
  }
  ProgramBuilder builder_;
};

Outcome run(const Program& program, const char* policy, Bytes budget, Nanos limit = 1'000'000) {
  return simulate(program, {budget, *dtr::find_policy(policy), limit, {}});
}

void expect(const Outcome& outcome, Outcome::Status status, Nanos clock, std::int64_t evaluations,
            Bytes peak) {
  EXPECT_STREQ(to_string(outcome.status), to_string(status));
  EXPECT_EQ(outcome.clock, clock);
  EXPECT_EQ(outcome.evaluations, evaluations);
  EXPECT_EQ(outcome.peak, peak);
}

// a, b(a), c(b), d(a, c), one byte and one nanosecond each.
Script four() {
  Script script;
  script.call({{"a", 1}}, {}, 1).call({{"b", 1}}, {"a"}, 1);
  script.call({{"c", 1}}, {"b"}, 1).call({{"d", 1}}, {"a", "c"}, 1);
  return script;
}

TEST(Simrd, WithRoomForEverythingNothingIsDropped) {
  const Program program = four().program();
  EXPECT_EQ(program.peak, 4);
  EXPECT_EQ(program.compute, 4);
  expect(run(program, "dtr", 4), Outcome::kOk, 5, 0, 4);
}

// For d, of which a and c are pinned, b goes: one candidate. Nothing wants it back.
TEST(Simrd, WhatAnOpReadsIsNotDroppedForIt) {
  const Program program = four().release({"a", "b", "c"}).program();
  expect(run(program, "lru", 3), Outcome::kOk, 5, 1, 3);
}

// All four are outputs. b must come back: of {d, c}, last used at 5 and 4, c goes. c must come
// back, with b pinned: of {d} alone d goes. d must come back: all others are kept, and there is no
// room.
TEST(Simrd, OutputsMustAllBeThereAtTheEnd) {
  const Outcome outcome = run(four().program(), "lru", 3);
  expect(outcome, Outcome::kOutOfMemory, 7, 4, 3);
  EXPECT_EQ(outcome.compute, 4);
  EXPECT_EQ(outcome.recompute, 2);
}

// Two bytes: a, b fill them. For c of {a} goes a, since b is pinned. For d nothing but c and b may
// go, and a is needed: c is pinned, a comes back in place of b, and then d has no room.
TEST(Simrd, AnOpThatDoesNotFitEndsTheRun) {
  const Outcome outcome = run(four().program(), "lru", 2);
  expect(outcome, Outcome::kOutOfMemory, 5, 2, 2);
  EXPECT_EQ(outcome.recompute, 1);
}

// a takes 10, b(a) 20, c(b) 30; then two bytes are taken by e, and c's child needs c: a, b, c
// again.
TEST(Simrd, RecomputationGoesAsDeepAsItMust) {
  Script script;
  script.call({{"a", 1}}, {}, 10).call({{"b", 1}}, {"a"}, 20).call({{"c", 1}}, {"b"}, 30);
  script.call({{"e", 3}}, {}, 5).release({"e"}).call({{"f", 0}}, {"c"}, 2);
  script.release({"a", "b", "c", "f"});
  const Outcome outcome = run(script.program(), "dtr", 3);
  // For e all three go: 3 + 2 + 1 candidates.
  expect(outcome, Outcome::kOk, 1 + 10 + 20 + 30 + 5 + 60 + 2, 6, 3);
  EXPECT_EQ(outcome.recompute, 60);
}

TEST(Simrd, TheRunStopsBeyondTheLimitAndNotAtIt) {
  Script script;
  script.call({{"a", 1}}, {}, 10).call({{"e", 1}}, {}, 5).release({"e"});
  script.call({{"f", 0}}, {"a"}, 2).release({"a", "f"});
  const Program program = script.program();
  expect(run(program, "dtr", 1, 10), Outcome::kOk, 28, 1, 1);
  expect(run(program, "dtr", 1, 9), Outcome::kRecomputeExceeded, 26, 1, 1);
}

// a and b tie by size; b, the last, goes for c; reading b then costs its 100 again.
TEST(Simrd, OfEqualScoresTheLastThatBecameDroppableGoes) {
  Script script;
  script.call({{"a", 1}}, {}, 10).call({{"b", 1}}, {}, 100).call({{"c", 1}}, {}, 1);
  script.call({{"d", 0}}, {"b"}, 0).release({"a", "b", "c", "d"});
  expect(run(script.program(), "largest", 2), Outcome::kOk, 1 + 111 + 100, 4, 2);
}

// Reading a puts it behind b in the list, so that of the two a goes, and reading b is free.
TEST(Simrd, AReadStorageBecomesTheLast) {
  Script script;
  script.call({{"a", 1}}, {}, 10).call({{"b", 1}}, {}, 100).call({{"r", 0}}, {"a"}, 0);
  script.release({"r"}).call({{"c", 1}}, {}, 1).call({{"d", 0}}, {"b"}, 0);
  script.release({"a", "b", "c", "d"});
  expect(run(script.program(), "largest", 2), Outcome::kOk, 1 + 111, 2, 2);
}

// p and q come of one op. p has gone, q is there and pinned: the op makes both again, 5 bytes
// beside q's 3, and the second q is freed.
TEST(Simrd, ASecondCopyOfAResultIsFreedAtOnce) {
  Script script;
  script.call({{"p", 2}, {"q", 3}}, {}, 7).call({{"t", 4}}, {"q"}, 1).release({"t"});
  script.call({{"u", 1}}, {"p", "q"}, 1).release({"p", "q", "u"});
  const Program program = script.program();
  EXPECT_EQ(program.peak, 9);
  expect(run(program, "dtr", 8), Outcome::kOk, 1 + 7 + 1 + 7 + 1, 1, 8);
  expect(run(program, "dtr", 7), Outcome::kOutOfMemory, 9, 1, 7);
}

// p and q come of one op, and p, the first result, is the one that an op is run for: it becomes
// droppable last. All are of one size, so that for c the last goes, p, and reading q is free.
TEST(Simrd, TheResultThatIsAskedForComesLast) {
  Script script;
  script.call({{"p", 1}, {"q", 1}}, {}, 7).call({{"c", 1}}, {}, 1).release({"c"});
  script.call({{"d", 0}}, {"q"}, 0).release({"p", "q", "d"});
  expect(run(script.program(), "largest", 2), Outcome::kOk, 9, 2, 2);
}

// v is a view of a. Dropping a takes v; when reading a has brought a back, v is still to be made.
TEST(Simrd, ViewsGoWithTheirStorageAndComeBackByTheirOps) {
  Script script;
  script.call({{"a", 2}}, {}, 10).call({{"v", 0, 0}}, {"a"}, 1);
  script.call({{"e", 2}}, {}, 5).release({"e"}).call({{"r", 0}}, {"a"}, 0);
  script.call({{"u", 0}}, {"v"}, 3).release({"a", "v", "r", "u"});
  expect(run(script.program(), "dtr", 2), Outcome::kOk, 1 + 10 + 1 + 5 + 11 + 3, 1, 2);
}

// At 110, for c: a costs 10 and its view's 90 and is stale for 9; b costs 9 and was made just now,
// which is infinite: a goes. By compute alone it is b, 9 against 100.
TEST(Simrd, AStorageCostsAllOpsThatMadeItsViews) {
  Script script;
  script.call({{"a", 1}}, {}, 10).call({{"v", 0, 0}}, {"a"}, 90).call({{"b", 1}}, {}, 9);
  script.call({{"c", 1}}, {}, 1).call({{"w", 0}}, {"a"}, 0);
  const Program program = script.release({"a", "v", "b", "c", "w"}).program();
  expect(run(program, "dtr-local", 2), Outcome::kOk, 1 + 110 + 10, 4, 2);
  expect(run(program, "local", 2), Outcome::kOk, 1 + 110, 2, 2);
}

// One op that makes two views adds its time once: a costs 10 + 30, less than b's 50, and goes.
TEST(Simrd, AnOpCountsOnceHoweverManyViewsItMakes) {
  Script script;
  script.call({{"a", 1}}, {}, 10).call({{"v", 0, 0}, {"w", 0, 0}}, {"a"}, 30);
  script.call({{"b", 1}}, {}, 50).call({{"c", 1}}, {}, 1).call({{"r", 0}}, {"b"}, 0);
  const Program program = script.release({"a", "v", "w", "b", "c", "r"}).program();
  expect(run(program, "local", 2), Outcome::kOk, 1 + 91, 2, 2);
}

// A view is 0 bytes whatever the log says, and an op may return its operand's storage beside a new
// one.
TEST(Simrd, AnAliasNeedsNoBytes) {
  Script script;
  script.call({{"a", 4}}, {}, 1).call({{"v", 99, 0}, {"b", 2}}, {"a"}, 1);
  const Program program = script.release({"a", "b"}).program();
  EXPECT_EQ(program.peak, 6);
  expect(run(program, "dtr", 6), Outcome::kOk, 3, 0, 6);
}

// Writing in place is a pure op with a new result of the same size: both are there for a moment.
// The old storage goes with its name.
TEST(Simrd, WritingInPlaceNeedsTwice) {
  Script script;
  script.call({{"a", 4}}, {}, 10).call({{"g", 1}}, {}, 1).mutate({"a", "g"}, {0}, 5);
  const Program program = script.release({"g"}).program();
  EXPECT_EQ(program.peak, 9);
  expect(run(program, "dtr", 9), Outcome::kOk, 17, 0, 9);
  expect(run(program, "dtr", 8), Outcome::kOutOfMemory, 12, 0, 5);
}

TEST(Simrd, AViewIsWrittenInPlaceAtTheSizeOfItsStorage) {
  Script script;
  script.call({{"a", 4}}, {}, 10).call({{"v", 0, 0}}, {"a"}, 1).mutate({"v"}, {0}, 5);
  EXPECT_EQ(script.program().peak, 8);
}

// A copy is a name: the storage lives until the last one goes, and then at once.
TEST(Simrd, AStorageGoesWithItsLastName) {
  Script script;
  script.call({{"a", 3}}, {}, 1).copy("b", "a").release({"a"});
  script.call({{"c", 3}}, {"b"}, 1).copy_from("b", "c").call({{"d", 3}}, {}, 1);
  const Program program = script.release({"b", "c", "d"}).program();
  EXPECT_EQ(program.peak, 6);
  expect(run(program, "dtr", 6), Outcome::kOk, 4, 0, 6);
}

// A weight stays for good, also without a name, though the run with room for everything frees it:
// that sets the budget, and here it is too small.
TEST(Simrd, AWeightIsNeverDropped) {
  Script script;
  script.constant("w", 100).release({"w"}).call({{"a", 10}}, {}, 1);
  const Program program = script.release({"a"}).program();
  EXPECT_EQ(program.peak, 100);
  expect(run(program, "dtr", 100), Outcome::kOutOfMemory, 1, 0, 100);
  expect(run(program, "dtr", 110), Outcome::kOk, 2, 0, 110);
}

// Nobody will need x again, but it counts as the absent neighbour of y: y's score is 101/1 at last
// use 4, z's 50/2, and z goes. Without the neighbour it would be y.
TEST(Simrd, WhatIsReleasedStillCountsAsANeighbour) {
  Script script;
  script.call({{"x", 1}}, {}, 100).call({{"y", 1}}, {"x"}, 1).release({"x"});
  script.call({{"z", 1}}, {}, 50).call({{"t", 1}}, {}, 1).call({{"r", 0}}, {"y"}, 0);
  const Program program = script.release({"y", "z", "t", "r"}).program();
  for (const char* policy : {"exact", "eqclass"}) {
    expect(run(program, policy, 2), Outcome::kOk, 1 + 152, 2, 2);
  }
  expect(run(program, "local", 2), Outcome::kOk, 1 + 152 + 101, 2 + 2 + 1, 2);
}

TEST(Simrd, ARunCanBeCancelled) {
  Script script;
  script.call({{"a", 1}}, {}, 1);
  for (int i = 0; i < 5000; ++i) {
    const std::string name = "b" + std::to_string(i);
    script.call({{name, 1}}, {"a"}, 1).release({name});
  }
  int asked = 0;
  const RunOptions options{10, *dtr::find_policy("dtr"), 100, [&] { return ++asked == 2; }};
  EXPECT_EQ(simulate(script.program(), options).status, Outcome::kCancelled);
  EXPECT_EQ(asked, 2);
}

// A chain of 200 000 ops, of which only the first and the last stay: the whole of it is computed
// again at the end, without a frame on the machine's stack for each.
TEST(Simrd, DepthIsNotLimitedByTheStack) {
  constexpr int kOps = 200'000;
  Script script;
  script.call({{"n0", 1}}, {}, 1);
  for (int i = 1; i < kOps; ++i) {
    const std::string name = "n" + std::to_string(i), before = "n" + std::to_string(i - 1);
    script.call({{name, 1}}, {before}, 1);
  }
  script.call({{"big", 200'000}}, {}, 0).release({"big"});
  const std::string last = "n" + std::to_string(kOps - 1);
  script.call({{"z", 0}}, {last}, 0).release({"z"});
  for (int i = 0; i < kOps; ++i) script.release({"n" + std::to_string(i)});
  Program program = script.program();
  EXPECT_EQ(program.peak, 400'000);
  // Without compute the first candidate ends the search, and the test is done in no time.
  for (Op& op : program.ops) op.compute = 0;
  const Outcome outcome = run(program, "local", 200'000);
  EXPECT_EQ(outcome.status, Outcome::kOk);
  EXPECT_EQ(outcome.evaluations, 200'000);
}

TEST(Simrd, TheBudgetIsAShareOfThePeakCutToWholeBytes) {
  Script script;
  script.call({{"a", 7}}, {}, 3);
  const Program program = script.program();
  const dtr::Policy policy = *dtr::find_policy("dtr");
  Result<RunOptions> options = options_for(program, policy, 0.5);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->budget, 3);
  EXPECT_EQ(options->recompute_limit, 3);
  EXPECT_FALSE(options_for(program, policy, 0.0).ok());
  EXPECT_FALSE(options_for(program, policy, -1.0).ok());
  EXPECT_FALSE(options_for(program, policy, 1.0 / 0.0).ok());
}

}  // namespace
}  // namespace outsize::sim::simrd
