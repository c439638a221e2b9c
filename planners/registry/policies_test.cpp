#include "planners/registry/policies.h"

#include <gtest/gtest.h>

namespace outsize {
namespace {

TEST(Policies, EveryNameMakesAPredictorAndAPlanner) {
  ExtentTable table;
  ASSERT_FALSE(policy_names().empty());
  for (const std::string& name : policy_names()) {
    const Policy policy = make_policy(name, table);
    EXPECT_NE(policy.predictor, nullptr) << name;
    EXPECT_NE(policy.planner, nullptr) << name;
  }
}

TEST(Policies, WhatOneCannotBeginWithIsRefused) {
  ExtentTable table;
  const auto told = [] {
    auto recording = std::make_unique<oracle::Recording>();
    recording->finish(0);
    return Beginning{.recording = std::move(recording)};
  };
  EXPECT_NE(make_policy("oracle", table, told()).planner, nullptr);
  EXPECT_TRUE(make_policy("oracle", table).error.message().starts_with(
      "policy oracle foresees from the trace of an earlier, identical run [policy] Record one with"));
  EXPECT_EQ(make_policy("oracle:x=1", table, told()).error.what, "'x=1' is no setting of policy oracle");
  for (const std::string& name : policy_names()) {
    EXPECT_EQ(make_policy(name, table, told()).error.what, "policy " + name + " has no use for a recorded run");
  }
  const std::string learnt = make_policy("oracle", table, {.model = "bytes"}).error.what;
  EXPECT_EQ(learnt, "policy oracle has no use for a model of the pilot");
}

TEST(Policies, AnUnknownNameMakesNothing) {
  ExtentTable table;
  EXPECT_EQ(make_policy("nosuch", table).planner, nullptr);
  EXPECT_EQ(make_policy("", table).planner, nullptr);
}

TEST(Policies, SettingsStandBehindAColon) {
  ExtentTable table;
  for (const char* name : {"deepum:", "deepum:chaining=off", "deepum:degree=8,rows=128,pre-eviction=on", "weights:",
                           "weights:solver=greedy-star", "weights:moves=weights,solver=single", "pilot",
                           "pilot:sample=off,ops=2048", "pilot:idioms=onehot,base=off,size=small,learn=off,requery=off",
                           "pilot:block=64,buffers=2",
                           "auto", "auto:margin=10,rest=64"}) {
    EXPECT_NE(make_policy(name, table).planner, nullptr) << name;
  }
  for (const char* name : {"deepum:chaining", "deepum:chaining=maybe", "deepum:degree=0", "deepum:degree=8x",
                           "deepum:degree=", "deepum:size=3", "deepum:degree=8,", "deepum:degree=99999999999", ":degree=8",
                           "lookahead:degree=8", "lookahead:", "deepu:degree=8", "weights:solver",
                           "weights:solver=best", "weights:moves=all,", "weights:greedy", "pilot:ops=1", "pilot:share=0",
                           "pilot:idioms=some", "pilot:size=huge", "auto:margin=0", "auto:pilot"}) {
    EXPECT_EQ(make_policy(name, table).planner, nullptr) << name;
  }
}

TEST(Policies, WhatIsWrongIsNamedWithWhatMayBeGiven) {
  ExtentTable table;
  EXPECT_EQ(make_policy("nosuch", table).error.message(),
            "there is no policy 'nosuch' [policy] Known: lookahead, ondemand, deepum, weights, pilot, auto, oracle.");
  EXPECT_EQ(make_policy("ondemand:rows=8", table).error.message(),
            "'rows=8' is no setting of policy ondemand [policy] It has none.");
  const std::string rows = make_policy("deepum:ways=2,rows=0,degree=8", table).error.message();
  EXPECT_TRUE(rows.starts_with("'rows=0' is no setting of policy deepum [policy] Known: chaining=on or off,")) << rows;
  EXPECT_NE(rows.find("rows=1 to 2048"), std::string::npos) << rows;
  EXPECT_TRUE(make_policy("deepum:degree=8,", table).error.message().starts_with("'' is no setting"));
}

// A setting arrives: larger tables hold more bytes once something is in them.
TEST(Policies, SettingsReachThePredictor) {
  ExtentTable table;
  auto bytes = [&](const char* name) {
    const Policy policy = make_policy(name, table);
    const ExtentId id[] = {3};
    for (SiteId site = 1; site <= 100; ++site) policy.predictor->on_op({site, id, false, 0});
    return policy.predictor->table_bytes();
  };
  EXPECT_GT(bytes("deepum"), 0);
  for (const char* more : {"deepum:degree=64", "deepum:rows=128", "deepum:ways=4", "deepum:successors=8",
                           "deepum:levels=4"}) {
    EXPECT_GT(bytes(more), bytes("deepum")) << more;
  }
  for (const char* less : {"deepum:chaining=off", "deepum:records=8", "deepum:executions=8",
                           "deepum:long-contexts=off"}) {
    EXPECT_LT(bytes(less), bytes("deepum")) << less;
  }
}

}  // namespace
}  // namespace outsize
