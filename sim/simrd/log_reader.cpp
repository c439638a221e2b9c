#include "sim/simrd/log_reader.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "sim/simrd/json_line.h"

namespace outsize::sim::simrd {
namespace {

constexpr std::string_view kCutShort = "the log ends in the middle of an op";

Error wrong(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what), "", ""}; }

std::string_view without_tail(std::string_view line) {
  const auto last = line.find_last_not_of(" \t\r\n\v\f");
  return last == line.npos ? std::string_view{} : line.substr(0, last + 1);
}

// Whole numbers only; a number that is written with a fraction is cut off, as Python's int() does.
std::optional<std::int64_t> integer(std::string_view text, bool is_number) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto whole = std::from_chars(text.data(), end, value);
  if (whole.ec == std::errc{} && whole.ptr == end) return value;
  double real = 0;
  if (!is_number) return std::nullopt;
  const auto read = std::from_chars(text.data(), end, real);
  if (read.ec != std::errc{} || read.ptr != end || real < -0x1p62 || real > 0x1p62) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(real);
}

class LogReader {
 public:
  LogReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Result<Program> read();

 private:
  bool next_line();  // false at the end; trouble_ may say why
  bool find_start();
  Error located(const Error& error) const;
  Status instruction();
  Status constant();
  Status call();
  Status mutate();
  Status names(Status (ProgramBuilder::*action)(std::string_view, std::string_view));
  Result<std::string_view> follows(std::string_view instruction, std::string_view name);
  Result<std::string> text_of(const char* key) const;
  Result<std::int64_t> number_of(const char* key) const;
  Result<std::vector<std::string>> list_of(const char* key) const;

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::size_t line_ = 0;  // from 1
  JsonLine json_;
  std::optional<Error> trouble_;
  ProgramBuilder builder_;
};

Error LogReader::located(const Error& error) const {
  // What a broken file holds is not for a terminal.
  std::string what = error.what.substr(0, 200);
  for (char& letter : what) {
    if (letter < 0x20 || letter > 0x7e) letter = '?';
  }
  return wrong("line " + std::to_string(std::max<std::size_t>(line_, 1)) + " of " + name_ +
               " cannot be read: " + what + ".");
}

bool LogReader::next_line() {
  if (at_ >= text_.size()) return false;
  ++line_;
  const std::size_t end = std::min(text_.find('\n', at_), text_.size());
  const std::string_view line = without_tail(text_.substr(at_, end - at_));
  at_ = end + 1;
  if (line.empty()) {
    trouble_ = located(wrong("it is empty"));
    return false;
  }
  if (Status fine = json_.read(line); !fine) {
    trouble_ = located(wrong("it is no JSON: " + fine.error().what));
    return false;
  }
  return true;
}

Result<std::string> LogReader::text_of(const char* key) const {
  const JsonValue* value = json_.find(key);
  if (!value || value->kind != JsonValue::kString) {
    return wrong(std::string("it has no ") + key + " that is a string");
  }
  return std::string(value->text);
}

Result<std::int64_t> LogReader::number_of(const char* key) const {
  const JsonValue* value = json_.find(key);
  const bool is_number = value && value->kind == JsonValue::kNumber;
  if (is_number || (value && value->kind == JsonValue::kString)) {
    if (auto number = integer(value->text, is_number)) return *number;
  }
  return wrong(std::string("it has no ") + key + " that is an integer");
}

Result<std::vector<std::string>> LogReader::list_of(const char* key) const {
  const JsonValue* value = json_.find(key);
  if (!value || value->kind != JsonValue::kArray || !value->plain_items) {
    return wrong(std::string("it has no ") + key + " that is a list");
  }
  return std::vector<std::string>(value->items.begin(), value->items.end());
}

// The lines before START are looked at for nothing but whether they can be read.
bool LogReader::find_start() {
  while (next_line()) {
    auto kind = text_of("INSTRUCTION"), annotation = text_of("ANNOTATION");
    if (kind.ok() && *kind == "ANNOTATE" && annotation.ok() && *annotation == "START") return true;
  }
  if (trouble_) return false;
  at_ = line_ = 0;  // it has none
  return true;
}

Result<Program> LogReader::read() {
  if (!find_start()) return *trouble_;
  while (next_line()) {
    const Status fine = instruction();
    if (trouble_) break;
    if (!fine) return located(fine.error());
  }
  if (trouble_) return *trouble_;
  Result<Program> program = builder_.finish();
  if (!program) return located(program.error());
  if (program->ops.empty()) return located(wrong("the log holds no op"));
  return program;
}

Status LogReader::names(Status (ProgramBuilder::*action)(std::string_view, std::string_view)) {
  auto to = text_of("DST"), from = text_of("SRC");
  if (!to) return to.error();
  if (!from) return from.error();
  return (builder_.*action)(*to, *from);
}

Status LogReader::instruction() {
  auto kind = text_of("INSTRUCTION");
  if (!kind) return kind.error();
  if (*kind == "CALL") return call();
  if (*kind == "MUTATE") return mutate();
  if (*kind == "CONSTANT") return constant();
  if (*kind == "COPY") return names(&ProgramBuilder::copy);
  if (*kind == "COPY_FROM") return names(&ProgramBuilder::copy_from);
  if (*kind == "RELEASE") {
    auto name = text_of("NAME");
    return name.ok() ? builder_.release(*name) : Status(name.error());
  }
  if (*kind == "ANNOTATE") return {};
  if (*kind == "MEMORY" || *kind == "ALIAS") {
    return wrong("a " + *kind + " stands where no op's results are listed");
  }
  return wrong("the instruction '" + *kind + "' is not known");
}

// The next line, which must be this instruction about this name.
Result<std::string_view> LogReader::follows(std::string_view instruction, std::string_view name) {
  if (!next_line()) {
    if (!trouble_) trouble_ = located(wrong(std::string(kCutShort)));
    return *trouble_;
  }
  auto kind = text_of("INSTRUCTION"), about = text_of("NAME");
  if (kind.ok() && *kind == instruction && about.ok() && *about == name) return instruction;
  return wrong("the " + std::string(instruction) + " of '" + std::string(name) + "' is expected");
}

Status LogReader::constant() {
  auto name = text_of("NAME");
  if (!name) return name.error();
  if (auto found = follows("MEMORY", *name); !found) return found.error();
  auto bytes = number_of("MEMORY");
  if (!bytes) return bytes.error();
  return builder_.constant(*name, *bytes);
}

Status LogReader::call() {
  auto operands = list_of("ARGS"), results = list_of("RESULT");
  auto time = number_of("TIME");
  if (!operands) return operands.error();
  if (!results) return results.error();
  if (!time) return time.error();
  std::vector<ProgramBuilder::ResultSpec> specs;
  for (const std::string& name : *results) {
    if (auto found = follows("MEMORY", name); !found) return found.error();
    auto bytes = number_of("MEMORY");
    if (!bytes) return bytes.error();
    if (auto found = follows("ALIAS", name); !found) return found.error();
    auto alias = number_of("ALIAS");
    if (!alias) return alias.error();
    specs.push_back({name, *bytes, *alias});
  }
  const ProgramBuilder::Names names(operands->begin(), operands->end());
  return builder_.call(specs, names, *time);
}

Status LogReader::mutate() {
  auto operands = list_of("ARGS"), written = list_of("MUTATE");
  auto time = number_of("TIME");
  if (!operands) return operands.error();
  if (!written) return written.error();
  if (!time) return time.error();
  std::vector<std::int64_t> indices;
  for (const std::string& text : *written) {
    auto index = integer(text, true);
    if (!index) return wrong("'" + text + "' is no index of an operand");
    indices.push_back(*index);
  }
  const ProgramBuilder::Names names(operands->begin(), operands->end());
  return builder_.mutate(names, indices, *time);
}

}  // namespace

Result<Program> read_log(std::string_view text, const std::string& name) {
  return LogReader(text, name).read();
}

Result<Program> read_log_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  std::string text;
  bool failed = !file;
  while (!failed) {
    char piece[1 << 16];
    const std::size_t got = std::fread(piece, 1, sizeof piece, file.get());
    text.append(piece, got);
    if (got < sizeof piece) {
      failed = std::ferror(file.get()) != 0;
      break;
    }
  }
  if (failed) {
    return Error{ErrorCode::kIo, path + " cannot be read: " + std::strerror(errno) + ".", "", ""};
  }
  return read_log(text, path);
}

}  // namespace outsize::sim::simrd
