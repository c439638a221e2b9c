// Results inside, exceptions only at the API's edge. g++ 12 has no std::expected, so this is the
// small part of it that we use.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace outsize {

enum class ErrorCode : unsigned char {
  kInvalidArgument,  // the caller asked for something that makes no sense
  kOutOfBudget,      // an op needs more than the budget allows
  kOutOfSpace,       // the spill file cannot grow
  kIo,               // a read or a write failed
  kUnsupported,      // this machine or this torch cannot do it
  kInternal,         // a broken promise of ours
};

// What happened, where, and what to try: each a full sentence for the person at the keyboard.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string what;
  std::string where;
  std::string hint;
  std::string who{};  // the op that `what` goes on to tell of; empty: `what` stands alone
  std::int64_t needs = 0;  // bytes that would have done, where there were too few and it is known

  std::string message() const {
    std::string text = who + what;
    if (!where.empty()) text += " [" + where + "]";
    if (!hint.empty()) text += " " + hint;
    return text;
  }
};

template <class T = std::monostate>
class [[nodiscard]] Result {
 public:
  Result() requires std::is_default_constructible_v<T> : value_(std::in_place_index<0>) {}
  Result(T value) : value_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : value_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return value_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() { return std::get<0>(value_); }
  const T& value() const { return std::get<0>(value_); }
  T* operator->() { return &value(); }
  T& operator*() { return value(); }
  const Error& error() const { return std::get<1>(value_); }

 private:
  std::variant<T, Error> value_;
};

using Status = Result<>;

}  // namespace outsize
