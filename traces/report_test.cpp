#include "traces/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "core/trace/trace_test_rig.h"
#include "traces/trace_file.h"

namespace outsize::traces {
namespace {

using trace::Event;

class TraceReport : public testing::Test {
 protected:
  TraceReport()
      : path_(testing::TempDir() + "outsize_report_" + std::to_string(getpid()) + ".trace"), out_(path_ + ".out") {}
  ~TraceReport() override {
    unlink(path_.c_str());
    unlink(out_.c_str());
  }

  Event& add(Event::Kind kind, Nanos time, ThreadId thread = 0) {
    events_.emplace_back();
    Event& event = events_.back().plain;
    event.kind = kind;
    event.time = time;
    event.thread = thread;
    return event;
  }
  void born(Nanos time, trace::StorageId storage, Bytes bytes) {
    Event& event = add(Event::Kind::kBirth, time);
    event.storage = storage;
    event.bytes = bytes;
  }
  void begins(Nanos time, SiteId site, ThreadId thread = 0) { add(Event::Kind::kOpBegin, time, thread).site = site; }
  void dies(Nanos time, trace::StorageId storage) { add(Event::Kind::kDeath, time).storage = storage; }

  void write(Nanos end) {
    auto writer = FileWriter::create(path_);
    ASSERT_TRUE(writer.ok());
    for (const trace::OwnedEvent& owned : events_) {
      ASSERT_TRUE(trace::borrowed(owned, [&](const Event& event) { return (*writer)->encoder().write(event); }).ok());
    }
    ASSERT_TRUE((*writer)->encoder().finish(end).ok());
    ASSERT_TRUE((*writer)->close().ok());
  }
  std::string exported(ExportFormat format) {
    const Status status = export_trace(path_, format, out_);
    if (!status) return status.error().message();
    std::ifstream file(out_);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }

  std::string path_, out_;
  trace::Events events_;
};

TEST_F(TraceReport, TimesOfNestedOpsAreTheirOwn) {
  begins(100, 1);
  begins(110, 2);
  begins(115, 1, 7);  // another thread
  add(Event::Kind::kOpEnd, 140);
  add(Event::Kind::kOpEnd, 150);
  add(Event::Kind::kOpEnd, 165, 7);
  write(200);
  auto summary = summarize(path_);
  ASSERT_TRUE(summary.ok());
  ASSERT_EQ(summary->longest.size(), 2U);
  EXPECT_EQ(summary->longest[0].site, 1U);
  EXPECT_EQ(summary->longest[0].self, 20 + 50);
  EXPECT_EQ(summary->longest[0].ops, 2U);
  EXPECT_EQ(summary->longest[1].self, 30);
  EXPECT_EQ(summary->threads, 2U);
  EXPECT_EQ(summary->sites, 2U);
  EXPECT_EQ(summary->duration, 200);
}

TEST_F(TraceReport, ThePeakIsWhenMostLives) {
  born(1, 0, 100);
  born(2, 1, 50);
  dies(3, 0);
  born(4, 2, 99);
  dies(5, 1);
  write(6);
  auto summary = summarize(path_);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->peak_bytes, 150);
  EXPECT_EQ(summary->peak_time, 2);
  EXPECT_EQ(summary->alive_bytes, 99);
}

TEST_F(TraceReport, ProblemsAreFound) {
  born(1, 0, 8);
  dies(2, 0);
  dies(3, 0);
  write(4);
  auto verdict = validate(path_);
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->found, 1U);
  EXPECT_EQ(verdict->problems[0].what, "storage 0 dies after its death.");
}

TEST_F(TraceReport, NamesAreQuoted) {
  Event& name = add(Event::Kind::kSiteName, 0);
  name.site = 5;
  events_.back().text = "aten::mm [2x3, \"x\"]\n";
  begins(1, 5);
  born(2, 0, 64);
  add(Event::Kind::kOpEnd, 3);
  write(4);
  EXPECT_EQ(exported(ExportFormat::kMemory),
            "time_ns,alive_bytes,change_bytes,storage,birth_op\n2,64,64,0,\"aten::mm [2x3, \"\"x\"\"]\n\"\n");
  EXPECT_NE(exported(ExportFormat::kChrome).find("\"name\":\"aten::mm [2x3, \\\"x\\\"]\\u000a\""), std::string::npos);
}

TEST_F(TraceReport, ASiteWithoutANameHasItsNumber) {
  begins(1, 0xabc);
  add(Event::Kind::kOpEnd, 3);
  add(Event::Kind::kOpEnd, 3);  // of none: no slice ends twice
  write(4);
  const std::string drawn = exported(ExportFormat::kChrome);
  EXPECT_NE(drawn.find("\"name\":\"site 0000000000000abc\""), std::string::npos);
  EXPECT_EQ(drawn.find("\"ph\":\"E\""), drawn.rfind("\"ph\":\"E\""));
}

TEST_F(TraceReport, WhatIsCancelledLeavesNoExport) {
  begins(1, 1);
  add(Event::Kind::kOpEnd, 3);
  write(4);
  const auto at_once = [] { return true; };
  for (const ExportFormat format : {ExportFormat::kChrome, ExportFormat::kMemory}) {
    EXPECT_FALSE(export_trace(path_, format, out_, at_once).ok());
    EXPECT_NE(access(out_.c_str(), F_OK), 0);
  }
  EXPECT_FALSE(summarize(path_, at_once).ok());
  EXPECT_FALSE(validate(path_, at_once).ok());
  EXPECT_TRUE(validate(path_, [] { return false; }).ok());
}

TEST_F(TraceReport, ADamagedTraceLeavesNoExport) {
  begins(1, 1);
  write(4);
  ASSERT_EQ(truncate(path_.c_str(), 60), 0);
  EXPECT_NE(exported(ExportFormat::kChrome).find("cut off"), std::string::npos);
  EXPECT_NE(access(out_.c_str(), F_OK), 0);
  EXPECT_FALSE(summarize(path_).ok());
  EXPECT_FALSE(validate(path_).ok());
  EXPECT_NE(export_trace(path_, ExportFormat::kMemory, path_).error().message().find(path_), std::string::npos);
  EXPECT_EQ(access(path_.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace outsize::traces
