#include "platforms/host/trace_recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>

#include "core/trace/trace_validator.h"
#include "platforms/host/runtime_lock.h"
#include "traces/file_limit_rig.h"

namespace outsize::host {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

Nanos now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Memory that nobody touches: only its addresses count.
const char* at(std::uintptr_t address) { return reinterpret_cast<const char*>(address); }

class TraceRecorderTest : public testing::Test {
 protected:
  TraceRecorderTest() : path_(testing::TempDir() + "outsize_recorder_" + std::to_string(getpid()) + ".trace") {}
  ~TraceRecorderTest() override { unlink(path_.c_str()); }

  std::unique_ptr<TraceRecorder> create(std::size_t buffer_records = TraceRecorder::kBufferRecords) {
    auto recorder = TraceRecorder::create(path_, "{\"policy\": \"lookahead\"}", now(), buffer_records);
    if (!recorder) ADD_FAILURE() << recorder.error().message();
    return recorder.ok() ? std::move(*recorder) : nullptr;
  }

  // Reads the whole trace; every event is shown to `see`. What is wrong with it, or nothing.
  template <class See>
  std::string read(See see) {
    auto reader = traces::FileReader::open(path_);
    if (!reader) return reader.error().message();
    trace::Validator validator;
    trace::Event event;
    for (;;) {
      const Result<bool> more = (*reader)->next(event);
      if (!more.ok()) return more.error().message();
      if (!more.value()) break;
      validator.event(event);
      see(event);
    }
    totals_ = (*reader)->totals();
    validator.finish(totals_);
    return validator.found() == 0 ? "" : validator.problems()[0].what;
  }

  std::string path_;
  trace::Totals totals_;
};

TEST_F(TraceRecorderTest, WhatHappenedIsInTheTrace) {
  auto recorder = create();
  const Nanos t = now();
  recorder->adopt(t, 0, at(0x100000), 4096, true);
  recorder->name_site(t, 0, 7, "aten::mm");
  recorder->sample(t, 0, {{"length", {12}}});
  recorder->wait(t, 0, trace::WaitCause::kOperands, 1);
  const Operand operands[] = {{at(0x100000), 4096, Access::kRead}, {at(0x999), 1, Access::kRead}};
  recorder->op_begin(t, 0, 7, trace::kInBackward, graph_place(7, 3), operands);
  recorder->birth(t, 0, at(0x200000), 100);
  recorder->op_end(t + 5, 0);
  recorder->untracked(t, 0, 7, 4096);
  recorder->expose(t, 0, at(0x200000), 100);
  recorder->raw_access(t, 0, at(0x200010), 1, true);
  recorder->pin(t, 0, at(0x200000), 100);
  recorder->unpin(t, 0, at(0x200000), 100);
  recorder->hint(t, 0, at(0x200000), 100, true);
  recorder->step(t, 0);
  recorder->death(t, 0, at(0x200000));
  ASSERT_TRUE(recorder->finish(now()).ok());
  std::string kinds;
  EXPECT_EQ(read([&](const trace::Event& event) {
              kinds += std::string(trace::to_string(event.kind)) + ", ";
              const bool is_op = event.kind == trace::Event::Kind::kOpBegin;
              EXPECT_EQ(event.graph, is_op ? graph_place(7, 3) : 0);
            }), "");
  EXPECT_EQ(kinds,
            "meta, adoption, site name, sample, wait, op begin, birth, op end, untracked, exposed, raw access, pin, "
            "unpin, hint, step, death, end, ");
  EXPECT_EQ(totals_.foreign_operands, 1U);
}

// Many threads under one lock, and buffers so small that they are handed over all the time.
TEST_F(TraceRecorderTest, ThreadsAndSmallBuffers) {
  constexpr int kThreads = 4;
  const int rounds = kSlow ? 3000 : 20000;
  auto recorder = create(64);
  RuntimeLock lock;
  std::vector<std::thread> threads;
  for (ThreadId id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      const char* const mine = at((id + 1) * 0x10000000ULL);
      for (int i = 0; i < rounds; ++i) {
        const char* const address = mine + (i % 100) * 4096;
        const Operand operands[] = {{address, 64, Access::kWrite}, {address + 64, 8, Access::kRead}};
        std::lock_guard guard(lock);
        recorder->birth(now(), id, address, 4096);
        recorder->op_begin(now(), id, id, 0, 0, operands);
        recorder->op_end(now(), id);
        if (i % 50 == 0) recorder->name_site(now(), id, static_cast<SiteId>(i), "op " + std::to_string(i));
        if (i % 10 == 0) recorder->step(now(), id);
        recorder->death(now(), id, address);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(recorder->finish(now()).ok());
  int names = 0;  // each with its own record, whichever buffer they came in
  EXPECT_EQ(read([&names](const trace::Event& event) {
    if (event.kind == trace::Event::Kind::kOpBegin) {
      EXPECT_EQ(event.operands.size(), 2U);
    } else if (event.kind == trace::Event::Kind::kSiteName) {
      EXPECT_EQ(event.text, "op " + std::to_string(event.site));
      ++names;
    }
  }), "");
  EXPECT_EQ(names, kThreads * rounds / 50);
  EXPECT_GT(totals_.held_up, 0) << "such small buffers are never empty in time";
  EXPECT_EQ(totals_.ops, static_cast<std::uint64_t>(kThreads * rounds));
  EXPECT_EQ(totals_.births, totals_.ops);
  EXPECT_EQ(totals_.deaths, totals_.ops);
  EXPECT_EQ(totals_.foreign_operands, 0U);
}

TEST_F(TraceRecorderTest, AnOpOfMoreOperandsThanABufferHolds) {
  auto recorder = create(16);
  recorder->birth(now(), 0, at(0x10000), 4096);
  const std::vector<Operand> operands(1000, Operand{at(0x10000), 64, Access::kRead});
  recorder->op_begin(now(), 0, 1, 0, 0, operands);
  recorder->op_end(now(), 0);
  ASSERT_TRUE(recorder->finish(now()).ok());
  std::size_t seen = 0;
  EXPECT_EQ(read([&](const trace::Event& event) { seen += event.operands.size(); }), "");
  EXPECT_EQ(seen, 1000U);
}

TEST_F(TraceRecorderTest, ATextStaysWithItsRecordWhereBuffersChange) {
  auto recorder = create(16);
  constexpr SiteId kNames = 200;
  for (SiteId site = 0; site < kNames; ++site) {
    for (SiteId i = 0; i < site % 17; ++i) recorder->death(now(), 0, at(0x10000));  // of nothing: no event
    recorder->name_site(now(), 0, site, "op " + std::to_string(site));
  }
  ASSERT_TRUE(recorder->finish(now()).ok());
  SiteId names = 0;
  EXPECT_EQ(read([&names](const trace::Event& event) {
    if (event.kind != trace::Event::Kind::kSiteName) return;
    EXPECT_EQ(event.site, names);
    EXPECT_EQ(event.text, "op " + std::to_string(names++));
  }), "");
  EXPECT_EQ(names, kNames);
}

TEST_F(TraceRecorderTest, ADiskThatIsFullIsToldAtTheEndOnly) {
  auto recorder = create(64);
  Status status;
  {
    const traces::FileLimit limit(4096);
    for (int i = 0; i < 200000; ++i) recorder->op_end(now(), static_cast<ThreadId>(i));
    status = recorder->finish(now());
  }
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("File too large"), std::string::npos);
  EXPECT_TRUE(recorder->failed());
}

TEST_F(TraceRecorderTest, OneThatIsNotFinishedIsCutOff) {
  create()->step(now(), 0);  // and destroyed
  EXPECT_NE(read([](const trace::Event&) {}).find("cut off"), std::string::npos);
  EXPECT_FALSE(TraceRecorder::create(path_ + "/no/such", "{}", 0).ok());
}

// What an op with four operands costs under the lock, beginning and end; the clock is read once for
// each. The aim is 60 ns; a shared machine gets room.
TEST_F(TraceRecorderTest, Cost) {
  auto recorder = create();
  constexpr int kOps = 20000;  // fewer than a buffer holds: what is measured is the recording
  recorder->birth(now(), 0, at(0x10000000), 1 << 24);
  Operand operands[4];
  for (int i = 0; i < 4; ++i) operands[i] = {at(0x10000000 + i * 4096), 4096, Access::kRead};
  Nanos with_clock = 1 << 30, without = 1 << 30, clock = 1 << 30;
  for (int round = 0; round < 20; ++round) {
    Nanos since = now();
    for (int i = 0; i < kOps; ++i) {
      recorder->op_begin(now(), 0, static_cast<SiteId>(i), 0, 0, operands);
      recorder->op_end(now(), 0);
    }
    with_clock = std::min(with_clock, now() - since);
    recorder->step(now(), 0);
    usleep(20000);  // the other thread takes it
    since = now();
    for (int i = 0; i < kOps; ++i) {
      recorder->op_begin(since + i, 0, static_cast<SiteId>(i), 0, 0, operands);
      recorder->op_end(since + i, 0);
    }
    without = std::min(without, now() - since);
    recorder->step(now(), 0);
    usleep(20000);
    since = now();
    Nanos sum = 0;
    for (int i = 0; i < 2 * kOps; ++i) sum += now();
    clock = std::min(clock, now() - since + (sum == 0 ? 1 : 0));
  }
  const Nanos before = now();
  ASSERT_TRUE(recorder->finish(now()).ok());
  std::printf("an op with 4 operands: %.1f ns under the lock (%.1f ns of it for two looks at the clock; %.1f ns "
              "where these are given)\n",
              static_cast<double>(with_clock) / kOps, static_cast<double>(clock) / kOps,
              static_cast<double>(without) / kOps);
  std::printf("the end took %.1f ms\n", static_cast<double>(now() - before) / 1e6);
  EXPECT_EQ(read([](const trace::Event&) {}), "");
  EXPECT_EQ(totals_.ops, 40U * kOps);
  if (!kSlow) {
    EXPECT_LT(with_clock / kOps, 1000);
  }
}

}  // namespace
}  // namespace outsize::host
