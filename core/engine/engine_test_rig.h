// The engine driven by hand under the judge of core/check.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/check/checker.h"
#include "core/engine/engine.h"
#include "planners/registry/policies.h"

namespace outsize {

// Each call gives one input and returns the answer as text: "go" or "wait", then the commands in
// order, for example "wait write:1 promote:2 grant:t0". A broken invariant fails the test.
class EngineRig {
 public:
  explicit EngineRig(Bytes budget, const char* policy = "ondemand")
      : EngineRig(budget, [policy](const ExtentTable& table) { return make_policy(policy, table); }) {}
  // With a policy of the test's own, made on the rig's table.
  template <class Make>
    requires std::is_invocable_r_v<Policy, Make, const ExtentTable&>
  EngineRig(Bytes budget, Make make_own) : checker_(budget) {
    Policy made = make_own(table_);
    EngineOptions options;
    options.budget = budget;
    engine_ = std::make_unique<Engine>(options, std::move(made.predictor), std::move(made.planner), table_);
  }

  struct Uses {
    std::vector<ExtentId> read, write;
  };
  std::string op(ThreadId thread, const Uses& uses, SiteId site = 1) {
    std::vector<OperandRef> operands;
    for (ExtentId id : uses.read) operands.push_back({id, Access::kRead});
    for (ExtentId id : uses.write) operands.push_back({id, Access::kWrite});
    Input input = make(Input::Kind::kOpBegin, kNoExtent, thread);
    input.site = site;
    input.operands = operands;
    return step(input);
  }
  std::string end(ThreadId thread) { return step(make(Input::Kind::kOpEnd, kNoExtent, thread)); }
  std::string alloc(ThreadId thread, ExtentId id, Bytes bytes) {
    Input input = make(Input::Kind::kAlloc, id, thread);
    input.bytes = bytes;
    return step(input);
  }
  std::string adopt(ExtentId id, Bytes bytes, bool absent) {
    Input input = make(Input::Kind::kAdopt, id, 0);
    input.bytes = bytes;
    input.flag = absent;
    return step(input);
  }
  std::string touch(ThreadId thread, ExtentId id) { return step(make(Input::Kind::kTouch, id, thread)); }
  std::string death(ExtentId id) { return step(make(Input::Kind::kDeath, id, 0)); }
  std::string give(Input::Kind kind, ExtentId id) { return step(make(kind, id, 0)); }
  std::string fault(ExtentId id, bool write) { return flagged(Input::Kind::kFault, id, write); }
  std::string read_done(ExtentId id, bool failed = false) { return flagged(Input::Kind::kReadDone, id, failed); }
  std::string write_done(ExtentId id, bool failed = false) { return flagged(Input::Kind::kWriteDone, id, failed); }
  std::string hint(ExtentId id, bool soon) { return flagged(Input::Kind::kHint, id, soon); }
  std::string budget(Bytes bytes) {
    Input input = make(Input::Kind::kBudget, kNoExtent, 0);
    input.bytes = bytes;
    return step(input);
  }
  std::string sample(std::span<const std::int64_t> sample) {
    Input input = make(Input::Kind::kSample, kNoExtent, 0);
    input.sample = sample;
    return step(input);
  }
  std::string plan(Nanos now) {
    Input input = make(Input::Kind::kPlan, kNoExtent, 0);
    input.now = now;
    return step(input);
  }

  void spilled(ExtentId id, Bytes bytes) { EXPECT_EQ(adopt(id, bytes, true), "go"); }

  const Engine& engine() const { return *engine_; }
  const Extent& extent(ExtentId id) const { return table_[id]; }
  const Commands& commands() const { return commands_; }

 private:
  static Input make(Input::Kind kind, ExtentId id, ThreadId thread) {
    Input input;
    input.kind = kind;
    input.extent = id;
    input.thread = thread;
    return input;
  }
  std::string flagged(Input::Kind kind, ExtentId id, bool flag) {
    Input input = make(kind, id, 0);
    input.flag = flag;
    return step(input);
  }
  std::string step(const Input& input) {
    commands_.clear();
    const Outcome outcome = engine_->step(input, commands_);
    const std::size_t violations = checker_.violations().size();
    EXPECT_EQ(checker_.observe(input, commands_), outcome);
    for (std::size_t i = violations; i < checker_.violations().size(); ++i) {
      ADD_FAILURE() << checker_.violations()[i];
    }
    EXPECT_EQ(checker_.resident(), engine_->stats().resident);
    std::string text = outcome == Outcome::kGo ? "go" : "wait";
    for (const Command& command : commands_) {
      text += std::string(" ") + to_string(command.kind) + ":";
      text += command.kind == Command::Kind::kGrant || command.kind == Command::Kind::kRefuse
                  ? "t" + std::to_string(command.thread)
                  : std::to_string(command.extent);
    }
    return text;
  }

  ExtentTable table_;
  std::unique_ptr<Engine> engine_;
  check::Checker checker_;
  Commands commands_;
};

}  // namespace outsize
