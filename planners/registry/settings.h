// What stands behind the colon of a policy's name: "deepum:chaining=off,degree=16". A size is a decimal
// number within bounds, a switch is on or off, a choice is one of its words.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace outsize {

struct Setting {
  Setting(const char* of, bool& is_on) : name(of), on(&is_on) {}
  Setting(const char* of, std::uint32_t& is, std::uint32_t from, std::uint32_t to)
      : name(of), size(&is), least(from), most(to) {}
  Setting(const char* of, std::uint32_t& is, std::span<const char* const> among) : name(of), size(&is), words(among) {}

  const char* name;
  bool* on = nullptr;             // a switch ...
  std::uint32_t* size = nullptr;  // ... or a size, or which of `words`
  std::uint32_t least = 0, most = 0;
  std::span<const char* const> words = {};
};

// Writes to what they point at. What is wrong: the first that is unknown, or has no such value.
std::optional<std::string_view> read_settings(std::string_view text, std::span<const Setting> known);
// "Known: chaining=on or off, degree=1 to 4096, moves=all or weights."
std::string known_settings(std::span<const Setting> known);

}  // namespace outsize
