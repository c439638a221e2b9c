#include "core/trace/decision_log.h"

#include <charconv>

namespace outsize {
namespace {

constexpr const char* kInputNames[] = {"op",    "end",    "alloc", "touch", "adopt",
                                       "death", "read",   "wrote", "fault", "expose",
                                       "pin",   "unpin",  "step",  "plan",  "budget",
                                       "hint",  "noslot", "sample"};
constexpr const char* kCommandNames[] = {"grant",   "refuse", "evict",   "fetch",  "install",
                                         "abandon", "write",  "unguard", "forget", "release",
                                         "resume",  "promote", "fatal"};
constexpr std::string_view kHeader = "# outsize decisions 1: ";
constexpr std::string_view kModel = " model ", kRun = " run ";
constexpr std::size_t kInputKinds = std::size(kInputNames);
constexpr std::size_t kCommandKinds = std::size(kCommandNames);

void append(std::string& line, std::uint64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  line.append(digits, end);
}

bool number(std::string_view& rest, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc{}) return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return true;
}

// The rest of a line, ` ` tag number each: what `take(tag, value)` says to them all.
template <class Take>
bool fields(std::string_view line, Take take) {
  while (line.size() > 2 && line[0] == ' ') {
    const char tag = line[1];
    line.remove_prefix(2);
    std::uint64_t value = 0;
    if (!number(line, value) || !take(tag, value)) return false;
  }
  return true;
}

// Takes it from the front of `line`; empty where `name` does not stand there.
std::string word_behind(std::string_view name, std::string_view& line) {
  if (!line.starts_with(name)) return {};
  line.remove_prefix(name.size());
  const std::string_view word = line.substr(0, line.find_first_of(" \n"));
  line.remove_prefix(word.size());
  return std::string(word);
}

}  // namespace

const char* to_string(Input::Kind kind) { return kInputNames[static_cast<std::size_t>(kind)]; }
const char* to_string(Command::Kind kind) { return kCommandNames[static_cast<std::size_t>(kind)]; }

void DecisionLog::field(const char* name, std::uint64_t value) {
  if (value == 0) return;
  line_ += name;
  append(line_, value);
}

void DecisionLog::header(std::string_view policy, Bytes budget, Bytes reading_max, Bytes writing_max,
                         std::string_view model, std::string_view run) {
  line_.assign(kHeader).append(policy);
  for (Bytes bytes : {budget, reading_max, writing_max}) {
    line_ += ' ';
    append(line_, static_cast<std::uint64_t>(bytes));
  }
  if (!model.empty()) line_.append(kModel).append(model);
  if (!run.empty()) line_.append(kRun).append(run);
  line_ += '\n';
  sink_(line_);
}

void DecisionLog::left_over(ExtentId id, const Extent& extent) {
  line_.assign("=");
  field(" e", id + 1ULL);
  field(" b", static_cast<std::uint64_t>(extent.bytes));
  field(" u", extent.last_use);
  field(" n", extent.born);
  field(" p", extent.pins);
  field(" f", (extent.shared ? 1U : 0U) | (extent.exposed ? 2U : 0U));
  line_ += '\n';
  sink_(line_);
}

void DecisionLog::input(const Input& input) {
  line_.assign("> ");
  line_ += to_string(input.kind);
  field(" t", input.thread);
  field(" e", input.extent + 1ULL == 1ULL << 32 ? 0 : input.extent + 1ULL);
  field(" b", static_cast<std::uint64_t>(input.bytes));
  field(" s", input.site);
  field(" n", static_cast<std::uint64_t>(input.now));
  field(" f", (input.flag ? 1U : 0U) | (input.in_backward ? 2U : 0U));
  field(" g", input.graph);
  for (const OperandRef& operand : input.operands) {
    line_ += operand.access == Access::kWrite ? " w" : " r";
    append(line_, operand.extent);
  }
  for (const std::int64_t value : input.sample) {
    line_ += " v";
    append(line_, static_cast<std::uint64_t>(value));
  }
  line_ += '\n';
  sink_(line_);
}

void DecisionLog::command(const Command& command) {
  line_.assign("< ");
  line_ += to_string(command.kind);
  field(" t", command.thread);
  field(" e", command.extent + 1ULL == 1ULL << 32 ? 0 : command.extent + 1ULL);
  field(" b", static_cast<std::uint64_t>(command.bytes));
  field(" u", static_cast<std::uint64_t>(command.urgency));
  field(" r", static_cast<std::uint64_t>(command.refusal));
  field(" f", (command.flag ? 1U : 0U) | (command.at_once ? 2U : 0U));
  line_ += '\n';
  sink_(line_);
}

bool parse_header(std::string_view line, LogHeader& header) {
  if (!line.starts_with(kHeader)) return false;
  line.remove_prefix(kHeader.size());
  const std::size_t end = line.find(' ');
  if (end == std::string_view::npos) return false;
  header.policy = line.substr(0, end);
  line.remove_prefix(end);
  for (Bytes* field : {&header.budget, &header.reading_max, &header.writing_max}) {
    std::uint64_t value = 0;
    if (line.empty() || line[0] != ' ') return false;
    line.remove_prefix(1);
    if (!number(line, value)) return false;
    *field = static_cast<Bytes>(value);
  }
  header.model = word_behind(kModel, line);
  header.run = word_behind(kRun, line);
  return true;
}

bool parse_left_over(std::string_view line, ExtentId& id, Extent& extent) {
  if (!line.starts_with("= ")) return false;
  line.remove_prefix(1);
  id = kNoExtent;
  extent = Extent{};
  extent.where = Where::kResident;
  const bool whole = fields(line, [&](char tag, std::uint64_t value) {
    switch (tag) {
      case 'e': id = static_cast<ExtentId>(value - 1); break;
      case 'b': extent.bytes = static_cast<Bytes>(value); break;
      case 'u': extent.last_use = value; break;
      case 'n': extent.born = value; break;
      case 'p': extent.pins = static_cast<std::uint32_t>(value); break;
      case 'f':
        extent.shared = (value & 1) != 0;
        extent.exposed = (value & 2) != 0;
        break;
      default: return false;
    }
    return true;
  });
  return whole && id != kNoExtent;
}

bool parse_input(std::string_view line, Input& input, InputLists& lists) {
  if (!line.starts_with("> ")) return false;
  line.remove_prefix(2);
  const std::size_t end = line.find_first_of(" \n");
  const std::string_view name = line.substr(0, end);
  input = Input{};
  std::size_t kind = 0;
  while (kind < kInputKinds && name != kInputNames[kind]) ++kind;
  if (kind == kInputKinds) return false;
  input.kind = static_cast<Input::Kind>(kind);
  lists.operands.clear();
  lists.sample.clear();
  line.remove_prefix(name.size());
  const bool whole = fields(line, [&](char tag, std::uint64_t value) {
    switch (tag) {
      case 't': input.thread = static_cast<ThreadId>(value); break;
      case 'e': input.extent = static_cast<ExtentId>(value - 1); break;
      case 'b': input.bytes = static_cast<Bytes>(value); break;
      case 's': input.site = value; break;
      case 'n': input.now = static_cast<Nanos>(value); break;
      case 'g': input.graph = value; break;
      case 'f': input.flag = value & 1; input.in_backward = (value & 2) != 0; break;
      case 'r': lists.operands.push_back({static_cast<ExtentId>(value), Access::kRead}); break;
      case 'w': lists.operands.push_back({static_cast<ExtentId>(value), Access::kWrite}); break;
      case 'v': lists.sample.push_back(static_cast<std::int64_t>(value)); break;
      default: return false;
    }
    return true;
  });
  input.operands = lists.operands;
  input.sample = lists.sample;
  return whole;
}

bool parse_command(std::string_view line, Command& command) {
  if (!line.starts_with("< ")) return false;
  line.remove_prefix(2);
  const std::string_view name = line.substr(0, line.find_first_of(" \n"));
  command = Command{};
  std::size_t kind = 0;
  while (kind < kCommandKinds && name != kCommandNames[kind]) ++kind;
  if (kind == kCommandKinds) return false;
  command.kind = static_cast<Command::Kind>(kind);
  line.remove_prefix(name.size());
  return fields(line, [&](char tag, std::uint64_t value) {
    switch (tag) {
      case 't': command.thread = static_cast<ThreadId>(value); break;
      case 'e': command.extent = static_cast<ExtentId>(value - 1); break;
      case 'b': command.bytes = static_cast<Bytes>(value); break;
      case 'u': command.urgency = static_cast<Urgency>(value); break;
      case 'r': command.refusal = static_cast<Refusal>(value); break;
      case 'f': command.flag = value & 1; command.at_once = (value & 2) != 0; break;
      default: return false;
    }
    return true;
  });
}

}  // namespace outsize
