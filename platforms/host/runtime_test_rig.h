// What the runtime's tests share: storages whose bytes are known, and a child process a test body,
// once with each fault mechanism.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "platforms/host/runtime.h"

namespace outsize::host {

// ThreadSanitizer does not see that the kernel orders a raw access and the page move it waits for.
#if defined(__SANITIZE_THREAD__)
#define ORDERED_BY_KERNEL __attribute__((no_sanitize("thread"), noinline))
#define SKIP_UNDER_TSAN(why) GTEST_SKIP() << why
#else
#define ORDERED_BY_KERNEL
#define SKIP_UNDER_TSAN(why) (void)0
#endif

// A storage full of words derived from its seed.
struct Tensor {
  std::uint64_t* data = nullptr;
  std::size_t bytes = 0;
  std::uint64_t seed = 0;

  ORDERED_BY_KERNEL void add(std::size_t word, std::uint64_t value) { data[word] += value; }
  ORDERED_BY_KERNEL std::uint64_t at(std::size_t word) const { return data[word]; }
  std::size_t words() const { return bytes / sizeof(std::uint64_t); }
  Operand operand(Access access) const { return {data, bytes, access}; }
  ORDERED_BY_KERNEL void fill(std::uint64_t new_seed) {
    seed = new_seed;
    for (std::size_t i = 0; i < words(); ++i) data[i] = seed * 0x9e3779b97f4a7c15ULL + i;
  }
  ORDERED_BY_KERNEL bool right() const {
    for (std::size_t i = 0; i < words(); ++i) {
      if (data[i] != seed * 0x9e3779b97f4a7c15ULL + i) return false;
    }
    return true;
  }
};

inline std::vector<FaultMechanism> mechanisms() {
  return {FaultMechanism::kUserfaultfd, FaultMechanism::kSignal};
}

class RuntimeTest : public ::testing::Test {
 protected:
  // The mechanism is chosen once a process; each test body runs in a child of its own.
  void in_child(const std::function<void(FaultMechanism)>& body) {
    for (FaultMechanism mechanism : mechanisms()) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(240);  // sanitizers on a busy machine
        body(mechanism);
        std::fflush(nullptr);
        _exit(::testing::Test::HasFailure() ? 1 : 0);
      }
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "mechanism " << static_cast<int>(mechanism) << " status " << status;
    }
  }
};

inline std::unique_ptr<Runtime> make(FaultMechanism mechanism, Bytes budget, const char* policy) {
  RuntimeOptions options;
  options.budget = budget;
  options.faults = mechanism;
  options.policy = policy;
  options.spill_dir = ".";
  auto runtime = Runtime::create(options);
  if (!runtime) {
    ADD_FAILURE() << runtime.error().message();
    _exit(2);
  }
  return std::move(*runtime);
}

inline Tensor birth(Runtime& runtime, std::size_t bytes, std::uint64_t seed) {
  Tensor t;
  t.bytes = bytes;
  EXPECT_TRUE(runtime.op_begin(bytes, {}, false).ok());
  auto memory = runtime.allocate(bytes);
  EXPECT_TRUE(memory.ok()) << memory.error().message();
  t.data = static_cast<std::uint64_t*>(*memory);
  t.fill(seed);
  runtime.op_end();
  return t;
}

inline void expect_within_budget(const Runtime& runtime) {
  const Stats s = runtime.stats();
  EXPECT_LE(s.resident_peak, s.budget);
}

}  // namespace outsize::host
