// RAM and the spill file are both full: who is born is refused, and what exists stays within reach.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "platforms/host/runtime_test_rig.h"

namespace outsize::host {
namespace {

constexpr Bytes kBudget = 32 * kMiB, kLimit = 64 * kMiB, kEach = 2 * kMiB;
constexpr Bytes kMost = kBudget + kLimit - 2 * kEach;  // two of the largest stay free

std::unique_ptr<Runtime> make_limited(FaultMechanism mechanism, bool verify = false) {
  RuntimeOptions options;
  options.budget = kBudget;
  options.spill_limit = kLimit;
  options.spill_dir = ".";
  options.faults = mechanism;
  options.verify = verify;
  auto made = Runtime::create(options);
  if (!made) {
    ADD_FAILURE() << made.error().message();
    _exit(2);
  }
  return std::move(*made);
}

// Tensors until one is refused.
std::vector<Tensor> fill_up(Runtime& runtime, Bytes each = kEach) {
  std::vector<Tensor> tensors;
  for (std::uint64_t i = 0; i < 200; ++i) {
    EXPECT_TRUE(runtime.op_begin(1, {}, false).ok());
    auto memory = runtime.allocate(static_cast<std::size_t>(each));
    if (memory.ok()) {
      tensors.push_back({static_cast<std::uint64_t*>(*memory), static_cast<std::size_t>(each), 0});
      tensors.back().fill(i);
    } else {
      EXPECT_EQ(memory.error().code, ErrorCode::kOutOfSpace) << memory.error().message();
      EXPECT_NE(memory.error().message().find("of tensors, of which RAM may hold 32.0 MiB"), std::string::npos)
          << memory.error().message();
    }
    runtime.op_end();
    if (!memory.ok()) return tensors;
  }
  ADD_FAILURE() << "never refused";
  return tensors;
}

TEST_F(RuntimeTest, WhatExistsIsReachedThoughRamAndDiskAreFull) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make_limited(mechanism);
    std::vector<Tensor> tensors = fill_up(*runtime);
    EXPECT_EQ(static_cast<Bytes>(tensors.size()) * kEach, kMost);
    EXPECT_EQ(runtime->stats().refused_ops, 1);
    EXPECT_EQ(runtime->stats().min_spill_file, kMost + kEach - kBudget + 2 * kEach) << "and two to exchange";
    for (int round = 0; round < 3; ++round) {
      for (Tensor& t : tensors) {
        EXPECT_TRUE(t.right()) << "a raw read";
        if (round == 1) t.fill(t.seed + 1000);
      }
      for (const Tensor& t : tensors) {
        const Operand write = t.operand(Access::kWrite);
        ASSERT_TRUE(runtime->op_begin(2, {&write, 1}, false).ok());
        runtime->op_end();
      }
    }
    for (int i = 0; i < 2; ++i) {
      Runtime::deallocate(tensors.back().data);
      tensors.pop_back();
    }
    const std::vector<Tensor> more = fill_up(*runtime);
    EXPECT_EQ(more.size(), 2U) << "what died made room";
    expect_within_budget(*runtime);
    EXPECT_LE(runtime->stats().spill_file, kLimit);
  });
}

// Of 24 MiB each RAM holds one, whatever else is free in it.
TEST_F(RuntimeTest, FewLargeOnesCanBeExchangedAsWell) {
  in_child([](FaultMechanism mechanism) {
    for (const Bytes limit : {30, 40, 50, 64, 72, 80, 96, 100}) {
      RuntimeOptions options;
      options.budget = kBudget;
      options.spill_limit = limit * kMiB;
      options.spill_dir = ".";
      options.faults = mechanism;
      auto made = Runtime::create(options);
      ASSERT_TRUE(made.ok()) << made.error().message();
      std::vector<Tensor> tensors = fill_up(**made, 24 * kMiB);
      EXPECT_GE(tensors.size(), 1U);
      for (int round = 0; round < 2; ++round) {
        for (Tensor& t : tensors) {
          EXPECT_TRUE(t.right()) << limit;
          t.fill(t.seed + 10);
        }
      }
      for (const Tensor& t : tensors) Runtime::deallocate(t.data);
      ASSERT_TRUE((*made)->shutdown().ok());
    }
  });
}

// Tensors of 64 KiB to 8 MiB, whose gaps in the spill file are of every size: `refusals` times some die, and others
// are born until one is refused. What is exchanged then lies in pieces.
std::vector<Tensor> fill_with_many_sizes(Runtime& runtime, std::mt19937_64& random, int refusals) {
  std::vector<Tensor> tensors;
  for (std::uint64_t i = 0; refusals > 0; ++i) {
    const auto bytes = static_cast<std::size_t>((64 << random() % 8) * 1024 + random() % 300 * 1024);
    auto memory = runtime.allocate(bytes);
    if (memory.ok()) {
      tensors.push_back({static_cast<std::uint64_t*>(*memory), bytes, 0});
      tensors.back().fill(i);
      continue;
    }
    EXPECT_EQ(memory.error().code, ErrorCode::kOutOfSpace) << memory.error().message();
    for (Tensor& t : tensors) {
      EXPECT_TRUE(t.right()) << "a raw read, " << refusals << " refusals before the end";
      if (random() % 4 == 0) t.fill(t.seed + 1000);
    }
    if (--refusals == 0) break;
    for (std::size_t dies = random() % 12; dies > 0 && !tensors.empty(); --dies) {
      std::swap(tensors[random() % tensors.size()], tensors.back());
      Runtime::deallocate(tensors.back().data);
      tensors.pop_back();
    }
  }
  return tensors;
}

TEST_F(RuntimeTest, TensorsOfVeryDifferentSizesAreExchangedToo) {
  in_child([](FaultMechanism mechanism) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      auto runtime = make_limited(mechanism, seed == 1);
      std::mt19937_64 random(seed);
      const std::vector<Tensor> tensors = fill_with_many_sizes(*runtime, random, 8);
      expect_within_budget(*runtime);
      EXPECT_LE(runtime->stats().spill_file, kLimit);
      for (const Tensor& t : tensors) Runtime::deallocate(t.data);
      ASSERT_TRUE(runtime->shutdown().ok());
    }
  });
}

TEST_F(RuntimeTest, AForkedChildReadsWhatLiesInPieces) {
  SKIP_UNDER_TSAN("TSan has no threads after a multi-threaded fork");
  in_child([](FaultMechanism mechanism) {
    auto runtime = make_limited(mechanism, false);
    std::mt19937_64 random(2);
    const std::vector<Tensor> tensors = fill_with_many_sizes(*runtime, random, 4);
    const pid_t child = fork();
    if (child == 0) _exit(std::ranges::all_of(tensors, [](const Tensor& t) { return t.right(); }) ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  });
}

TEST_F(RuntimeTest, AMappedFileNeedsRoomOnceItIsChanged) {
  in_child([](FaultMechanism mechanism) {
    Tensor mapped;
    mapped.bytes = 48 * kMiB;
    const std::string path = "full_" + std::to_string(getpid()) + ".bin";
    {
      std::vector<std::uint64_t> words(mapped.words());
      mapped.data = words.data();
      mapped.fill(3);
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<char*>(words.data()), static_cast<std::streamsize>(mapped.bytes));
    }
    const int fd = ::open(path.c_str(), O_RDONLY);
    void* const map = mmap(nullptr, mapped.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    ::close(fd);
    mapped.data = static_cast<std::uint64_t*>(map);
    auto runtime = make_limited(mechanism);
    ASSERT_TRUE(runtime->adopt(map, mapped.bytes, [](void* at) { munmap(at, 48 * kMiB); }, map));
    unlink(path.c_str());
    std::vector<Tensor> tensors = fill_up(*runtime);
    EXPECT_EQ(static_cast<Bytes>(tensors.size()) * kEach, kMost - kEach) << "as it is, one piece needs room in RAM";
    for (const Tensor& t : tensors) Runtime::deallocate(t.data);
    for (std::size_t at = 0; at < mapped.bytes; at += kEach) {
      const Operand write{reinterpret_cast<char*>(mapped.data) + at, static_cast<std::size_t>(kEach), Access::kWrite};
      ASSERT_TRUE(runtime->op_begin(3, {&write, 1}, false).ok());
      runtime->op_end();
    }
    tensors = fill_up(*runtime);
    EXPECT_EQ(static_cast<Bytes>(tensors.size()) * kEach, kMost - 48 * kMiB);
    EXPECT_TRUE(mapped.right());
    for (const Tensor& t : tensors) EXPECT_TRUE(t.right());
    for (const Tensor& t : tensors) Runtime::deallocate(t.data);
    Runtime::deallocate_adopted(map);
    EXPECT_EQ(fill_up(*runtime).size(), static_cast<std::size_t>(kMost / kEach)) << "and gives it back";
  });
}

}  // namespace
}  // namespace outsize::host
