#include "platforms/host/io_pool_rig.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace outsize::host {
namespace {

using namespace std::chrono_literals;

// Keeps threads of the pool in their callbacks until let go.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait_until_taken(int by) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= by; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST_F(IoPoolTest, WritesAndReadsBackAnySize) {
  start(4);
  std::uint64_t token = 0;
  for (const Bytes bytes : {kPageBytes, 4 * kMiB, 4 * kMiB + kPageBytes, 16 * kMiB}) {
    Memory out(bytes), in(bytes);
    out.fill(static_cast<std::uint64_t>(bytes));
    pool_->submit(request(Kind::kWrite, out.data(), bytes, 8192, ++token));
    wait_for(token);
    ASSERT_TRUE(result(token).status.ok()) << result(token).status.error().message();
    EXPECT_GT(result(token).nanos, 0);
    pool_->submit(request(Kind::kRead, in.data(), bytes, 8192, ++token));
    wait_for(token);
    ASSERT_TRUE(result(token).status.ok());
    EXPECT_TRUE(in.equals(out));
  }
}

TEST_F(IoPoolTest, OneTransferMayTakeSeveralRunsOfTheFile) {
  start(4);
  const Bytes bytes = 9 * kMiB;  // three pieces of work, whose bounds are not those of the runs
  const std::vector<FileRun> runs = {{20 * kMiB, 3 * kMiB + kPageBytes}, {0, 5 * kMiB}, {30 * kMiB, kMiB - kPageBytes}};
  const auto out = expect_back(bytes, 20 * kMiB, 1, runs);
  Bytes at = 0;
  for (const FileRun& run : runs) {
    Memory alone(run.bytes);
    ASSERT_EQ(pread(fd_, alone.data(), static_cast<std::size_t>(run.bytes), run.offset), run.bytes);
    EXPECT_EQ(std::memcmp(alone.data(), out->data() + at, static_cast<std::size_t>(run.bytes)), 0) << run.offset;
    at += run.bytes;
  }
}

TEST_F(IoPoolTest, BytesDoNotStayInThePageCache) {
  start(2);
  const Bytes bytes = 8 * kMiB;
  Memory memory(bytes);
  memory.fill(1);
  for (const Kind kind : {Kind::kWrite, Kind::kRead}) {
    pool_->submit(request(kind, memory.data(), bytes, 0, static_cast<std::uint64_t>(kind)));
    wait_for(static_cast<std::size_t>(kind) == 0 ? 2 : 1);
    void* view = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ, MAP_SHARED, fd_, 0);
    std::vector<unsigned char> cached(static_cast<std::size_t>(bytes / kPageBytes));
    mincore(view, static_cast<std::size_t>(bytes), cached.data());
    munmap(view, static_cast<std::size_t>(bytes));
    Bytes pages = 0;
    for (const unsigned char page : cached) pages += page & 1;
    EXPECT_LT(pages, bytes / kPageBytes / 8) << "of " << bytes / kPageBytes;
  }
}

TEST_F(IoPoolTest, MostUrgentFirstAndInOrderWithinOne) {
  Memory memory(kPageBytes);
  ASSERT_EQ(ftruncate(fd_, 64 * kPageBytes), 0);
  Gate gate;
  std::mutex mutex;
  std::vector<std::uint64_t> order;
  auto pool = IoPool::create(1, [&](const IoResult& result) {
    if (result.token == 0) return gate.pass();
    const std::lock_guard lock(mutex);
    order.push_back(result.token);
  });
  pool->submit(request(Kind::kRead, memory.data(), kPageBytes, 0, 0));
  gate.wait_until_taken(1);
  struct Queued {
    Kind kind;
    Urgency urgency;
    std::uint64_t token;
  };
  for (const Queued& one : {Queued{Kind::kWrite, Urgency::kWriteAhead, 7}, {Kind::kWrite, Urgency::kPressedWrite, 5},
                            {Kind::kRead, Urgency::kPrefetch, 3}, {Kind::kRead, Urgency::kDemand, 1},
                            {Kind::kRead, Urgency::kPrefetch, 4}, {Kind::kRead, Urgency::kDemand, 2},
                            {Kind::kWrite, Urgency::kPressedWrite, 6}, {Kind::kWrite, Urgency::kWriteAhead, 8},
                            {Kind::kRead, Urgency::kPrefetch, 9}}) {
    pool->submit(request(one.kind, memory.data(), kPageBytes, 0, one.token, one.urgency));
  }
  pool->promote(9, Urgency::kDemand);         // an op waits for the prefetch now
  pool->promote(8, Urgency::kPressedWrite);
  pool->promote(1, Urgency::kWriteAhead);     // never downwards
  pool->promote(1000, Urgency::kDemand);      // unknown: nothing
  gate.open();
  pool.reset();
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 9, 3, 4, 5, 6, 8, 7}));
}

// What a thread waits for it reads itself, and hears of its end before help() returns.
TEST_F(IoPoolTest, WhoWaitsMayReadItself) {
  Memory memory(4 * kPageBytes);
  ASSERT_EQ(pwrite(fd_, memory.data(), 4 * kPageBytes, 0), 4 * kPageBytes);
  std::vector<std::pair<std::uint64_t, std::thread::id>> ended;
  std::mutex mutex;
  constexpr std::uint64_t kHeld = 100;
  Gate gate;
  auto pool = IoPool::create(2, [&](const IoResult& result) {
    EXPECT_TRUE(result.status.ok());
    if (result.token == kHeld) return gate.pass();
    const std::lock_guard lock(mutex);
    ended.emplace_back(result.token, std::this_thread::get_id());
  });
  int one = 0, other = 0;
  const auto read = [&](std::uint64_t token, const void* helper, Urgency urgency = Urgency::kDemand) {
    IoRequest asked = request(Kind::kRead, memory.data(), kPageBytes, 0, token, urgency);
    asked.helper = helper;
    pool->submit(asked);
  };
  for (int thread = 0; thread < 2; ++thread) read(kHeld, nullptr);
  gate.wait_until_taken(2);  // a thread that is awake takes what it finds, whoever would help
  read(1, &one);
  EXPECT_FALSE(pool->help(&other)) << "it is not the other's";
  EXPECT_TRUE(pool->help(&one));
  EXPECT_FALSE(pool->help(&one)) << "there was one";
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(ended, (std::vector{std::pair<std::uint64_t, std::thread::id>{1, std::this_thread::get_id()}}));
  }
  gate.open();
  for (std::uint64_t token = 2; token < 34; ++token) read(token, &one);  // threads may join in
  while (pool->help(&one)) {}
  pool->quiesce();
  EXPECT_EQ(ended.size(), 33U);
  EXPECT_FALSE(pool->help(&one)) << "for a fork nothing begins";
  pool->resume();
  read(40, &other);
  pool->give_up(&other);  // a thread takes it
  pool->quiesce();
  ASSERT_EQ(ended.size(), 34U);
  EXPECT_NE(ended.back().second, std::this_thread::get_id());
  pool->resume();
  read(41, &other);
  pool.reset();  // nor does it stay behind at the end
  EXPECT_EQ(ended.size(), 35U);
}

// The /proc folders of the pool's threads.
std::vector<std::filesystem::path> pool_threads() {
  std::vector<std::filesystem::path> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name == "outsize-io") found.push_back(task.path());
  }
  return found;
}

TEST_F(IoPoolTest, OneLargeTransferUsesSeveralThreads) {
  start(4);
  const Bytes bytes = 64 * kMiB;
  ASSERT_EQ(ftruncate(fd_, bytes), 0);
  Memory memory(bytes);
  pool_->submit(request(Kind::kRead, memory.data(), bytes, 0, 1));
  wait_for(1);
  int busy = 0;
  for (const auto& thread : pool_threads()) {
    const long long read = number_in(thread / "io", "rchar:");
    if (read < 0) GTEST_SKIP() << "no I/O accounting of threads here";
    busy += read > 0 ? 1 : 0;
  }
  EXPECT_GE(busy, 2);
}

TEST_F(IoPoolTest, ErrorsNameOperationOffsetBytesAndReason) {
  start(2);
  Memory memory(8 * kMiB);
  pool_->submit({Kind::kRead, Urgency::kDemand, -1, 12288, memory.data(), 8192, 1});
  wait_for(1);
  EXPECT_EQ(result(1).status.error().code, ErrorCode::kIo);
  const std::string text = result(1).status.error().message();
  for (const char* part : {"pread", "8192 bytes", "offset 12288", "Bad file descriptor", "errno 9"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  // Past the end nothing comes: zero progress is an error, never a loop.
  ASSERT_EQ(ftruncate(fd_, 5 * kMiB), 0);
  pool_->submit(request(Kind::kRead, memory.data(), 8 * kMiB, 0, 2));
  wait_for(2);
  EXPECT_EQ(result(2).status.error().code, ErrorCode::kIo);
  EXPECT_NE(result(2).status.error().message().find("stopped after"), std::string::npos);
  const int null = open("/dev/full", O_WRONLY | O_CLOEXEC);
  pool_->submit({Kind::kWrite, Urgency::kPressedWrite, null, 0, memory.data(), kPageBytes, 3});
  wait_for(3);
  EXPECT_EQ(result(3).status.error().code, ErrorCode::kOutOfSpace);
  EXPECT_NE(result(3).status.error().message().find("pwrite"), std::string::npos);
  close(null);
}

TEST_F(IoPoolTest, InjectedErrorsHitEveryKthTransfer) {
  start(2, "every=3,offset=1,kind=write,error=ENOSPC");
  Memory memory(kPageBytes);
  std::uint64_t token = 0;
  std::vector<bool> failed;
  for (int i = 0; i < 10; ++i) {
    pool_->submit(request(Kind::kWrite, memory.data(), kPageBytes, 0, ++token));
    wait_for(token);
    failed.push_back(!result(token).status.ok());
    if (failed.back()) {
      EXPECT_EQ(result(token).status.error().code, ErrorCode::kOutOfSpace);
    }
    pool_->submit(request(Kind::kRead, memory.data(), kPageBytes, 0, ++token));
    wait_for(token);
    EXPECT_TRUE(result(token).status.ok());
  }
  EXPECT_EQ(failed, (std::vector<bool>{false, false, false, true, false, false, true, false, false, true}));
}

TEST_F(IoPoolTest, InjectionCountsTransfersNotPieces) {
  start(4, "every=2");
  const Bytes bytes = 16 * kMiB;
  Memory memory(bytes);
  for (std::uint64_t token = 1; token <= 4; ++token) {
    pool_->submit(request(Kind::kWrite, memory.data(), bytes, 0, token));
    wait_for(token);
    EXPECT_EQ(result(token).status.ok(), token % 2 == 1);
    if (token % 2 == 0) {
      EXPECT_NE(result(token).status.error().message().find("Input/output error"), std::string::npos);
    }
  }
}

TEST_F(IoPoolTest, InjectedShortTransferStopsHalfWay) {
  start(2, "every=1,kind=read,error=SHORT");
  const Bytes bytes = 12 * kMiB;
  Memory out(bytes), in(bytes);
  out.fill(5);
  pool_->submit(request(Kind::kWrite, out.data(), bytes, 0, 1));
  wait_for(1);
  pool_->submit(request(Kind::kRead, in.data(), bytes, 0, 2));
  wait_for(2);
  ASSERT_FALSE(result(2).status.ok());
  EXPECT_NE(result(2).status.error().message().find("offset 6291456"), std::string::npos)
      << result(2).status.error().message();
  EXPECT_EQ(std::memcmp(in.data(), out.data(), static_cast<std::size_t>(bytes / 2)), 0);
  EXPECT_EQ(in.data()[bytes / 2], 0);
}

TEST_F(IoPoolTest, QuiesceWaitsAndHoldsBack) {
  start(3);
  const Bytes bytes = 16 * kMiB;
  Memory memory(bytes);
  for (std::uint64_t token = 1; token <= 4; ++token) {
    pool_->submit(request(Kind::kWrite, memory.data(), bytes, 0, token, Urgency::kWriteAhead));
  }
  pool_->quiesce();
  EXPECT_EQ(order().size(), 4U);
  pool_->submit(request(Kind::kWrite, memory.data(), kPageBytes, 0, 5));
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(order().size(), 4U);
  pool_->resume();
  wait_for(5);
}

TEST_F(IoPoolTest, QuiesceWaitsForCallbacksAndWhatTheySubmitIsHeld) {
  Memory memory(kPageBytes);
  ASSERT_EQ(ftruncate(fd_, kPageBytes), 0);
  Gate gate;
  std::atomic<int> finished{0};
  std::unique_ptr<IoPool> pool;
  pool = IoPool::create(2, [&](const IoResult& result) {
    if (result.token == 1) {
      gate.pass();
      pool->submit(request(Kind::kRead, memory.data(), kPageBytes, 0, 2));
    }
    ++finished;
  });
  pool->submit(request(Kind::kRead, memory.data(), kPageBytes, 0, 1));
  gate.wait_until_taken(1);
  std::thread opener([&] {
    std::this_thread::sleep_for(10ms);
    gate.open();
  });
  pool->quiesce();
  EXPECT_EQ(finished, 1);
  opener.join();
  pool->resume();
  pool->quiesce();
  EXPECT_EQ(finished, 2);
  pool->resume();
  pool.reset();
}

// Callbacks that wait stand in for slow transfers: a transfer is under way until its callback ends.
TEST_F(IoPoolTest, WithNothingToReadEveryThreadMayWrite) {
  Memory memory(kPageBytes);
  Gate gate;
  auto pool = IoPool::create(4, [&](const IoResult&) { gate.pass(); });
  for (std::uint64_t token = 0; token < 4; ++token) {
    pool->submit(request(Kind::kWrite, memory.data(), kPageBytes, 0, token, Urgency::kWriteAhead));
  }
  gate.wait_until_taken(4);
  gate.open();
}

TEST_F(IoPoolTest, WhileReadsAreAboutHalfOfTheThreadsWrite) {
  Memory memory(kPageBytes);
  ASSERT_EQ(ftruncate(fd_, kPageBytes), 0);
  Gate gate;
  std::atomic<int> writes{0};
  auto pool = IoPool::create(4, [&](const IoResult& result) {
    if (result.token != 0) ++writes;
    gate.pass();
  });
  pool->submit(request(Kind::kRead, memory.data(), kPageBytes, 0, 0));
  gate.wait_until_taken(1);
  for (std::uint64_t token = 1; token <= 8; ++token) {
    pool->submit(request(Kind::kWrite, memory.data(), kPageBytes, 0, token, Urgency::kWriteAhead));
  }
  gate.wait_until_taken(3);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(writes, 2);
  gate.open();
  pool.reset();
  EXPECT_EQ(writes, 8);
}

TEST_F(IoPoolTest, DestructionFinishesWhatWasAsked) {
  start(2);
  const Bytes bytes = 4 * kMiB;
  Memory memory(bytes);
  for (std::uint64_t token = 1; token <= 16; ++token) {
    pool_->submit(request(Kind::kWrite, memory.data(), bytes, 0, token, Urgency::kWriteAhead));
  }
  pool_.reset();
  EXPECT_EQ(order().size(), 16U);
}

TEST_F(IoPoolTest, ThreadsBlockSignalsAndHaveAName) {
  start(2);
  const auto threads = pool_threads();
  EXPECT_EQ(threads.size(), 2U);
  for (const auto& thread : threads) {
    unsigned long long mask = ~0ULL;
    // A thread that is just starting blocks everything for a moment.
    for (int i = 0; i < 1000 && mask + 1 == 0; ++i) {
      std::ifstream lines(thread / "status");
      for (std::string line; std::getline(lines, line);) {
        if (line.rfind("SigBlk:", 0) == 0) mask = std::strtoull(line.c_str() + 7, nullptr, 16);
      }
      if ((mask & (1ULL << (SIGSEGV - 1))) != 0) mask = ~0ULL;
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_NE(mask & (1ULL << (SIGINT - 1)), 0U);
    EXPECT_NE(mask & (1ULL << (SIGTERM - 1)), 0U);
    EXPECT_EQ(mask & (1ULL << (SIGSEGV - 1)), 0U) << "a crash there must still be reported";
  }
}

TEST_F(IoPoolTest, ForkedChildForgetsThePool) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "TSan has no threads after a multi-threaded fork";
#endif
  start(2);
  Memory memory(kPageBytes);
  pool_->submit(request(Kind::kWrite, memory.data(), kPageBytes, 0, 1));
  pool_->quiesce();
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(5);
    pool_->after_fork_child();
    pool_->submit(request(Kind::kRead, memory.data(), kPageBytes, 0, 2));
    const bool refused = !result(2).status.ok();
    pool_.reset();
    _exit(refused ? 0 : 1);
  }
  pool_->resume();
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  pool_->submit(request(Kind::kRead, memory.data(), kPageBytes, 0, 3));
  wait_for(2);
  EXPECT_TRUE(result(3).status.ok());
}

// Everything at once: many submitters, promotions and quiesces; every transfer answers once.
TEST_F(IoPoolTest, EveryTransferAnswersOnce) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  constexpr std::uint64_t kEach = 150;
  ASSERT_EQ(ftruncate(fd_, 16 * kMiB), 0);
  std::vector<std::atomic<int>> answers(4 * kEach);
  auto pool = IoPool::create(3, [&](const IoResult& result) {
    EXPECT_TRUE(result.status.ok());
    ++answers[result.token];
  });
  std::vector<std::thread> submitters;
  for (std::uint64_t s = 0; s < 4; ++s) {
    submitters.emplace_back([&, s] {
      std::mt19937 random(seed + static_cast<unsigned>(s));
      // A page of memory for every transfer: those under way at once must not share.
      Memory memory(static_cast<Bytes>(kEach) * kPageBytes);
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const bool read = random() % 2 == 0;
        const auto urgency = static_cast<Urgency>(random() % 4);
        pool->submit(request(read ? Kind::kRead : Kind::kWrite,
                             memory.data() + static_cast<Bytes>(i) * kPageBytes, kPageBytes,
                             static_cast<std::int64_t>(s) * 4 * kMiB, s * kEach + i, urgency));
        if (random() % 8 == 0) pool->promote(s * kEach + random() % (i + 1), Urgency::kDemand);
        if (s == 0 && random() % 16 == 0) {
          pool->quiesce();
          pool->resume();
        }
      }
      while (true) {
        int count = 0;
        for (std::uint64_t i = 0; i < kEach; ++i) count += answers[s * kEach + i];
        if (count >= static_cast<int>(kEach)) break;
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  for (std::thread& submitter : submitters) submitter.join();
  pool.reset();
  for (const auto& count : answers) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace outsize::host
