#include "core/trace/raw_events.h"

#include <gtest/gtest.h>

#include "core/trace/trace_test_rig.h"
#include "core/trace/trace_validator.h"

namespace outsize::trace {
namespace {

using Raw = RawEvent::Kind;

class RawEvents : public testing::Test {
 public:  // the tests chain calls of raw()
  RawEvents() : encoder_(into(blocks_)), translator_(encoder_, 1000) {}

  RawEvents& raw(Raw kind, std::uint64_t a, std::uint64_t b = 0, std::uint8_t flags = 0, ThreadId thread = 0) {
    RawEvent event;
    event.kind = kind;
    event.a = a;
    event.b = b;
    event.flags = flags;
    event.thread = thread;
    events_.push_back(event);
    return *this;
  }
  void birth(std::uint64_t time, std::uint64_t address, std::uint64_t bytes) {
    raw(Raw::kBirth, time).raw(Raw::kRange, address, bytes);
  }

  // The trace as text, "time event what": in batches of so many records.
  std::vector<std::string> lines(std::size_t batch = 1000) {
    for (std::size_t at = 0; at < events_.size(); at += batch) {
      const std::size_t size = std::min(batch, events_.size() - at);
      EXPECT_TRUE(translator_.translate(std::span(events_).subspan(at, size), texts_).ok());
    }
    EXPECT_TRUE(translator_.finish(9000, 5).ok());
    const Decoded all = decoded(blocks_);
    EXPECT_EQ(all.error, "");
    totals_ = all.totals;
    Validator validator;
    std::vector<std::string> lines;
    for (const OwnedEvent& owned : all.events) {
      borrowed(owned, [&](const Event& event) { validator.event(event); });
      lines.push_back(line(owned));
    }
    validator.finish(all.totals);
    EXPECT_EQ(validator.found(), 0U);
    for (const Problem& problem : validator.problems()) ADD_FAILURE() << problem.event << ": " << problem.what;
    return lines;
  }

  static std::string line(const OwnedEvent& owned) {
    const Event& event = owned.plain;
    std::string text = std::to_string(event.time) + " " + to_string(event.kind);
    if (event.storage != kNoStorage) text += " " + std::to_string(event.storage);
    for (const Operand& operand : owned.operands) {
      text += (operand.access == Access::kWrite ? " w" : " r") + std::to_string(operand.storage);
    }
    return text + (event.flag ? " flag" : "") + (owned.text.empty() ? "" : " " + owned.text);
  }

  std::vector<RawEvent> events_;
  std::vector<RawText> texts_;
  Blocks blocks_;
  Encoder encoder_;
  Translator translator_;
  Totals totals_;
};

using Lines = std::vector<std::string>;

TEST_F(RawEvents, AddressesBecomeStorages) {
  birth(1000, 0x10000, 256);
  birth(1001, 0x20000, 64);
  raw(Raw::kOpBegin, 1002, 77, kUsesRng);
  raw(Raw::kOperand, 0x10000, 256);                                             // all of it
  raw(Raw::kOperand, 0x10080, 16, static_cast<std::uint8_t>(Access::kWrite));  // a view
  raw(Raw::kOperand, 0x20000, 64);
  raw(Raw::kOperand, 0x30000, 64);    // NumPy's
  raw(Raw::kOperand, 0x1ffc0, 64);    // ends where storage 1 begins
  raw(Raw::kOperand, 0x10000, 0x10001);  // over both, and what lies between
  raw(Raw::kOperand, 0x10000, 256);   // as at first
  raw(Raw::kOpEnd, 1003);
  const Lines whole = {"0 birth 0", "1 birth 1", "2 op begin r0 w0 r1 r0 r1 r0", "3 op end", "8000 end"};
  EXPECT_EQ(lines(), whole);
  EXPECT_EQ(totals_.foreign_operands, 2U);
  EXPECT_EQ(totals_.held_up, 5);
}

TEST_F(RawEvents, AnOpMayBeCutByTheEndOfABatch) {
  birth(1000, 0x10000, 256);
  raw(Raw::kOpBegin, 1002, 77).raw(Raw::kOperand, 0x10000, 8).raw(Raw::kOperand, 0x10008, 8);
  raw(Raw::kOpEnd, 1003);
  const Lines whole = {"0 birth 0", "2 op begin r0 r0", "3 op end", "8000 end"};
  EXPECT_EQ(lines(1), whole);
}

TEST_F(RawEvents, AnAddressThatIsUsedAgainIsAnotherStorage) {
  birth(1000, 0x10000, 256);
  raw(Raw::kOpBegin, 1001, 1).raw(Raw::kOperand, 0x10000, 8).raw(Raw::kOpEnd, 1002);
  raw(Raw::kDeath, 1003, 0x10000);
  raw(Raw::kOpBegin, 1004, 1).raw(Raw::kOperand, 0x10000, 8).raw(Raw::kOpEnd, 1005);
  birth(1006, 0x10000, 128);
  raw(Raw::kOpBegin, 1007, 1).raw(Raw::kOperand, 0x10000, 8).raw(Raw::kOpEnd, 1008);
  raw(Raw::kDeath, 1009, 0x10000);
  raw(Raw::kDeath, 1010, 0x10000);  // not ours, or born before recording
  const Lines whole = {"0 birth 0", "1 op begin r0", "2 op end", "3 death 0", "4 op begin", "5 op end",
                       "6 birth 1", "7 op begin r1", "8 op end", "9 death 1", "8000 end"};
  EXPECT_EQ(lines(), whole);
  EXPECT_EQ(translator_.living(), 0U);
}

TEST_F(RawEvents, WhatLiesWhereSomethingIsBornHasDied) {
  birth(1000, 0x10000, 256);
  birth(1000, 0x10100, 256);
  raw(Raw::kAdopt, 1005, 0, 1).raw(Raw::kRange, 0x10080, 256);
  const Lines whole = {"0 birth 0", "0 birth 1", "5 death 0", "5 death 1", "5 adoption 2 flag", "8000 end"};
  EXPECT_EQ(lines(), whole);
}

TEST_F(RawEvents, RangesAreEveryStorageInThem) {
  birth(1000, 0x10000, 256);
  birth(1000, 0x10100, 256);
  birth(1000, 0x20000, 256);
  raw(Raw::kExpose, 1001).raw(Raw::kRange, 0x10000, 512);
  raw(Raw::kRawAccess, 1002, 0, 1).raw(Raw::kRange, 0x10110, 1);
  raw(Raw::kPin, 1003).raw(Raw::kRange, 0x20000, 256);
  raw(Raw::kUnpin, 1004).raw(Raw::kRange, 0x20000, 256);
  raw(Raw::kUnpin, 1004).raw(Raw::kRange, 0x20000, 256);  // was not pinned: says nothing
  raw(Raw::kHint, 1005, 0, 1).raw(Raw::kRange, 0x20000, 4);
  const Lines whole = {"0 birth 0", "0 birth 1", "0 birth 2", "1 exposed 0", "1 exposed 1", "2 raw access 1 flag",
                       "3 pin 2", "4 unpin 2", "5 hint 2 flag", "8000 end"};
  EXPECT_EQ(lines(), whole);
}

TEST_F(RawEvents, WhatHasNoBytesIsNoStorage) {
  birth(1000, 0x10000, 256);
  birth(1001, 0x10080, 0);
  birth(1001, 0, 0);
  raw(Raw::kExpose, 1002).raw(Raw::kRange, 0x10080, 0);
  raw(Raw::kOpBegin, 1003, 1).raw(Raw::kOperand, 0x10080, 0).raw(Raw::kOpEnd, 1004);
  raw(Raw::kDeath, 1005, 0);
  const Lines whole = {"0 birth 0", "3 op begin", "4 op end", "8000 end"};
  EXPECT_EQ(lines(), whole);
  EXPECT_EQ(totals_.foreign_operands, 0U);
}

TEST_F(RawEvents, TextsWaitsAndStepsComeThrough) {
  texts_ = {{RawText::Kind::kMeta, 0, "{}", {}}, {RawText::Kind::kSiteName, 7, "aten::mm", {}},
            {RawText::Kind::kSample, 0, "", {{"length", {3, 4}}}}};
  raw(Raw::kText, 1000, 0).raw(Raw::kText, 1001, 1).raw(Raw::kText, 1002, 2);
  raw(Raw::kWait, 1400, 300, static_cast<std::uint8_t>(WaitCause::kRawAccess));
  raw(Raw::kUntracked, 1500, 7).raw(Raw::kRange, 0, 4096);
  raw(Raw::kStep, 1600);
  const Lines whole = {"0 meta {}", "1 site name aten::mm", "2 sample", "400 wait", "500 untracked", "600 step",
                       "8000 end"};
  EXPECT_EQ(lines(), whole);
  const Events events = decoded(blocks_).events;
  EXPECT_EQ(events[2].features, (std::vector<OwnedFeature>{{"length", {3, 4}}}));
  EXPECT_EQ(events[3].plain.duration, 300);
  EXPECT_EQ(events[3].plain.cause, WaitCause::kRawAccess);
  EXPECT_EQ(events[4].plain.site, 7U);
  EXPECT_EQ(events[4].plain.bytes, 4096);
}

TEST_F(RawEvents, ClocksThatWereReadInTheOtherOrderDoNotGoBack) {
  raw(Raw::kStep, 1500, 0, 0, 1).raw(Raw::kStep, 1400, 0, 0, 2);
  const Lines whole = {"500 step", "500 step", "8000 end"};
  EXPECT_EQ(lines(), whole);
}

}  // namespace
}  // namespace outsize::trace
