// Reads one line of JSON whose top is an object of strings, integers and arrays of these: what the
// lines of DTR's public logs are. Anything else that is valid JSON is passed over; what is not
// JSON is an error that says where on the line.
//
// Views point into the line, or, where a string had escapes, into the reader; both must outlive
// their use.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace outsize::sim::simrd {

struct JsonValue {
  enum Kind : std::uint8_t { kString, kNumber, kArray, kOther };
  Kind kind = kOther;
  std::string_view text;                // a string's content, or a number as it is written
  std::vector<std::string_view> items;  // of an array: strings and numbers
  bool plain_items = true;              // false where the array holds something else
};

class JsonLine {
 public:
  // Forgets the last line.
  Status read(std::string_view line);
  // Null where there is no such key. Of a key given twice the last counts.
  const JsonValue* find(std::string_view key) const;

 private:
  struct Field {
    std::string_view key;
    JsonValue value;
  };
  bool object();
  bool value(JsonValue& into, int depth);
  bool array(JsonValue& into, int depth);
  bool skip_object(int depth);
  bool string(std::string_view& into);
  bool escaped(std::string_view& into, std::size_t begin);
  bool code_point(std::string& text);
  bool hex4(unsigned& code);
  bool number(std::string_view& into);
  bool word();
  void space();
  bool take(char expected);
  bool fail(const char* what);

  std::string_view line_;
  std::size_t at_ = 0;
  const char* wrong_ = nullptr;
  std::vector<Field> fields_;
  std::size_t used_ = 0;             // of fields_, which is kept for the next line
  std::deque<std::string> decoded_;  // strings that had escapes
};

}  // namespace outsize::sim::simrd
