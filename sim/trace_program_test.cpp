// A recorded run becomes a program that the simulated driver plays.
#include "sim/trace_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "core/trace/sample.h"
#include "sim/sim_driver.h"
#include "sim/training_program.h"

namespace outsize::sim {
namespace {

using trace::Event;

class TraceProgramTest : public testing::Test {
 protected:
  TraceProgramTest() : path_("trace_program_test-" + std::to_string(getpid()) + ".trace") {
    auto made = traces::FileWriter::create(path_);
    file_ = std::move(*made);
  }
  ~TraceProgramTest() override { std::remove(path_.c_str()); }

  // `after` the event before.
  Event event(Event::Kind kind, Nanos after = 0, ThreadId thread = 0) {
    Event e;
    e.kind = kind;
    e.thread = thread;
    e.time = now_ += after;
    return e;
  }
  void put(const Event& e) { ASSERT_TRUE(file_->encoder().write(e).ok()); }
  void op(SiteId site, std::vector<trace::Operand> operands, Nanos waited = 0, ThreadId thread = 0) {
    if (waited > 0) {
      Event wait = event(Event::Kind::kWait, waited, thread);
      wait.duration = waited;
      put(wait);
    }
    Event e = event(Event::Kind::kOpBegin, 10, thread);
    e.site = site;
    e.operands = operands;
    put(e);
  }
  void end(Nanos took, ThreadId thread = 0) { put(event(Event::Kind::kOpEnd, took, thread)); }
  trace::StorageId birth(Bytes bytes, Event::Kind kind = Event::Kind::kBirth, bool file = false) {
    Event e = event(kind);
    e.flag = file;
    e.storage = next_++;
    e.bytes = bytes;
    put(e);
    return e.storage;
  }
  void death(trace::StorageId storage) {
    Event e = event(Event::Kind::kDeath);
    e.storage = storage;
    put(e);
  }
  TraceProgram program(const Roofline* device = nullptr, ObjectIs object = ObjectIs::kExtent) {
    EXPECT_TRUE(file_->encoder().finish(now_).ok());
    EXPECT_TRUE(file_->close().ok());
    auto read = read_trace_program(path_, nullptr, device, object);
    EXPECT_TRUE(read.ok()) << read.error().message();
    return read.ok() ? std::move(*read) : TraceProgram{};
  }
  static std::string kinds(const std::vector<Action>& actions) {
    std::string text;
    for (const Action& action : actions) {
      text += std::string(text.empty() ? "" : " ");
      switch (action.kind) {
        case Action::Kind::kOpBegin: text += "op"; break;
        case Action::Kind::kOpEnd: text += "end"; break;
        case Action::Kind::kBirth: text += "birth:" + std::to_string(action.object); break;
        case Action::Kind::kShare: text += "share:" + std::to_string(action.object); break;
        case Action::Kind::kDeath: text += "death:" + std::to_string(action.object); break;
        case Action::Kind::kWork: text += "work:" + std::to_string(action.duration); break;
        case Action::Kind::kAdopt: text += "adopt:" + std::to_string(action.object); break;
        case Action::Kind::kStep: text += "step"; break;
        case Action::Kind::kSample: text += "sample"; break;
        default: text += "other";
      }
    }
    return text;
  }

  std::string path_;
  std::unique_ptr<traces::FileWriter> file_;
  Nanos now_ = 0;
  trace::StorageId next_ = 0;
};

TEST_F(TraceProgramTest, WaitsAreLeftOutAndTimeIsKept) {
  Event name = event(Event::Kind::kSiteName);
  name.site = 7;
  name.text = "aten::add";
  put(name);
  const auto adopted = birth(kMiB + 1, Event::Kind::kAdopt);
  op(7, {{adopted, Access::kRead}}, 5000);
  const auto born = birth(2 * kMiB);
  end(300);
  put(event(Event::Kind::kStep));
  death(born);
  const TraceProgram read = program();
  ASSERT_EQ(read.program.threads.size(), 1U);
  EXPECT_EQ(kinds(read.program.threads[0]), "op birth:0 end work:10 op birth:1 work:300 end step death:1");
  EXPECT_EQ(read.program.threads[0][1].bytes, kMiB + kPageBytes) << "whole pages";
  EXPECT_EQ(read.program.threads[0][4].operands.size(), 1U);
  EXPECT_EQ(read.peak, 3 * kMiB + kPageBytes);
  EXPECT_EQ(read.duration, 310);
  EXPECT_EQ(read.ops, 1U);
  EXPECT_EQ(read.steps, 1U);
  EXPECT_EQ(read.names.at(7), "aten::add");
}

// An op alone takes what the roofline says; a composite what its parts take; nothing passes between ops.
TEST_F(TraceProgramTest, OnAnotherDeviceOpsTakeTheTimeOfItsRoofline) {
  Event name = event(Event::Kind::kSiteName);
  name.site = 7;
  name.text = "aten::mm [1000x1000], [1000x1000]";
  put(name);
  const auto a = birth(4'000'000), b = birth(4'000'000);
  op(1, {{a, Access::kRead}}, 5000);  // a composite
  op(7, {{a, Access::kRead}, {b, Access::kRead}, {a, Access::kRead}});
  const auto product = birth(4'000'000);
  end(300);
  op(2, {{product, Access::kWrite}});  // bound by its bytes
  end(300);
  end(17);
  op(3, {});
  end(1'000'000);
  const Roofline device{1'000'000, 100'000, 5'000};
  const TraceProgram read = program(&device);
  EXPECT_EQ(kinds(read.program.threads[0]), "op birth:0 end op birth:1 end op op birth:2 work:2000000 end "
                                            "op work:40000 end end op work:5000 end");
  EXPECT_EQ(read.duration, 2'045'000);
}

TEST_F(TraceProgramTest, SmallStoragesShareExtentsWithTheirLike) {
  op(1, {});
  const auto soon = birth(100), later = birth(kLargeBytes / 2), soon_too = birth(100);
  end(1);
  death(soon), death(soon_too);
  for (int i = 0; i < 3; ++i) put(event(Event::Kind::kStep));
  op(2, {{later, Access::kWrite}});
  end(1);
  death(later);
  EXPECT_EQ(kinds(program().program.threads[0]),
            "work:10 op birth:0 share:0 birth:1 share:1 share:0 work:1 end step step step work:10 op work:1 end")
      << "an extent that takes births stays";
}

TEST_F(TraceProgramTest, WhatIsAdoptedComesInPieces) {
  const auto file = birth(5 * kMiB, Event::Kind::kAdopt, true);
  op(1, {{file, Access::kRead}});
  end(1);
  death(file);
  const TraceProgram read = program();
  EXPECT_EQ(kinds(read.program.threads[0]),
            "adopt:0 adopt:1 adopt:2 work:10 op work:1 end death:0 death:1 death:2");
  EXPECT_EQ(read.program.threads[0][4].operands.size(), 3U);
  EXPECT_TRUE(read.program.threads[0][0].flag) << "it lies below";
}

TEST_F(TraceProgramTest, StoragesStayWhatTheyWereForAModelWithAnAllocatorOfItsOwn) {
  op(1, {});
  const trace::StorageId small = birth(100);
  const trace::StorageId large = birth(kLargeBytes + 1);
  end(5);
  death(small);
  birth(5 * kMiB, Event::Kind::kAdopt);
  op(2, {{large, Access::kRead}});
  end(5);
  const TraceProgram read = program(nullptr, ObjectIs::kStorage);
  const auto& actions = read.program.threads[0];
  EXPECT_EQ(kinds(actions), "work:10 op birth:0 birth:1 work:5 end death:0 op adopt:2 end work:10 op work:5 end");
  EXPECT_EQ(actions[2].bytes, 100);
  EXPECT_EQ(actions[3].bytes, kLargeBytes + 1);
  EXPECT_EQ(read.peak, kLargeBytes + 1 + 5 * kMiB);
}

TEST_F(TraceProgramTest, BirthsOutsideOpsAreGivenOne) {
  birth(kMiB);
  EXPECT_EQ(kinds(program().program.threads[0]), "op birth:0 end");
}

// As with the live driver, where an extent is born and not where a small storage finds room in one.
TEST_F(TraceProgramTest, SmallBirthsOutsideOpsAreGivenOneWhereTheyNeedAnExtent) {
  birth(100);
  birth(100);
  EXPECT_EQ(kinds(program().program.threads[0]), "op birth:0 end share:0 share:0");
}

TEST_F(TraceProgramTest, ThreadsThatRunOpsAtOnceKeepTheirRows) {
  const auto a = birth(kMiB, Event::Kind::kAdopt);
  op(1, {{a, Access::kRead}});
  op(2, {{a, Access::kRead}}, 0, 5);
  end(100, 5);
  end(50);
  const TraceProgram read = program();
  EXPECT_TRUE(read.threads_overlap);
  ASSERT_EQ(read.program.threads.size(), 2U);
  EXPECT_EQ(kinds(read.program.threads[0]), "op birth:0 end work:10 op work:160 end");
  EXPECT_EQ(kinds(read.program.threads[1]), "work:20 op work:100 end");
}

// The thread that bears it waits for room; the one that buries it does not.
TEST_F(TraceProgramTest, WhatDiesOnAnotherThreadIsGoneThoughItsBirthWaited) {
  std::vector<trace::StorageId> weights;
  for (int i = 0; i < 16; ++i) weights.push_back(birth(4 * kMiB, Event::Kind::kAdopt));
  op(1, {}, 0, 5), op(2, {});  // at once, so each keeps its row
  end(1, 5), end(1);
  for (int i = 0; i < 200; ++i) {
    op(3, {{weights[static_cast<std::size_t>(i % 16)], Access::kWrite}});
    const auto scratch = birth(kMiB);
    end(1000);
    Event e = event(Event::Kind::kDeath, 10, 5);
    e.storage = scratch;
    put(e);
  }
  const TraceProgram read = program();
  ASSERT_TRUE(read.threads_overlap);
  SimOptions options;
  options.budget = 40 * kMiB;
  SimDriver driver(read.program, options);
  const SimResult result = driver.run();
  EXPECT_EQ(result.problems, std::vector<std::string>{});
  EXPECT_LE(result.stats.resident + result.stats.below, 2 * 64 * kMiB) << "only the weights are left, and copies of them";
}

TEST_F(TraceProgramTest, WhatMakesNoSenseIsRefused) {
  death(birth(kMiB));
  death(0);
  ASSERT_TRUE(file_->encoder().finish(now_).ok());
  ASSERT_TRUE(file_->close().ok());
  const auto read = read_trace_program(path_);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(read.error().message().find("makes no sense: event 2: "), std::string::npos) << read.error().message();
}

TEST_F(TraceProgramTest, SamplesAreTold) {
  const double numbers[] = {3, 0.5};
  const trace::Feature feature{"length", numbers};
  Event sample = event(Event::Kind::kSample);
  sample.features = {&feature, 1};
  put(sample);
  op(1, {});
  end(30);
  const TraceProgram read = program();
  ASSERT_EQ(kinds(read.program.threads[0]), "sample work:10 op work:30 end");
  EXPECT_EQ(read.program.threads[0][0].sample, trace::encode_sample({&feature, 1}));
  SimOptions options;
  options.budget = kMiB;
  options.keep_log = true;
  SimDriver driver(read.program, options);
  const SimResult result = driver.run();
  EXPECT_TRUE(result.problems.empty());
  EXPECT_EQ(result.time, 40) << "it takes no time";
  EXPECT_NE(result.log.find("> sample v"), std::string::npos);
}

// Weights that are read forth and back: what half the budget costs, and that the judge is content.
TEST_F(TraceProgramTest, TheSimulatedDriverPlaysIt) {
  std::vector<trace::StorageId> weights;
  for (int i = 0; i < 16; ++i) weights.push_back(birth(4 * kMiB, Event::Kind::kAdopt));
  for (int step = 0; step < 4; ++step) {
    for (int i = 0; i < 32; ++i) {
      const auto weight = weights[static_cast<std::size_t>(i < 16 ? i : 31 - i)];
      op(static_cast<SiteId>(100 + i), {{weight, Access::kWrite}});
      const auto scratch = birth(1000);
      end(5'000'000);
      death(scratch);
    }
    put(event(Event::Kind::kStep));
  }
  const TraceProgram read = program();
  const auto play = [&](Bytes budget) {
    SimOptions options;
    options.budget = budget;
    SimDriver driver(read.program, options);
    SimResult result = driver.run();
    for (const std::string& problem : result.problems) ADD_FAILURE() << problem;
    return result;
  };
  const SimResult ample = play(2 * read.peak), half = play(read.peak / 2);
  EXPECT_EQ(ample.stats.writes, 0);
  EXPECT_EQ(ample.time, read.duration);
  EXPECT_GT(half.stats.writes, 0);
  EXPECT_GE(half.time, read.duration);
  EXPECT_LE(half.peak, read.peak / 2);
  EXPECT_EQ(half.stats.ops, ample.stats.ops);
}

}  // namespace
}  // namespace outsize::sim
