// The decision log: every input and every command, one short line each, in order. Two runs that
// got the same inputs have the same log, byte for byte; replaying the inputs through another driver
// must reproduce it. The driver decides where the bytes go.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/input.h"
#include "core/residency/extent.h"

namespace outsize {

class DecisionLog {
 public:
  using Sink = std::function<void(std::string_view)>;
  explicit DecisionLog(Sink sink) : sink_(std::move(sink)) { line_.reserve(256); }

  // The first line: what a replay needs to know besides the inputs.
  // `model`, `run`: the names of what the policy began with, learnt or recorded; empty: nothing.
  void header(std::string_view policy, Bytes budget, Bytes reading_max, Bytes writing_max,
              std::string_view model = {}, std::string_view run = {});
  // After the header, a line for each extent that an earlier session of the process left behind: resident.
  void left_over(ExtentId id, const Extent& extent);
  void input(const Input& input);
  void command(const Command& command);

 private:
  void field(const char* name, std::uint64_t value);
  Sink sink_;
  std::string line_;
};

struct LogHeader {
  std::string policy, model, run;
  Bytes budget = 0, reading_max = 0, writing_max = 0;
};
bool parse_header(std::string_view line, LogHeader& header);
// Reads the line of an extent left behind; false where it is none.
bool parse_left_over(std::string_view line, ExtentId& id, Extent& extent);
// What an input that was read back points to.
struct InputLists {
  std::vector<OperandRef> operands;
  std::vector<std::int64_t> sample;
};
// Reads one input line back; false where the line is not an input. `lists` keeps what it points to.
bool parse_input(std::string_view line, Input& input, InputLists& lists);
// Reads one command line back; false where the line is not a command.
bool parse_command(std::string_view line, Command& command);

}  // namespace outsize
