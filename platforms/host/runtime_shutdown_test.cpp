// The end of a session: everything comes back, whatever travels at that moment.
#include "platforms/host/runtime_test_rig.h"

namespace outsize::host {
namespace {

TEST_F(RuntimeTest, ShutdownBringsEverythingBackAndANewOneGoesOn) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 16 * kMiB, "lookahead");
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 12; ++i) tensors.push_back(birth(*runtime, 2 * kMiB, i));
    ASSERT_TRUE(runtime->shutdown().ok());
    runtime.reset();
    for (Tensor& t : tensors) {
      EXPECT_TRUE(t.right());
      t.fill(t.seed + 7);
    }
    runtime = make(mechanism, 16 * kMiB, "ondemand");
    EXPECT_LE(runtime->stats().resident_peak, 16 * kMiB) << "what exceeds it left before anything ran";
    tensors.push_back(birth(*runtime, 2 * kMiB, 70));
    for (const Tensor& t : tensors) {
      const Operand read = t.operand(Access::kRead);
      ASSERT_TRUE(runtime->op_begin(2, {&read, 1}, false).ok());
      EXPECT_TRUE(t.right());
      runtime->op_end();
    }
    EXPECT_LE(runtime->stats().resident, 16 * kMiB);
    ASSERT_TRUE(runtime->shutdown().ok());
    for (const Tensor& t : tensors) Runtime::deallocate(t.data);
  });
}

// What dies while it travels lingers until it arrives; the end must neither wait for it for ever nor
// bring it back.
TEST_F(RuntimeTest, ShutdownWhileTheDeadStillTravel) {
  in_child([](FaultMechanism mechanism) {
    for (int session = 0; session < 25; ++session) {
      auto runtime = make(mechanism, 16 * kMiB, "lookahead");
      std::vector<Tensor> tensors;
      for (std::uint64_t i = 0; i < 12; ++i) tensors.push_back(birth(*runtime, 2 * kMiB, i));
      for (int step = 0; step < 3; ++step) {
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          if (step == 2 && i == 3) break;  // what comes next is on its way
          const Operand read = tensors[i].operand(Access::kRead);
          ASSERT_TRUE(runtime->op_begin(20 + i, {&read, 1}, false).ok());
          runtime->op_end();
        }
        if (step < 2) runtime->step();
      }
      for (std::size_t i = 1; i < tensors.size(); ++i) Runtime::deallocate(tensors[i].data);
      ASSERT_TRUE(runtime->shutdown().ok());
      runtime.reset();
      EXPECT_TRUE(tensors[0].right());
      Runtime::deallocate(tensors[0].data);
    }
  });
}

}  // namespace
}  // namespace outsize::host
