// Pins and hints, as a program says them.
#include <gtest/gtest.h>

#include "platforms/host/runtime_test_rig.h"

namespace outsize::host {
namespace {

Pins pin(Runtime& runtime, const Tensor& t) {
  auto pins = runtime.pin(t.data, t.bytes);
  EXPECT_TRUE(pins.ok()) << pins.error().message();
  return pins.ok() ? *pins : Pins{};
}

void use(Runtime& runtime, const Tensor& t) {
  const Operand read = t.operand(Access::kRead);
  ASSERT_TRUE(runtime.op_begin(7, {&read, 1}, false).ok());
  runtime.op_end();
}

// Larger than the budget together, so that what was used first is away.
std::vector<Tensor> crowd(Runtime& runtime, int count) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < count; ++i) tensors.push_back(birth(runtime, 4 * kMiB, static_cast<std::uint64_t>(i)));
  return tensors;
}

TEST_F(RuntimeTest, WhatIsPinnedStaysUntilItIsUnpinned) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 32 * kMiB, "ondemand");
    const std::vector<Tensor> tensors = crowd(*runtime, 12);
    const Pins first = pin(*runtime, tensors[0]), again = pin(*runtime, tensors[0]);
    EXPECT_EQ(runtime->stats().pinned, 4 * kMiB) << "bytes are counted once";
    for (const Tensor& t : tensors) use(*runtime, t);
    const Bytes read = runtime->stats().read_bytes;
    use(*runtime, tensors[0]);
    EXPECT_EQ(runtime->stats().read_bytes, read) << "it had not left";
    Runtime::unpin(first);
    EXPECT_EQ(runtime->stats().pinned, 4 * kMiB) << "the other pin holds";
    Runtime::unpin(again);
    EXPECT_EQ(runtime->stats().pinned, 0);
    for (const Tensor& t : tensors) use(*runtime, t);
    EXPECT_GT(runtime->stats().read_bytes, read + 4 * kMiB);
    for (const Tensor& t : tensors) EXPECT_TRUE(t.right());
    expect_within_budget(*runtime);
  });
}

TEST_F(RuntimeTest, WhatDoesNotFitBesidePinsIsRefusedAndSaysSo) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 32 * kMiB, "ondemand");
    const std::vector<Tensor> tensors = crowd(*runtime, 8);
    std::vector<Pins> pins;
    for (int i = 0; i < 5; ++i) pins.push_back(pin(*runtime, tensors[static_cast<std::size_t>(i)]));
    ASSERT_TRUE(runtime->op_begin(9, {}, false).ok());
    const auto refused = runtime->allocate(16 * kMiB);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message().find("20.0 MiB are pinned"), std::string::npos) << refused.error().message();
    for (const Pins& held : pins) Runtime::unpin(held);
    EXPECT_TRUE(runtime->allocate(16 * kMiB).ok());
    runtime->op_end();
  });
}

TEST_F(RuntimeTest, APinOfTheDeadHoldsNothing) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 16 * kMiB, "ondemand");
    const Tensor dead = birth(*runtime, 8 * kMiB, 1);
    const Pins stale = pin(*runtime, dead);
    Runtime::deallocate(dead.data);
    EXPECT_EQ(runtime->stats().pinned, 0);
    const Tensor next = birth(*runtime, 8 * kMiB, 2);  // most likely of the same id and address
    const Pins held = pin(*runtime, next);
    Runtime::unpin(stale);
    EXPECT_EQ(runtime->stats().pinned, 8 * kMiB) << "that was not its pin";
    crowd(*runtime, 6);
    const Bytes read = runtime->stats().read_bytes;
    use(*runtime, next);
    EXPECT_EQ(runtime->stats().read_bytes, read);
    Runtime::unpin(held);
  });
}

TEST_F(RuntimeTest, APinOutlivesItsSession) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 32 * kMiB, "ondemand");
    const std::vector<Tensor> tensors = crowd(*runtime, 12);
    const Pins one = pin(*runtime, tensors[0]), other = pin(*runtime, tensors[1]);
    ASSERT_TRUE(runtime->shutdown().ok());
    runtime.reset();
    Runtime::unpin(one);  // between two sessions
    runtime = make(mechanism, 32 * kMiB, "ondemand");
    EXPECT_EQ(runtime->stats().pinned, 4 * kMiB);
    crowd(*runtime, 12);  // whoever may leave has left
    const Bytes read = runtime->stats().read_bytes;
    use(*runtime, tensors[1]);
    EXPECT_EQ(runtime->stats().read_bytes, read);
    use(*runtime, tensors[0]);
    EXPECT_GT(runtime->stats().read_bytes, read) << "a pin that ended keeps nothing";
    Runtime::unpin(other);
    EXPECT_EQ(runtime->stats().pinned, 0);
  });
}

TEST_F(RuntimeTest, WhatIsHintedComesBackBeforeItIsUsed) {
  for (const char* policy : {"ondemand", "lookahead"}) {
    in_child([policy](FaultMechanism mechanism) {
      auto runtime = make(mechanism, 32 * kMiB, policy);
      const std::vector<Tensor> tensors = crowd(*runtime, 12);
      const Bytes before = runtime->stats().prefetched_bytes;
      for (const int i : {0, 1, 2}) runtime->hint(tensors[static_cast<std::size_t>(i)].data, 4 * kMiB, true);
      while (runtime->stats().read_bytes < before + 12 * kMiB) usleep(1000);  // ends by itself, or the alarm rings
      const Stats prefetched = runtime->stats();
      for (const int i : {0, 1, 2}) use(*runtime, tensors[static_cast<std::size_t>(i)]);
      EXPECT_EQ(runtime->stats().demand_bytes, prefetched.demand_bytes) << "nothing had to wait";
      EXPECT_GE(runtime->stats().prefetch_hit_bytes, prefetched.prefetch_hit_bytes + 12 * kMiB);
      for (const Tensor& t : tensors) EXPECT_TRUE(t.right());
      expect_within_budget(*runtime);
    });
  }
}

}  // namespace
}  // namespace outsize::host
