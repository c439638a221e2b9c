// A run that is recorded: what the program did is in the trace, whatever the budget; and what becomes
// of the trace when the disk is full, the program is killed, or forks.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "core/trace/decision_log.h"
#include "core/trace/sample.h"
#include "core/trace/trace_test_rig.h"
#include "core/trace/trace_validator.h"
#include "platforms/host/runtime_test_rig.h"
#include "platforms/host/trace_recorder.h"
#include "traces/file_limit_rig.h"
#include "traces/trace_file.h"

namespace outsize::host {
namespace {

using Kind = trace::Event::Kind;
constexpr Bytes kAmple = 256 * kMiB;

struct Read {
  trace::Events events;
  trace::Totals totals;
  Bytes file_bytes = 0;
  std::string wrong;  // empty: it is whole and makes sense

  std::string kinds() const {
    std::string all;
    for (const trace::OwnedEvent& event : events) all += std::string(trace::to_string(event.plain.kind)) + ", ";
    return all;
  }
  std::vector<trace::OwnedEvent> of(Kind kind) const {
    std::vector<trace::OwnedEvent> found;
    for (const trace::OwnedEvent& event : events) {
      if (event.plain.kind == kind) found.push_back(event);
    }
    return found;
  }
};

Read read(const std::string& path) {
  Read all;
  auto reader = traces::FileReader::open(path);
  if (!reader) return {{}, {}, 0, reader.error().message()};
  trace::Validator validator;
  const Status status = (*reader)->each([&](const trace::Event& event) {
    validator.event(event);
    all.events.emplace_back(event);
  });
  all.totals = (*reader)->totals();
  all.file_bytes = static_cast<Bytes>((*reader)->file_bytes());
  validator.finish(all.totals);
  if (!status) {
    all.wrong = status.error().message();
  } else if (validator.found() > 0) {
    all.wrong = validator.problems()[0].what;
  }
  return all;
}

class RuntimeRecordTest : public RuntimeTest {
 protected:
  RuntimeRecordTest() : path_(testing::TempDir() + "outsize_run_" + std::to_string(getpid()) + ".trace") {}
  ~RuntimeRecordTest() override { unlink(path_.c_str()); }

  std::unique_ptr<Runtime> record(FaultMechanism mechanism, Bytes budget) const {
    RuntimeOptions options;
    options.budget = budget;
    options.faults = mechanism;
    options.spill_dir = ".";
    options.record = path_;
    options.record_meta = "{\"torch\": \"none\"}";
    auto runtime = Runtime::create(options);
    if (!runtime) {
      ADD_FAILURE() << runtime.error().message();
      _exit(2);
    }
    return std::move(*runtime);
  }

  std::string path_;
};

void use(Runtime& runtime, SiteId site, const Tensor& tensor, Access access, std::uint8_t flags = 0) {
  const Operand operand = tensor.operand(access);
  ASSERT_TRUE(runtime.op_begin(site, {&operand, 1}, flags).ok());
  runtime.op_end();
}

TEST_F(RuntimeRecordTest, WhatTheProgramDoesIsInTheTrace) {
  in_child([this](FaultMechanism mechanism) {
    auto runtime = record(mechanism, kAmple);
    runtime->sample({{"length", {3, 4}}});
    runtime->name_site(7, "aten::mm");
    runtime->name_site(7, "another");
    const Tensor large = birth(*runtime, 2 * kMiB, 1), small = birth(*runtime, 800, 2);
    const int outside = 0;
    const Operand operands[] = {large.operand(Access::kRead), {small.data + 10, 8, Access::kWrite},
                                {&outside, sizeof outside, Access::kRead}};
    ASSERT_TRUE(runtime->op_begin(7, operands, trace::kInBackward | trace::kUsesRng).ok());
    ASSERT_TRUE(runtime->op_begin(8, {}, trace::kPiece).ok());
    runtime->op_end();
    runtime->op_end();
    runtime->expose(large.data, large.bytes);
    auto pins = runtime->pin(large.data, large.bytes);
    ASSERT_TRUE(pins.ok());
    Runtime::unpin(*pins);
    runtime->hint(small.data, small.bytes, true);
    runtime->step();
    Runtime::deallocate(small.data);
    constexpr std::size_t kMapped = 4 * kMiB;
    void* const mapped = mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_TRUE(runtime->adopt(mapped, kMapped, [](void*) {}, nullptr));
    Runtime::deallocate_adopted(mapped);
    ASSERT_TRUE(runtime->shutdown().ok());
    Runtime::deallocate(large.data);  // after the end

    const Read got = read(path_);
    EXPECT_EQ(got.wrong, "");
    EXPECT_EQ(got.kinds(),
              "meta, sample, site name, op begin, wait, birth, op end, op begin, wait, birth, op end, op begin, "
              "op begin, op end, op end, exposed, pin, unpin, hint, step, death, adoption, death, end, ");
    EXPECT_EQ(got.events[0].text, "{\"torch\": \"none\"}");
    EXPECT_EQ(got.events[2].text, "aten::mm");
    const auto births = got.of(Kind::kBirth);
    EXPECT_EQ(births[0].plain.bytes, 2 * kMiB);
    EXPECT_EQ(births[1].plain.bytes, 800);
    EXPECT_EQ(got.events[4].plain.cause, trace::WaitCause::kPages);  // nothing was there yet
    EXPECT_GT(got.events[4].plain.duration, 0);
    const trace::OwnedEvent op = got.events[11];
    EXPECT_EQ(op.plain.site, 7U);
    EXPECT_EQ(op.plain.op_flags, trace::kInBackward | trace::kUsesRng);
    EXPECT_EQ(op.operands, (std::vector<trace::Operand>{{0, Access::kRead}, {1, Access::kWrite}}));
    EXPECT_EQ(got.events[12].plain.op_flags, trace::kPiece);
    EXPECT_EQ(got.totals.foreign_operands, 1U);
    const Recorded recorded = Runtime::end_recording();
    EXPECT_EQ(recorded.error, "");
    EXPECT_EQ(recorded.path, path_);
    EXPECT_EQ(recorded.ops, 4U);
    EXPECT_EQ(recorded.steps, 1U);
    EXPECT_EQ(recorded.bytes, got.file_bytes);
  });
}

TEST_F(RuntimeRecordTest, WhatASampleSaysGoesToTheEngineAlsoWhereNothingIsRecorded) {
  in_child([this](FaultMechanism mechanism) {
    const std::string path = path_ + ".log";
    for (const bool recorded : {false, true}) {
      RuntimeOptions options;
      options.budget = kAmple;
      options.faults = mechanism;
      options.spill_dir = ".";
      options.decision_log = path;
      if (recorded) options.record = path_;
      auto runtime = Runtime::create(options);
      ASSERT_TRUE(runtime.ok()) << runtime.error().message();
      (*runtime)->sample({{"length", {3, 0.5}}});
      ASSERT_TRUE((*runtime)->shutdown().ok());
      const double numbers[] = {3, 0.5};
      const trace::Feature feature{"length", numbers};
      std::ifstream file(path);
      int samples = 0;
      Input input;
      InputLists lists;
      for (std::string line; std::getline(file, line);) {
        if (!parse_input(line + "\n", input, lists) || input.kind != Input::Kind::kSample) continue;
        ++samples;
        EXPECT_EQ(lists.sample, trace::encode_sample({&feature, 1}));
        EXPECT_GT(input.now, 0);
      }
      EXPECT_EQ(samples, 1) << recorded;
      unlink(path.c_str());
    }
    EXPECT_EQ(read(path_).of(Kind::kSample).size(), 1U);
  });
}

// Ops, births and deaths as they may come, among them raw accesses; the same for one seed.
void program(Runtime& runtime, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> live;
  for (int i = 0; i < 600; ++i) {
    if (live.size() < 30) live.push_back(birth(runtime, 8 * (1 + random() % (random() % 2 == 0 ? 300'000 : 500)), random()));
    const Tensor& t = live[random() % live.size()];
    use(runtime, random() % 50, t, random() % 2 == 0 ? Access::kWrite : Access::kRead);
    if (random() % 8 == 0) {
      ASSERT_TRUE(live[random() % live.size()].right());
    }
    if (random() % 16 == 0) {
      auto pins = runtime.pin(t.data, t.bytes);
      ASSERT_TRUE(pins.ok());
      Runtime::unpin(*pins);
    }
    if (random() % 3 == 0) {
      const std::size_t index = random() % live.size();
      Runtime::deallocate(live[index].data);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
    }
    if (i % 100 == 99) runtime.step();
  }
  for (const Tensor& t : live) Runtime::deallocate(t.data);
}

// What must not depend on the budget.
trace::Events done_by_program(const Read& trace) {
  trace::Events kept;
  for (trace::OwnedEvent event : trace.events) {
    const Kind kind = event.plain.kind;
    if (kind == Kind::kWait || kind == Kind::kRawAccess || kind == Kind::kUntracked) continue;
    event.plain.time = 0;
    kept.push_back(event);
  }
  return kept;
}

TEST_F(RuntimeRecordTest, TheProgramIsTheSameUnderASmallerBudget) {
  in_child([this](FaultMechanism mechanism) {
    trace::Events ample;
    for (const Bytes budget : {kAmple, 12 * kMiB}) {
      auto runtime = record(mechanism, budget);
      program(*runtime, 5);
      const Stats stats = runtime->stats();
      ASSERT_TRUE(runtime->shutdown().ok());
      const Read got = read(path_);
      ASSERT_EQ(got.wrong, "");
      EXPECT_EQ(got.totals.steps, 6U);
      EXPECT_EQ(got.totals.births, got.totals.deaths);
      Nanos waited = 0;
      bool raw_waits = false;
      for (const trace::OwnedEvent& wait : got.of(Kind::kWait)) {
        const bool raw = wait.plain.cause == trace::WaitCause::kRawAccess;
        raw_waits |= raw;
        if (!raw) waited += wait.plain.duration;
      }
      if (budget == kAmple) {
        ample = done_by_program(got);
        EXPECT_EQ(stats.evictions, 0);
        continue;
      }
      EXPECT_GT(stats.evictions, 0);
      EXPECT_GE(waited, stats.stall);
      EXPECT_GT(stats.stall, 0);
      std::set<Nanos> raw;  // one page fault may be of several small storages
      for (const trace::OwnedEvent& access : got.of(Kind::kRawAccess)) raw.insert(access.plain.time);
      EXPECT_GT(raw.size(), 0U);
      EXPECT_EQ(raw.size(), static_cast<std::size_t>(stats.raw_faults));
      EXPECT_TRUE(raw_waits);
      EXPECT_TRUE(done_by_program(got) == ample);
    }
  });
}

TEST_F(RuntimeRecordTest, AFullDiskStopsNothingAndIsToldAtTheEnd) {
  in_child([this](FaultMechanism mechanism) {
    auto runtime = record(mechanism, kAmple);
    const traces::FileLimit limit(16 * 1024);
    const Tensor t = birth(*runtime, 2 * kMiB, 3);
    std::mt19937_64 random(1);
    for (int i = 0; i < 30'000; ++i) use(*runtime, random(), t, Access::kRead);
    EXPECT_TRUE(t.right());
    ASSERT_TRUE(runtime->shutdown().ok());
    EXPECT_NE(Runtime::end_recording().error.find("cannot be written: File too large"), std::string::npos);
    Runtime::deallocate(t.data);
    runtime = make(mechanism, kAmple, "lookahead");
    EXPECT_EQ(Runtime::end_recording().path, "") << "this session records nothing";
  });
}

TEST_F(RuntimeRecordTest, AProgramThatIsKilledLeavesATraceThatIsCutOff) {
  for (const FaultMechanism mechanism : mechanisms()) {
    const pid_t child = fork();
    if (child == 0) {
      auto runtime = record(mechanism, kAmple);
      const Tensor t = birth(*runtime, 2 * kMiB, 3);
      std::mt19937_64 random(1);
      // More than both buffers hold: some of it is in the file.
      for (std::size_t i = 0; i < TraceRecorder::kBufferRecords; ++i) use(*runtime, random(), t, Access::kRead);
      kill(getpid(), SIGKILL);
    }
    waitpid(child, nullptr, 0);
    const Read got = read(path_);
    EXPECT_NE(got.wrong.find("cut off"), std::string::npos) << got.wrong;
    EXPECT_GT(got.of(Kind::kOpBegin).size(), 1000U);
  }
}

TEST_F(RuntimeRecordTest, AForkedChildRecordsNothing) {
  in_child([this](FaultMechanism mechanism) {
    auto runtime = record(mechanism, kAmple);
    const Tensor t = birth(*runtime, 2 * kMiB, 3);
    for (int i = 0; i < 3; ++i) {
      use(*runtime, 7, t, Access::kRead);
      const pid_t child = fork();
      if (child == 0) {
        use(*runtime, 9, t, Access::kRead);
        Runtime::deallocate(*runtime->allocate(100));
        runtime->step();
        EXPECT_EQ(Runtime::end_recording().path, "");
        runtime.reset();
        std::fflush(nullptr);  // as exit() does
        _exit(t.right() && !testing::Test::HasFailure() ? 0 : 1);
      }
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ASSERT_TRUE(runtime->shutdown().ok());
    const Read got = read(path_);
    EXPECT_EQ(got.wrong, "");
    EXPECT_EQ(got.totals.ops, 4U);
    EXPECT_EQ(got.totals.steps, 0U);
  });
}

// At the end of a process: other threads may be in the middle of an op, and go on.
TEST_F(RuntimeRecordTest, ATraceThatEndsBeforeTheSessionMakesSense) {
  in_child([this](FaultMechanism mechanism) {
    auto runtime = record(mechanism, kAmple);
    const Tensor t = birth(*runtime, 2 * kMiB, 3);
    std::thread([&] {
      ASSERT_TRUE(runtime->op_begin(1, {}, 0).ok());
      ASSERT_TRUE(runtime->op_begin(2, {}, 0).ok());
      EXPECT_EQ(Runtime::end_recording().ops, 3U);
      runtime->op_end();
      runtime->op_end();
    }).join();
    use(*runtime, 7, t, Access::kWrite);
    EXPECT_EQ(Runtime::end_recording().ops, 3U);
    const Read got = read(path_);
    EXPECT_EQ(got.wrong, "");
    EXPECT_EQ(got.of(Kind::kOpEnd).size(), 3U);
    EXPECT_TRUE(runtime->shutdown().ok());
  });
}

TEST_F(RuntimeRecordTest, WhatAnEarlierSessionLeftIsAdopted) {
  in_child([this](FaultMechanism mechanism) {
    auto runtime = make(mechanism, kAmple, "lookahead");
    runtime->name_site(7, "aten::mm");
    const Tensor large = birth(*runtime, 2 * kMiB, 1), small = birth(*runtime, 800, 2);
    runtime.reset();
    runtime = record(mechanism, kAmple);
    use(*runtime, 7, large, Access::kRead);
    use(*runtime, 7, small, Access::kRead);
    Runtime::deallocate(small.data);
    runtime.reset();
    const Read got = read(path_);
    EXPECT_EQ(got.wrong, "");
    EXPECT_EQ(got.kinds(), "meta, site name, adoption, adoption, op begin, op end, op begin, op end, death, end, ");
    EXPECT_EQ(got.totals.born_bytes, 2 * kMiB + 832) << "small ones in whole granules";
    EXPECT_EQ(got.totals.foreign_operands, 0U);
  });
}

TEST_F(RuntimeRecordTest, ARiseThatIsNoTensorIsInTheTrace) {
  SKIP_UNDER_TSAN("its shadow memory grows with ours and is no part of a budget");
  in_child([this](FaultMechanism mechanism) {
    auto runtime = record(mechanism, kAmple);
    ASSERT_TRUE(runtime->op_begin(8, {}, 0).ok());
    runtime->op_end();
    usleep(50'000);  // it is looked at every 5 ms
    ASSERT_TRUE(runtime->op_begin(9, {}, 0).ok());
    std::vector<char> scratch(64 * kMiB, 1);
    usleep(50'000);
    runtime->op_end();
    scratch = {};
    ASSERT_TRUE(runtime->op_begin(8, {}, 0).ok());
    usleep(50'000);
    runtime->op_end();
    runtime.reset();
    const Read got = read(path_);
    EXPECT_EQ(got.wrong, "");
    Bytes most = 0;
    for (const trace::OwnedEvent& rise : got.of(Kind::kUntracked)) {
      if (rise.plain.site == 9) most = std::max(most, rise.plain.bytes);
    }
    EXPECT_GE(most, 60 * kMiB);
  });
}

TEST_F(RuntimeRecordTest, AFileThatCannotBeMadeIsRefused) {
  in_child([](FaultMechanism mechanism) {
    RuntimeOptions options;
    options.budget = kAmple;
    options.faults = mechanism;
    options.spill_dir = ".";
    options.record = "/proc/none/run.trace";
    const auto refused = Runtime::create(options);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message().find("the trace /proc/none/run.trace cannot be made"), std::string::npos);
    options.record.clear();
    EXPECT_TRUE(Runtime::create(options).ok());
  });
}

}  // namespace
}  // namespace outsize::host
