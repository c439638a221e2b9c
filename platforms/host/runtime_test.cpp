// The runtime as the adapter uses it, without torch: programs of ops over storages whose bytes are
// known, under budgets that do not hold them.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fcntl.h>

#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "core/base/large_table.h"
#include "core/trace/decision_log.h"
#include "platforms/host/runtime_test_rig.h"

namespace outsize::host {
namespace {

TEST_F(RuntimeTest, BytesComeBackThroughOpsAndRawReads) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 32 * kMiB, "lookahead");
    EXPECT_NE(tell_large_pages.load(), nullptr) << "a session's tables may be large";
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 24; ++i) tensors.push_back(birth(*runtime, 3 * kMiB + 4096 * i, i));
    for (const Tensor& t : tensors) {
      const Operand read = t.operand(Access::kRead);
      ASSERT_TRUE(runtime->op_begin(7, {&read, 1}, false).ok());
      EXPECT_TRUE(t.right());
      runtime->op_end();
    }
    for (const Tensor& t : tensors) EXPECT_TRUE(t.right());  // raw
    const Stats s = runtime->stats();
    EXPECT_GT(s.raw_faults, 0);
    EXPECT_GT(s.write_bytes, 0);
    expect_within_budget(*runtime);
    for (const Tensor& t : tensors) Runtime::deallocate(t.data);
    EXPECT_EQ(runtime->stats().tensor_bytes, 0);
  });
}

TEST_F(RuntimeTest, RawWritesSurvive) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 32 * kMiB, "ondemand");
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 16; ++i) tensors.push_back(birth(*runtime, 4 * kMiB, i));
    for (int round = 0; round < 4; ++round) {
      for (Tensor& t : tensors) {
        const Operand read = t.operand(Access::kRead);
        ASSERT_TRUE(runtime->op_begin(7, {&read, 1}, false).ok());
        runtime->op_end();
        EXPECT_TRUE(t.right());
        t.fill(t.seed + 100);  // nobody was told
      }
    }
    for (const Tensor& t : tensors) EXPECT_TRUE(t.right());
    expect_within_budget(*runtime);
  });
}

void random_program(Runtime& runtime, std::uint64_t seed, int ops, bool steps) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> live;
  for (int i = 0; i < ops; ++i) {
    std::vector<std::size_t> chosen;
    std::vector<Operand> operands;
    for (std::size_t k = random() % 3; k-- > 0 && !live.empty();) {
      chosen.push_back(random() % live.size());
      operands.push_back(live[chosen.back()].operand(random() % 4 == 0 ? Access::kWrite : Access::kRead));
    }
    const Status begun = runtime.op_begin(random() % 50, operands, random() % 2 == 0);
    ASSERT_TRUE(begun.ok()) << begun.error().message();
    for (std::size_t index : chosen) ASSERT_TRUE(live[index].right()) << "op " << i;
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      if (operands[k].access == Access::kWrite) live[chosen[k]].fill(random());
      if (random() % 16 == 0) live[chosen[k]].fill(random());  // undeclared
    }
    for (std::size_t births = random() % 3; births-- > 0;) {
      Tensor t;
      t.bytes = 8 * (1 + random() % (random() % 3 == 0 ? 400'000 : 2'000));
      auto memory = runtime.allocate(t.bytes);
      ASSERT_TRUE(memory.ok()) << memory.error().message();
      t.data = static_cast<std::uint64_t*>(*memory);
      t.fill(random());
      live.push_back(t);
    }
    runtime.op_end();
    while (live.size() > 40 || (!live.empty() && random() % 3 == 0)) {
      const std::size_t index = random() % live.size();
      ASSERT_TRUE(random() % 4 != 0 || live[index].right());  // raw
      Runtime::deallocate(live[index].data);
      live[index] = live.back();
      live.pop_back();
    }
    if (steps && i % 100 == 99) runtime.step();
  }
  for (const Tensor& t : live) {
    ASSERT_TRUE(t.right());
    Runtime::deallocate(t.data);
  }
}

TEST_F(RuntimeTest, RandomProgramsKeepTheirBytes) {
  in_child([](FaultMechanism mechanism) {
    for (const char* policy : {"lookahead", "ondemand"}) {
      auto runtime = make(mechanism, 24 * kMiB, policy);
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(std::string(policy) + " seed " + std::to_string(seed));
        random_program(*runtime, seed, 400, true);
      }
      expect_within_budget(*runtime);
      EXPECT_EQ(runtime->stats().tensor_bytes, 0);
    }
  });
}

TEST_F(RuntimeTest, ThreadsWhoseOpsEachNeedMostOfTheBudget) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 40 * kMiB, "lookahead");
    auto work = [&](std::uint64_t seed) {
      Tensor a = birth(*runtime, 12 * kMiB, seed), b = birth(*runtime, 12 * kMiB, seed + 1);
      for (std::uint64_t i = 0; i < 12; ++i) {
        const Operand operands[] = {a.operand(Access::kRead), b.operand(Access::kWrite)};
        ASSERT_TRUE(runtime->op_begin(seed, operands, false).ok());
        EXPECT_TRUE(a.right());
        b.fill(seed + i);
        auto scratch = runtime->allocate(4 * kMiB);
        ASSERT_TRUE(scratch.ok());
        std::memset(*scratch, 1, 4 * kMiB);
        Runtime::deallocate(*scratch);
        runtime->op_end();
        EXPECT_TRUE(b.right());
      }
      Runtime::deallocate(a.data);
      Runtime::deallocate(b.data);
    };
    std::thread one(work, 10), two(work, 1000);
    one.join();
    two.join();
    expect_within_budget(*runtime);
  });
}

TEST_F(RuntimeTest, AForkedChildWritesNoLineOfTheDecisionLog) {
  SKIP_UNDER_TSAN("TSan has no threads after a multi-threaded fork");
  in_child([](FaultMechanism mechanism) {
    const std::string path = "decisions_" + std::to_string(getpid()) + ".log";
    RuntimeOptions options;
    options.budget = 16 * kMiB;
    options.faults = mechanism;
    options.spill_dir = ".";
    options.decision_log = path;
    auto runtime = Runtime::create(options);
    ASSERT_TRUE(runtime.ok()) << runtime.error().message();
    const Tensor tensor = birth(**runtime, kMiB, 1);
    const pid_t child = fork();
    if (child == 0) {
      std::fflush(nullptr);  // as exit does
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    Runtime::deallocate(tensor.data);
    ASSERT_TRUE((*runtime)->shutdown().ok());
    std::ifstream file(path);
    LogHeader header;
    int headers = 0;
    for (std::string line; std::getline(file, line);) headers += parse_header(line, header) ? 1 : 0;
    EXPECT_EQ(headers, 1);
    unlink(path.c_str());
  });
}

TEST_F(RuntimeTest, ForkedChildReadsSpilledBytes) {
  SKIP_UNDER_TSAN("TSan has no threads after a multi-threaded fork");
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 16 * kMiB, "lookahead");
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 12; ++i) tensors.push_back(birth(*runtime, 2 * kMiB, i));
    std::vector<pid_t> children;
    for (int round = 0; round < 3; ++round) {
      const pid_t child = fork();
      if (child == 0) {
        usleep(100'000 * static_cast<unsigned>(round));
        bool right = true;
        for (const Tensor& t : tensors) right = right && t.right();
        Tensor mine = birth(*runtime, 3 * kMiB, 5);  // from malloc
        right = right && mine.right();
        Runtime::deallocate(mine.data);
        _exit(right ? 0 : 1);
      }
      children.push_back(child);
      // The parent goes on, overwriting what the child still has to read.
      for (std::uint64_t i = 0; i < 12 && round < 2; ++i) {
        Tensor extra = birth(*runtime, 2 * kMiB, 99 + i);
        const Operand read = tensors[i].operand(Access::kRead);
        ASSERT_TRUE(runtime->op_begin(3, {&read, 1}, false).ok());
        EXPECT_TRUE(tensors[i].right());
        runtime->op_end();
        Runtime::deallocate(extra.data);
      }
    }
    for (pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    for (const Tensor& t : tensors) EXPECT_TRUE(t.right());
  });
}

TEST_F(RuntimeTest, AdoptsMemoryInPlace) {
  in_child([](FaultMechanism mechanism) {
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 6; ++i) {
      Tensor t;
      t.bytes = 5 * kMiB + 24;
      t.data = static_cast<std::uint64_t*>(std::malloc(t.bytes));
      t.fill(i);
      tensors.push_back(t);
    }
    auto runtime = make(mechanism, 16 * kMiB, "lookahead");
    for (Tensor& t : tensors) ASSERT_TRUE(runtime->adopt(t.data, t.bytes, std::free, t.data));
    for (int round = 0; round < 2; ++round) {
      for (Tensor& t : tensors) {
        const Operand write = t.operand(Access::kWrite);
        ASSERT_TRUE(runtime->op_begin(1, {&write, 1}, false).ok());
        EXPECT_TRUE(t.right());
        t.fill(t.seed + 1);
        runtime->op_end();
      }
    }
    EXPECT_LE(runtime->stats().resident, 16 * kMiB);
    for (Tensor& t : tensors) EXPECT_TRUE(t.right());
    for (Tensor& t : tensors) Runtime::deallocate_adopted(t.data);
    EXPECT_EQ(runtime->stats().tensor_bytes, 0);
  });
}

// What the planner would prefetch must not take the room between its being made and its being used.
TEST_F(RuntimeTest, RoomForAdoptionIsKeptUntilItIsUsed) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 16 * kMiB, "lookahead");
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 8; ++i) tensors.push_back(birth(*runtime, 3 * kMiB, i));
    for (std::uint64_t round = 0; round < 12; ++round) {
      for (Tensor& t : tensors) {
        const Operand write = t.operand(Access::kWrite);
        ASSERT_TRUE(runtime->op_begin(t.seed, {&write, 1}, false).ok());
        runtime->op_end();
      }
      runtime->step();
      Tensor t;
      t.bytes = 3 * kMiB + 24;
      t.data = static_cast<std::uint64_t*>(std::malloc(t.bytes));
      t.fill(round);
      runtime->room_to_adopt(t.bytes);
      usleep(3000);
      ASSERT_TRUE(runtime->adopt(t.data, t.bytes, std::free, t.data));
      runtime->end_adoption();
      EXPECT_TRUE(t.right());
      Runtime::deallocate_adopted(t.data);
    }
    expect_within_budget(*runtime);
    EXPECT_GT(runtime->stats().read_bytes, 0);
  });
}

TEST_F(RuntimeTest, AdoptsPrivateFileMappingsWithoutWritingThem) {
  in_child([](FaultMechanism mechanism) {
    const std::string path = "adopt_" + std::to_string(getpid()) + ".bin";
    Tensor content;
    content.bytes = 20 * kMiB + 8 * 100;
    std::vector<std::uint64_t> words(content.words());
    content.data = words.data();
    content.fill(3);
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<char*>(words.data()),
                                                static_cast<std::streamsize>(content.bytes));
    const int fd = ::open(path.c_str(), O_RDONLY);
    void* map = mmap(nullptr, content.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    ::close(fd);
    unlink(path.c_str());
    (void)map;
    auto runtime = make(mechanism, 12 * kMiB, "lookahead");
    // An unlinked file cannot be opened again by name: refused, left alone.
    EXPECT_FALSE(runtime->adopt(map, content.bytes, [](void*) {}, nullptr));
    munmap(map, content.bytes);
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<char*>(words.data()),
                                                static_cast<std::streamsize>(content.bytes));
    const int again = ::open(path.c_str(), O_RDONLY);
    Tensor mapped = content;
    mapped.data = static_cast<std::uint64_t*>(
        mmap(nullptr, content.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, again, 0));
    ::close(again);
    mapped.add(1000, 1);  // a private copy of one page
    ASSERT_TRUE(runtime->adopt(mapped.data, mapped.bytes, [](void*) {}, nullptr));
    unlink(path.c_str());
    EXPECT_EQ(mapped.at(1000), words[1000] + 1);
    mapped.add(1000, ~std::uint64_t{0});
    EXPECT_TRUE(mapped.right());
    for (std::size_t at = 0; at + kMiB <= mapped.bytes; at += kMiB) {
      const Operand part{reinterpret_cast<char*>(mapped.data) + at, kMiB, Access::kRead};
      ASSERT_TRUE(runtime->op_begin(1, {&part, 1}, false).ok());
      runtime->op_end();
    }
    EXPECT_TRUE(mapped.right());
    expect_within_budget(*runtime);
  });
}

TEST_F(RuntimeTest, NamesTheSmallestBudgetAndRefusesLess) {
  in_child([](FaultMechanism mechanism) {
    auto program = [](Runtime& runtime) -> Status {
      std::vector<Tensor> tensors;
      Status worst;
      for (std::uint64_t i = 0; i < 8 && worst.ok(); ++i) {
        Tensor t;
        t.bytes = 3 * kMiB;
        if (Status s = runtime.op_begin(1, {}, false); !s) return s;
        auto memory = runtime.allocate(t.bytes);
        if (memory) t.data = static_cast<std::uint64_t*>(*memory);
        if (memory) t.fill(i);
        if (!memory) worst = memory.error();
        runtime.op_end();
        if (memory) tensors.push_back(t);
      }
      if (worst.ok()) {
        std::vector<Operand> operands;
        for (std::size_t i = 0; i < 4; ++i) operands.push_back(tensors[i].operand(Access::kRead));
        worst = runtime.op_begin(2, operands, false);
        if (worst.ok()) {
          auto result = runtime.allocate(5 * kMiB);
          if (!result) worst = result.error();
          if (result) Runtime::deallocate(*result);
          runtime.op_end();
        }
      }
      for (const Tensor& t : tensors) {
        EXPECT_TRUE(t.right());
        Runtime::deallocate(t.data);
      }
      return worst;
    };
    Bytes least = 0;
    {
      auto runtime = make(mechanism, 200 * kMiB, "lookahead");
      ASSERT_TRUE(program(*runtime).ok());
      least = runtime->stats().min_budget;
      EXPECT_EQ(least, 17 * kMiB);
    }
    {
      auto runtime = make(mechanism, least, "lookahead");
      const Status status = program(*runtime);
      EXPECT_TRUE(status.ok()) << status.error().message();
    }
    auto runtime = make(mechanism, least - kMiB, "lookahead");
    const Status status = program(*runtime);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kOutOfBudget);
    EXPECT_NE(status.error().message().find("17MiB"), std::string::npos) << status.error().message();
  });
}

TEST_F(RuntimeTest, KeptScalarsStrandNothing) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 64 * kMiB, "lookahead");
    std::vector<void*> kept;
    Stats early;
    for (int step = 0; step < 3000; ++step) {
      std::vector<void*> temporary;
      for (int i = 0; i < 30; ++i) {
        ASSERT_TRUE(runtime->op_begin(static_cast<SiteId>(i), {}, false).ok());
        auto memory = runtime->allocate(i == 7 ? 4 : 40'000);
        ASSERT_TRUE(memory.ok());
        (i == 7 ? kept : temporary).push_back(*memory);
        runtime->op_end();
      }
      for (void* memory : temporary) Runtime::deallocate(memory);
      runtime->step();
      if (step == 100) early = runtime->stats();
    }
    const Stats late = runtime->stats();
    EXPECT_LE(late.small_held, early.small_held + 2 * kMiB);
    EXPECT_LE(late.arena_bytes, early.arena_bytes + 2 * kMiB);
    EXPECT_EQ(late.spill_file, early.spill_file);
  });
}

TEST_F(RuntimeTest, EveryFailedTransferIsToldAndLosesNothing) {
  in_child([](FaultMechanism mechanism) {
    for (const char* error : {"EIO", "ENOSPC", "SHORT"}) {
      for (int every = 2; every <= 9; ++every) {
        setenv("OUTSIZE_IO_FAULT",
               ("every=" + std::to_string(every) + ",error=" + error).c_str(), 1);
        auto runtime = make(mechanism, 16 * kMiB, "lookahead");
        int told = 0;
        std::vector<Tensor> tensors;
        for (std::uint64_t i = 0; i < 12;) {
          if (!runtime->op_begin(1, {}, false).ok()) {
            ++told;
            continue;
          }
          auto memory = runtime->allocate(2 * kMiB);
          if (memory) {
            Tensor t{static_cast<std::uint64_t*>(*memory), 2 * kMiB, 0};
            t.fill(i++);
            tensors.push_back(t);
          } else {
            ++told;
            EXPECT_EQ(memory.error().message().empty(), false);
          }
          runtime->op_end();
        }
        for (int round = 0; round < 3; ++round) {
          for (const Tensor& t : tensors) {
            const Operand read = t.operand(Access::kRead);
            int tries = 0;
            while (!runtime->op_begin(2, {&read, 1}, false).ok()) {
              ++told;
              ASSERT_LT(++tries, 50);
            }
            EXPECT_TRUE(t.right());
            runtime->op_end();
          }
        }
        EXPECT_GT(told, 0) << error << " every " << every;
        for (const Tensor& t : tensors) EXPECT_TRUE(t.right());
        for (const Tensor& t : tensors) Runtime::deallocate(t.data);
        unsetenv("OUTSIZE_IO_FAULT");
      }
    }
  });
}

// Damages one byte of every transfer's target behind the runtime's back.
TEST_F(RuntimeTest, VerifyNoticesADamagedSpillFile) {
  in_child([](FaultMechanism mechanism) {
    RuntimeOptions options;
    options.budget = 16 * kMiB;
    options.faults = mechanism;
    options.spill_dir = ".";
    options.verify = true;
    auto made = Runtime::create(options);
    ASSERT_TRUE(made.ok()) << made.error().message();
    Runtime& runtime = **made;
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 12; ++i) tensors.push_back(birth(runtime, 2 * kMiB, i));
    for (const Tensor& t : tensors) {  // undamaged: nothing is said
      const Operand read = t.operand(Access::kRead);
      ASSERT_TRUE(runtime.op_begin(2, {&read, 1}, false).ok());
      EXPECT_TRUE(t.right());
      runtime.op_end();
    }
    // The spill file has no name, but this process has it open: find it and damage all of it.
    int damaged = 0;
    for (int fd = 3; fd < 64; ++fd) {
      struct stat status {};
      if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 0) continue;
      const std::string path = "/proc/self/fd/" + std::to_string(fd);
      const int again = ::open(path.c_str(), O_RDWR);
      if (again < 0) continue;
      std::vector<char> bytes(64 * 1024, 42);
      for (off_t at = 0; at < status.st_size; at += static_cast<off_t>(bytes.size())) {
        ASSERT_GT(pwrite(again, bytes.data(), bytes.size(), at), 0);
      }
      fsync(again);
      ::close(again);
      ++damaged;
    }
    ASSERT_EQ(damaged, 1);
    int told = 0;
    for (const Tensor& t : tensors) {
      const Operand read = t.operand(Access::kRead);
      const Status status = runtime.op_begin(2, {&read, 1}, false);
      if (status.ok()) {
        EXPECT_TRUE(t.right());  // still in memory, or written after the damage
        runtime.op_end();
      } else {
        EXPECT_NE(status.error().message().find("checksum"), std::string::npos);
        ++told;
      }
    }
    EXPECT_GT(told, 0);
    _exit(::testing::Test::HasFailure() ? 1 : 0);  // the damaged bytes cannot be brought back
  });
}

}  // namespace
}  // namespace outsize::host
