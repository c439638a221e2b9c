// A budget for the whole process: tensors make way for what is no tensor, and come back when it goes.
#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "platforms/host/memory_watch.h"
#include "platforms/host/runtime_test_rig.h"
#include "platforms/host/untracked.h"

namespace outsize::host {
namespace {

constexpr Bytes kRoom = 96 * kMiB;  // for tensors, to begin with

std::unique_ptr<Runtime> make_for_process(FaultMechanism mechanism) {
  const Bytes held = ResidentSize().read();
  RuntimeOptions options;
  options.faults = mechanism;
  options.spill_dir = ".";
  options.process_budget = held + kRoom;
  while (options.process_budget - UntrackedLedger::margin(options.process_budget) < held + kRoom) {
    options.process_budget += kMiB;
  }
  auto runtime = Runtime::create(options);
  if (!runtime) {
    ADD_FAILURE() << runtime.error().message();
    _exit(2);
  }
  return std::move(*runtime);
}

// Memory that no allocator of ours knows.
class Foreign {
 public:
  explicit Foreign(Bytes bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(memory_, 1, bytes_);
  }
  ~Foreign() { munmap(memory_, bytes_); }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

 private:
  std::size_t bytes_;
  void* memory_;
};

template <class Condition>
bool wait_until(Condition&& condition) {
  for (int i = 0; i < 30'000; ++i) {
    if (condition()) return true;
    usleep(1000);
  }
  return false;
}

TEST_F(RuntimeTest, TensorsMakeWayForTheRestOfTheProcess) {
  SKIP_UNDER_TSAN("its shadow memory grows with ours and is no part of a budget");
  in_child([](FaultMechanism mechanism) {
    auto runtime = make_for_process(mechanism);
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 20; ++i) tensors.push_back(birth(*runtime, 4 * kMiB, i));
    const Bytes budget = runtime->stats().budget;
    EXPECT_GE(budget, 80 * kMiB);
    EXPECT_EQ(runtime->stats().spilled, 0);
    {
      const Foreign foreign(48 * kMiB);
      EXPECT_TRUE(wait_until([&] { return runtime->stats().resident <= budget - 44 * kMiB; }))
          << "nothing left though nobody asked for room: " << runtime->stats().resident;
      for (const Tensor& t : tensors) {
        const Operand read = t.operand(Access::kRead);
        ASSERT_TRUE(runtime->op_begin(2, {&read, 1}, false).ok());
        EXPECT_TRUE(t.right());
        runtime->op_end();
      }
      EXPECT_LE(runtime->stats().resident, budget - 44 * kMiB);
    }
    // Threads that moved bytes have bounce buffers now (6 MiB, where all did), and the budget grows by no less than a 64th
    // of the process's.
    EXPECT_TRUE(wait_until([&] { return runtime->stats().budget >= budget - 12 * kMiB; }))
        << runtime->stats().budget / kMiB << " MiB of " << budget / kMiB << " came back; resident size "
        << ResidentSize().read() / kMiB << ", of tensors " << runtime->stats().resident / kMiB;
    EXPECT_EQ(runtime->stats().untracked.empty(), false);
    ASSERT_TRUE(runtime->shutdown().ok());
    for (const Tensor& t : tensors) EXPECT_TRUE(t.right());
    for (const Tensor& t : tensors) Runtime::deallocate(t.data);
  });
}

TEST_F(RuntimeTest, RoomForScratchIsMadeBeforeTheOp) {
  SKIP_UNDER_TSAN("its shadow memory grows with ours and is no part of a budget");
  in_child([](FaultMechanism mechanism) {
    auto runtime = make_for_process(mechanism);
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 20; ++i) tensors.push_back(birth(*runtime, 4 * kMiB, i));
    const Bytes budget = runtime->stats().budget;
    ASSERT_TRUE(runtime->expect_untracked(40 * kMiB, "sort").ok());
    const Operand read = tensors[0].operand(Access::kRead);
    ASSERT_TRUE(runtime->op_begin(3, {&read, 1}, false).ok());
    EXPECT_LE(runtime->stats().resident, budget - 36 * kMiB) << "the kernel may take its scratch now";
    EXPECT_TRUE(tensors[0].right());
    runtime->op_end();
    EXPECT_GE(runtime->stats().budget, budget - 8 * kMiB) << "the scratch is back";
    // More than there is: the op is refused, not the process killed.
    const Status refused = runtime->expect_untracked(200 * kMiB, "sort");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kOutOfBudget);
    EXPECT_NE(refused.error().message().find("sort takes about 200.0 MiB of scratch"), std::string::npos)
        << refused.error().message();
    EXPECT_NE(refused.error().message().find("--budget-rss"), std::string::npos);
    EXPECT_GE(runtime->stats().budget, budget - 8 * kMiB);
    ASSERT_TRUE(runtime->shutdown().ok());
    for (const Tensor& t : tensors) EXPECT_TRUE(t.right());
    for (const Tensor& t : tensors) Runtime::deallocate(t.data);
  });
}

// A raw access cannot be refused: whatever else grows, the extent it waits for must find room.
TEST_F(RuntimeTest, RawAccessesAreServedHoweverLittleIsLeft) {
  SKIP_UNDER_TSAN("its shadow memory grows with ours and is no part of a budget");
  in_child([](FaultMechanism mechanism) {
    auto runtime = make_for_process(mechanism);
    const Tensor large = birth(*runtime, 60 * kMiB, 1);
    const Tensor other = birth(*runtime, 60 * kMiB, 2);  // the first has left
    const Bytes budget = runtime->stats().budget;
    const Foreign foreign(200 * kMiB);  // more than the whole budget
    EXPECT_TRUE(wait_until([&] { return runtime->stats().budget < budget; }));
    EXPECT_TRUE(large.right());
    EXPECT_TRUE(other.right());
    ASSERT_TRUE(runtime->shutdown().ok());
    Runtime::deallocate(large.data);
    Runtime::deallocate(other.data);
  });
}

TEST_F(RuntimeTest, WhatIsAdoptedIsATensorFromThenOn) {
  SKIP_UNDER_TSAN("its shadow memory grows with ours and is no part of a budget");
  in_child([](FaultMechanism mechanism) {
    constexpr std::size_t kModel = static_cast<std::size_t>(64 * kMiB);
    Tensor model;  // born before
    model.bytes = kModel;
    model.data = static_cast<std::uint64_t*>(std::malloc(kModel));
    model.fill(3);
    auto runtime = make_for_process(mechanism);
    const Bytes budget = runtime->stats().budget;
    runtime->room_to_adopt(kModel);
    ASSERT_TRUE(runtime->adopt(model.data, kModel, std::free, model.data));
    runtime->end_adoption();
    EXPECT_GE(runtime->stats().budget, budget + 56 * kMiB) << "known at once, not at the next look";
    const Operand read = model.operand(Access::kRead);
    ASSERT_TRUE(runtime->op_begin(2, {&read, 1}, false).ok());
    EXPECT_TRUE(model.right());
    runtime->op_end();
    Runtime::deallocate_adopted(model.data);
    ASSERT_TRUE(runtime->shutdown().ok());
  });
}

// Room that is held for an adoption has no pages: it must not be chosen to leave, not even by a raw
// access that takes running ops' pins away.
TEST_F(RuntimeTest, HeldRoomNeverLeaves) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 16 * kMiB, "ondemand");
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 6; ++i) tensors.push_back(birth(*runtime, 4 * kMiB, i));
    runtime->room_to_adopt(static_cast<std::size_t>(10 * kMiB));
    std::thread([&] {
      const Operand read = tensors[0].operand(Access::kRead);
      ASSERT_TRUE(runtime->op_begin(2, {&read, 1}, false).ok());
      EXPECT_TRUE(tensors[1].right());  // finds no room but that of the op's operand
      EXPECT_TRUE(tensors[0].right());
      runtime->op_end();
      EXPECT_TRUE(runtime->op_begin(9, {}, false).ok()) << "a failed transfer is told";
      runtime->op_end();
    }).join();
    runtime->end_adoption();
    expect_within_budget(*runtime);
  });
}

TEST_F(RuntimeTest, ABudgetThatTheProcessHasUsedUpIsRefused) {
  in_child([](FaultMechanism mechanism) {
    RuntimeOptions options;
    options.faults = mechanism;
    options.spill_dir = ".";
    options.process_budget = ResidentSize().read();
    const auto made = Runtime::create(options);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().message().find("leaves nothing of a budget"), std::string::npos);
  });
}

}  // namespace
}  // namespace outsize::host
