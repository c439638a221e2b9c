#include "sim/simrd/json_line.h"

namespace outsize::sim::simrd {
namespace {

constexpr int kDepthMax = 64;

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

void append_utf8(std::string& text, unsigned code) {
  auto add = [&](unsigned byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) return add(0xc0 | code >> 6), add(0x80 | (code & 0x3f));
  if (code < 0x10000) {
    return add(0xe0 | code >> 12), add(0x80 | (code >> 6 & 0x3f)), add(0x80 | (code & 0x3f));
  }
  add(0xf0 | code >> 18);
  add(0x80 | (code >> 12 & 0x3f));
  add(0x80 | (code >> 6 & 0x3f));
  add(0x80 | (code & 0x3f));
}

}  // namespace

Status JsonLine::read(std::string_view line) {
  line_ = line;
  at_ = 0;
  wrong_ = nullptr;
  used_ = 0;
  decoded_.clear();
  bool fine = object();
  if (fine) {
    space();
    if (at_ != line_.size()) fine = fail("the line goes on after its object");
  }
  if (fine) return {};
  const char* what = wrong_ ? wrong_ : "it is no object";
  return Error{ErrorCode::kInvalidArgument,
               std::string(at_ >= line_.size() ? "it ends too early" : what) + ", at column " +
                   std::to_string(at_ + 1),
               "", ""};
}

const JsonValue* JsonLine::find(std::string_view key) const {
  for (std::size_t i = used_; i-- > 0;) {
    if (fields_[i].key == key) return &fields_[i].value;
  }
  return nullptr;
}

bool JsonLine::fail(const char* what) {
  if (!wrong_) wrong_ = what;
  return false;
}

void JsonLine::space() {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) {
    ++at_;
  }
}

bool JsonLine::take(char expected) {
  space();
  if (at_ >= line_.size() || line_[at_] != expected) return false;
  ++at_;
  return true;
}

bool JsonLine::object() {
  if (!take('{')) return fail("it does not begin with an object");
  if (take('}')) return true;
  do {
    if (used_ == fields_.size()) fields_.emplace_back();
    Field& field = fields_[used_++];
    space();
    if (!string(field.key)) return fail("a key is expected");
    if (!take(':')) return fail("a colon is expected");
    if (!value(field.value, 0)) return false;
  } while (take(','));
  return take('}') || fail("a comma or a closing brace is expected");
}

bool JsonLine::value(JsonValue& into, int depth) {
  into.kind = JsonValue::kOther;
  space();
  if (at_ >= line_.size() || depth > kDepthMax) return fail("a value is expected");
  const char first = line_[at_];
  if (first == '"') {
    into.kind = JsonValue::kString;
    return string(into.text);
  }
  if (first == '-' || is_digit(first)) {
    into.kind = JsonValue::kNumber;
    return number(into.text);
  }
  if (first == '[') return array(into, depth);
  if (first == '{') return skip_object(depth);
  return word();
}

bool JsonLine::array(JsonValue& into, int depth) {
  into.kind = JsonValue::kArray;
  into.items.clear();
  into.plain_items = true;
  ++at_;
  if (take(']')) return true;
  do {
    JsonValue item;
    if (!value(item, depth + 1)) return false;
    const bool plain = item.kind == JsonValue::kString || item.kind == JsonValue::kNumber;
    into.plain_items = into.plain_items && plain;
    into.items.push_back(item.text);
  } while (take(','));
  return take(']') || fail("a comma or a closing bracket is expected");
}

bool JsonLine::skip_object(int depth) {
  ++at_;
  if (take('}')) return true;
  do {
    std::string_view key;
    JsonValue unused;
    space();
    if (!string(key)) return fail("a key is expected");
    if (!take(':')) return fail("a colon is expected");
    if (!value(unused, depth + 1)) return false;
  } while (take(','));
  return take('}') || fail("a comma or a closing brace is expected");
}

bool JsonLine::string(std::string_view& into) {
  if (at_ >= line_.size() || line_[at_] != '"') return false;
  const std::size_t begin = ++at_;
  for (; at_ < line_.size(); ++at_) {
    if (line_[at_] == '"') {
      into = line_.substr(begin, at_++ - begin);
      return true;
    }
    if (line_[at_] == '\\') return escaped(into, begin);
    if (static_cast<unsigned char>(line_[at_]) < 0x20)
      return fail("a control character in a string");
  }
  return fail("a string does not end");
}

// From the first escape on the string is decoded into memory of ours.
bool JsonLine::escaped(std::string_view& into, std::size_t begin) {
  std::string& text = decoded_.emplace_back(line_.substr(begin, at_ - begin));
  while (at_ < line_.size()) {
    const char letter = line_[at_++];
    if (letter == '"') {
      into = text;
      return true;
    }
    if (static_cast<unsigned char>(letter) < 0x20) return fail("a control character in a string");
    if (letter != '\\') {
      text += letter;
      continue;
    }
    if (at_ >= line_.size()) break;
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const char escape = line_[at_++];
    if (const auto place = kLetters.find(escape); place != kLetters.npos) {
      text += kMeanings[place];
    } else if (escape != 'u' || !code_point(text)) {
      return fail("an escape that is not known");
    }
  }
  return fail("a string does not end");
}

bool JsonLine::code_point(std::string& text) {
  unsigned code = 0, low = 0;
  if (!hex4(code)) return false;
  if (code >= 0xd800 && code < 0xdc00 && line_.substr(at_, 2) == "\\u") {
    const std::size_t before = at_;
    at_ += 2;
    if (hex4(low) && low >= 0xdc00 && low < 0xe000) {
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else {
      at_ = before;
    }
  }
  append_utf8(text, code);
  return true;
}

bool JsonLine::hex4(unsigned& code) {
  if (at_ + 4 > line_.size()) return false;
  code = 0;
  for (int i = 0; i < 4; ++i) {
    const char letter = line_[at_++];
    const char small = static_cast<char>(letter | 0x20);
    const bool hex = is_digit(letter) || (small >= 'a' && small <= 'f');
    if (!hex) return false;
    code = code * 16 + static_cast<unsigned>(is_digit(letter) ? letter - '0' : small - 'a' + 10);
  }
  return true;
}

bool JsonLine::number(std::string_view& into) {
  const std::size_t begin = at_;
  auto digits = [&] {
    const std::size_t first = at_;
    while (at_ < line_.size() && is_digit(line_[at_])) ++at_;
    return at_ > first;
  };
  auto next_is = [&](std::string_view letters) {
    return at_ < line_.size() && letters.find(line_[at_]) != letters.npos;
  };
  if (next_is("-")) ++at_;
  const std::size_t first = at_;
  if (!digits() || (line_[first] == '0' && at_ > first + 1)) return fail("a number is malformed");
  if (next_is(".")) {
    ++at_;
    if (!digits()) return fail("a number is malformed");
  }
  if (next_is("eE")) {
    ++at_;
    if (next_is("+-")) ++at_;
    if (!digits()) return fail("a number is malformed");
  }
  into = line_.substr(begin, at_ - begin);
  return true;
}

bool JsonLine::word() {
  for (std::string_view known : {"true", "false", "null"}) {
    if (line_.substr(at_, known.size()) == known) {
      at_ += known.size();
      return true;
    }
  }
  return fail("a value is expected");
}

}  // namespace outsize::sim::simrd
