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

TEST(Policies, AnUnknownNameMakesNothing) {
  ExtentTable table;
  EXPECT_EQ(make_policy("nosuch", table).planner, nullptr);
  EXPECT_EQ(make_policy("", table).planner, nullptr);
}

}  // namespace
}  // namespace outsize
