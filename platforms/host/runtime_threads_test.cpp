// Threads that come, wait and go.
#include <atomic>
#include <thread>

#include "platforms/host/runtime_impl.h"
#include "platforms/host/runtime_test_rig.h"

namespace outsize::host {
namespace {

TEST_F(RuntimeTest, ThreadsThatEndLeaveTheirSlotsToOthers) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 8 * kMiB, "lookahead");
    const Tensor tensor = birth(*runtime, 2 * kMiB, 1);
    const Operand read = tensor.operand(Access::kRead);
    for (int i = 0; i < 200; ++i) {
      std::thread([&] {
        ASSERT_TRUE(runtime->op_begin(1, {&read, 1}, false).ok());
        EXPECT_TRUE(tensor.right());
        runtime->op_end();
      }).join();
    }
    EXPECT_LE(the_impl()->threads.size(), 3U);
    EXPECT_EQ(runtime->stats().ops, 201);  // and the op of its birth
    Runtime::deallocate(tensor.data);
    ASSERT_TRUE(runtime->shutdown().ok());
  });
}

std::atomic<int> left{0}, back{0};

TEST_F(RuntimeTest, WhoWaitsLetsGoMeanwhile) {
  in_child([](FaultMechanism mechanism) {
    Runtime::set_wait_hooks({[]() -> void* { ++left; return &left; },
                             [](void* what) { back += what == &left ? 1 : 100; }});
    auto runtime = make(mechanism, 16 * kMiB, "ondemand");
    const Tensor a = birth(*runtime, 10 * kMiB, 1);
    const Operand read = a.operand(Access::kRead);
    ASSERT_TRUE(runtime->op_begin(1, {&read, 1}, false).ok());
    const int before = left;
    std::thread other([&] { Runtime::deallocate(birth(*runtime, 10 * kMiB, 2).data); });
    while (left == before) std::this_thread::yield();  // the other thread waits for this one's op
    EXPECT_TRUE(a.right());
    runtime->op_end();
    other.join();
    EXPECT_EQ(left, back);
    EXPECT_TRUE(a.right());
    Runtime::deallocate(a.data);
    ASSERT_TRUE(runtime->shutdown().ok());
  });
}

std::atomic<bool> waits{false}, granted{false}, go_on{false};

// Who was granted room may come back late, when it has to get the GIL first. Meanwhile a raw access
// of whoever has the GIL may need the very same room.
TEST_F(RuntimeTest, AGrantedBirthMayLeaveBeforeItsThreadGoesOn) {
  in_child([](FaultMechanism mechanism) {
    Runtime::set_wait_hooks({[]() -> void* {
                               waits = true;
                               return nullptr;
                             },
                             [](void*) {
                               granted = true;
                               while (!go_on) std::this_thread::yield();
                             }});
    go_on = true;
    auto runtime = make(mechanism, 16 * kMiB, "ondemand");
    const Tensor spilled = birth(*runtime, 10 * kMiB, 1);
    const Tensor held = birth(*runtime, 10 * kMiB, 2);
    const Operand read = held.operand(Access::kRead);
    ASSERT_TRUE(runtime->op_begin(1, {&read, 1}, false).ok());
    waits = granted = go_on = false;
    Tensor born;
    std::thread other([&] {
      auto memory = runtime->allocate(10 * kMiB);
      ASSERT_TRUE(memory.ok()) << memory.error().message();
      born = {static_cast<std::uint64_t*>(*memory), 10 * kMiB, 0};
      born.fill(3);
    });
    while (!waits) std::this_thread::yield();
    runtime->op_end();
    while (!granted) std::this_thread::yield();
    EXPECT_TRUE(spilled.right());
    go_on = true;
    other.join();
    EXPECT_TRUE(born.right() && held.right() && spilled.right());
    expect_within_budget(*runtime);
    for (const Tensor& t : {spilled, held, born}) Runtime::deallocate(t.data);
    ASSERT_TRUE(runtime->shutdown().ok());
  });
}

}  // namespace
}  // namespace outsize::host
