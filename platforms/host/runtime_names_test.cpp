// Names of op sites, where shapes never recur and every op has one of its own.
#include <gtest/gtest.h>

#include "platforms/host/runtime_test_rig.h"

namespace outsize::host {
namespace {

TEST_F(RuntimeTest, NamesAreForgottenButThoseThatAMessageNeeds) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 32 * kMiB, "ondemand");
    const SiteId largest = 24 * kMiB;  // birth() takes the size for the site
    runtime->name_site(largest, "the largest op");
    const Tensor kept = birth(*runtime, largest, 1);
    const SiteId running = 5;
    runtime->name_site(running, "the running op");
    ASSERT_TRUE(runtime->op_begin(running, {}, false).ok());
    const std::uint32_t before = Runtime::names_forgotten();
    for (SiteId site = 0; site < 3 * Runtime::kNamesMax; ++site) {
      runtime->name_site((site << 32) + 7, "an op that never recurs");
      ASSERT_LE(runtime->stats().named_sites, Runtime::kNamesMax);
    }
    EXPECT_GE(Runtime::names_forgotten() - before, 2U);
    EXPECT_EQ(runtime->stats().min_budget_op, "the largest op");
    const auto refused = runtime->allocate(64 * kMiB);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message().find("the running op"), std::string::npos)
        << refused.error().message();
    runtime->op_end();
    EXPECT_TRUE(kept.right());
    Runtime::deallocate(kept.data);
  });
}

}  // namespace
}  // namespace outsize::host
