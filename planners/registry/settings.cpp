#include "planners/registry/settings.h"

#include <algorithm>
#include <charconv>

namespace outsize {
namespace {

bool read_word(std::string_view value, const Setting& setting) {
  const auto found = std::find(setting.words.begin(), setting.words.end(), value);
  if (found == setting.words.end()) return false;
  *setting.size = static_cast<std::uint32_t>(found - setting.words.begin());
  return true;
}

bool read_value(std::string_view value, const Setting& setting) {
  if (setting.on != nullptr) {
    *setting.on = value == "on";
    return value == "on" || value == "off";
  }
  if (!setting.words.empty()) return read_word(value, setting);
  std::uint32_t size = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
  if (error != std::errc{} || end != value.data() + value.size()) return false;
  if (size < setting.least || size > setting.most) return false;
  *setting.size = size;
  return true;
}

bool read_one(std::string_view text, std::span<const Setting> known) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return false;
  for (const Setting& setting : known) {
    if (text.substr(0, equals) == setting.name) return read_value(text.substr(equals + 1), setting);
  }
  return false;
}

// "1 to 4096", "on or off", "single, greedy or greedy-star".
std::string values_of(const Setting& setting) {
  if (setting.on != nullptr) return "on or off";
  if (setting.words.empty()) return std::to_string(setting.least) + " to " + std::to_string(setting.most);
  std::string told;
  for (const char* const& word : setting.words) {
    if (&word != &setting.words.front()) told += &word == &setting.words.back() ? " or " : ", ";
    told += word;
  }
  return told;
}

}  // namespace

std::optional<std::string_view> read_settings(std::string_view text, std::span<const Setting> known) {
  bool more = !text.empty();
  while (more) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    if (!read_one(one, known)) return one;
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return std::nullopt;
}

std::string known_settings(std::span<const Setting> known) {
  std::string told = "Known: ";
  for (const Setting& setting : known) {
    if (&setting != known.data()) told += ", ";
    told += setting.name;
    told += "=" + values_of(setting);
  }
  return told + ".";
}

}  // namespace outsize
