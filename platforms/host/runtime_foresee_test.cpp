// Policy `oracle` live: told the trace of an earlier run of the same program it is surprised by nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "platforms/host/runtime_test_rig.h"

namespace outsize::host {
namespace {

class RuntimeForeseeTest : public RuntimeTest {
 protected:
  RuntimeForeseeTest() : path_(testing::TempDir() + "outsize_foresee_" + std::to_string(getpid()) + ".trace") {}
  ~RuntimeForeseeTest() override { unlink(path_.c_str()); }

  Result<std::unique_ptr<Runtime>> create(FaultMechanism mechanism, bool records) const {
    RuntimeOptions options;
    options.budget = records ? 256 * kMiB : 24 * kMiB;
    options.faults = mechanism;
    options.spill_dir = ".";
    options.policy = records ? "lookahead" : "oracle";
    (records ? options.record : options.foresee) = path_;
    return Runtime::create(options);
  }

  // Steps over layers in an order of their own, with small storages between.
  static void train(Runtime& runtime, SiteId more) {
    std::vector<Tensor> layers, biases;
    for (std::uint64_t i = 0; i < 16; ++i) {
      layers.push_back(birth(runtime, 2 * kMiB, i + 1));
      biases.push_back(birth(runtime, 4096 + 64 * i, i + 1));
    }
    std::uint64_t at = 1;
    for (int op = 0; op < 400; ++op) {
      at = at * 6364136223846793005ULL + 1442695040888963407ULL;
      const std::size_t layer = (at >> 33) % layers.size();
      const Operand operands[] = {layers[layer].operand(Access::kRead), biases[layer].operand(Access::kRead)};
      ASSERT_TRUE(runtime.op_begin(1'000'000 + more + layer, operands, 0).ok());
      ASSERT_TRUE(layers[layer].right() && biases[layer].right());
      usleep(1500);  // or no disk could keep up
      runtime.op_end();
      if (op % 40 == 39) runtime.step();
    }
    for (const Tensor& t : layers) Runtime::deallocate(t.data);
    for (const Tensor& t : biases) Runtime::deallocate(t.data);
  }

  std::string path_;
};

TEST_F(RuntimeForeseeTest, TheSameRunComesAsRecordedAndAnotherIsGivenUp) {
  in_child([this](FaultMechanism mechanism) {
    auto recorded = create(mechanism, true);
    ASSERT_TRUE(recorded.ok());
    train(**recorded, 0);
    ASSERT_TRUE((*recorded)->shutdown().ok());
    {
      auto same = create(mechanism, false);
      ASSERT_TRUE(same.ok()) << same.error().message();
      train(**same, 0);
      const Stats s = (*same)->stats();
      EXPECT_GT(s.foresee_ops, 400);
      EXPECT_EQ(s.foresee_known_ops, s.foresee_ops);
      EXPECT_FALSE(s.foresee_given_up);
      EXPECT_EQ(s.pilot_ops, 0);
      EXPECT_GT(s.prefetch_hit_bytes, 10 * s.demand_bytes);
      ASSERT_TRUE((*same)->shutdown().ok());
    }
    auto other = create(mechanism, false);
    ASSERT_TRUE(other.ok());
    train(**other, 100);
    const Stats s = (*other)->stats();
    EXPECT_LT(s.foresee_known_ops, s.foresee_ops / 2);
    EXPECT_EQ(s.foresight.find("the recorded run, lost after op 3"), 0U) << s.foresight;
  });
}

TEST_F(RuntimeForeseeTest, WhatIsNoTraceIsRefused) {
  in_child([this](FaultMechanism mechanism) {
    const auto none = create(mechanism, false);
    ASSERT_FALSE(none.ok());
    EXPECT_NE(none.error().message().find("the trace cannot be read: No such file"), std::string::npos);
  });
}

}  // namespace
}  // namespace outsize::host
