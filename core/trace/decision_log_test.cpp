#include "core/trace/decision_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace outsize {
namespace {

template <class Write>
std::string line_of(Write write) {
  std::string line;
  DecisionLog log([&](std::string_view text) { line += text; });
  write(log);
  return line;
}

TEST(DecisionLog, WhatWasLeftBehindComesBackAsItWas) {
  Extent extent;
  extent.where = Where::kResident;
  extent.bytes = Bytes{1} << 41;
  extent.last_use = 77;
  extent.born = 12;
  extent.pins = 2;
  for (const bool flag : {false, true}) {
    extent.shared = flag;
    extent.exposed = !flag;
    const std::string line = line_of([&](DecisionLog& log) { log.left_over(0, extent); });
    ExtentId id = 5;
    Extent back;
    ASSERT_TRUE(parse_left_over(line, id, back)) << line;
    EXPECT_EQ(id, 0U);
    EXPECT_EQ(back.where, Where::kResident);
    EXPECT_EQ(back.bytes, extent.bytes);
    EXPECT_EQ(back.last_use, extent.last_use);
    EXPECT_EQ(back.born, extent.born);
    EXPECT_EQ(back.pins, extent.pins);
    EXPECT_EQ(back.shared, extent.shared);
    EXPECT_EQ(back.exposed, extent.exposed);
  }
  ExtentId id = 0;
  Extent none;
  for (const char* line : {"", "=\n", "= b5\n", "= e1 x4\n", "> op e1\n"}) {
    EXPECT_FALSE(parse_left_over(line, id, none)) << line;
  }
}

TEST(DecisionLog, EveryInputComesBackAsItWas) {
  constexpr auto kLast = static_cast<int>(Input::Kind::kSample);
  const OperandRef operands[] = {{7, Access::kRead}, {0, Access::kWrite}, {7, Access::kWrite}};
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  const std::int64_t sample[] = {kLeast, 3, 0, -1, ~kLeast};
  for (int kind = 0; kind <= kLast; ++kind) {
    for (const bool full : {false, true}) {
      Input input;
      input.kind = static_cast<Input::Kind>(kind);
      if (full) {
        input.flag = kind % 2 == 0;
        input.in_backward = kind % 3 == 0;
        input.thread = 3;
        input.extent = static_cast<ExtentId>(kind);
        input.bytes = Bytes{1} << 41;
        input.site = ~SiteId{0};
        input.now = 1'234'567'890'123;
        input.operands = operands;
        input.sample = sample;
      }
      Input back;
      InputLists kept;
      const std::string line = line_of([&](DecisionLog& log) { log.input(input); });
      ASSERT_TRUE(parse_input(line, back, kept)) << line;
      EXPECT_EQ(back.kind, input.kind) << line;
      EXPECT_EQ(back.flag, input.flag) << line;
      EXPECT_EQ(back.in_backward, input.in_backward) << line;
      EXPECT_EQ(back.thread, input.thread) << line;
      EXPECT_EQ(back.extent, input.extent) << line;
      EXPECT_EQ(back.bytes, input.bytes) << line;
      EXPECT_EQ(back.site, input.site) << line;
      EXPECT_EQ(back.now, input.now) << line;
      ASSERT_EQ(back.operands.size(), input.operands.size()) << line;
      for (std::size_t i = 0; i < kept.operands.size(); ++i) {
        EXPECT_EQ(kept.operands[i].extent, operands[i].extent);
        EXPECT_EQ(kept.operands[i].access, operands[i].access);
      }
      EXPECT_TRUE(std::ranges::equal(back.sample, input.sample)) << line;
      EXPECT_EQ(line_of([&](DecisionLog& log) { log.input(back); }), line);
    }
  }
}

TEST(DecisionLog, EveryCommandComesBackAsItWas) {
  constexpr auto kLast = static_cast<int>(Command::Kind::kFatal);
  for (int kind = 0; kind <= kLast; ++kind) {
    for (const bool full : {false, true}) {
      Command command;
      command.kind = static_cast<Command::Kind>(kind);
      if (full) {
        command.flag = kind % 2 == 0;
        command.urgency = static_cast<Urgency>(kind % 4);
        command.refusal = static_cast<Refusal>(kind % 2);
        command.thread = 9;
        command.extent = static_cast<ExtentId>(kind);
        command.bytes = 12345;
      }
      Command back;
      const std::string line = line_of([&](DecisionLog& log) { log.command(command); });
      ASSERT_TRUE(parse_command(line, back)) << line;
      EXPECT_EQ(back.kind, command.kind) << line;
      EXPECT_EQ(back.flag, command.flag) << line;
      EXPECT_EQ(back.urgency, command.urgency) << line;
      EXPECT_EQ(back.refusal, command.refusal) << line;
      EXPECT_EQ(back.thread, command.thread) << line;
      EXPECT_EQ(back.extent, command.extent) << line;
      EXPECT_EQ(back.bytes, command.bytes) << line;
    }
  }
}

TEST(DecisionLog, TheHeaderComesBackAsItWas) {
  const std::string line = line_of([](DecisionLog& log) { log.header("lookahead", 1000, 20, 30); });
  LogHeader header;
  ASSERT_TRUE(parse_header(line, header)) << line;
  EXPECT_EQ(header.policy, "lookahead");
  EXPECT_EQ(header.budget, 1000);
  EXPECT_EQ(header.reading_max, 20);
  EXPECT_EQ(header.writing_max, 30);
  EXPECT_FALSE(parse_header(line.substr(0, line.size() - 4), header)) << "a number is missing";
}

TEST(DecisionLog, WhatIsNoLineIsRefused) {
  Input input;
  Command command;
  InputLists lists;
  for (const char* line : {"", "> ", "> dance\n", "> op tx\n", "> op q5\n", "< op\n", "op\n"}) {
    EXPECT_FALSE(parse_input(line, input, lists)) << line;
  }
  for (const char* line : {"", "< ", "< dance\n", "< grant tx\n", "< grant q5\n", "> grant\n"}) {
    EXPECT_FALSE(parse_command(line, command)) << line;
  }
}

TEST(DecisionLog, LinesAreShort) {
  Input input;
  input.kind = Input::Kind::kOpEnd;
  EXPECT_EQ(line_of([&](DecisionLog& log) { log.input(input); }), "> end\n");
}

}  // namespace
}  // namespace outsize
