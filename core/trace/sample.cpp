#include "core/trace/sample.h"

#include <bit>
#include <cmath>
#include <string_view>

namespace outsize::trace {
namespace {

std::int64_t hash_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return static_cast<std::int64_t>(hash);
}

std::int64_t whole_or_bits(double number) {
  const bool whole = std::abs(number) <= 0x1p53 && number == std::floor(number);
  return whole ? static_cast<std::int64_t>(number) : std::bit_cast<std::int64_t>(number);
}

}  // namespace

std::vector<std::int64_t> encode_sample(std::span<const Feature> features) {
  std::size_t size = 0;
  for (const Feature& feature : features) size += 2 + feature.numbers.size();
  std::vector<std::int64_t> sample;
  sample.reserve(size);
  for (const Feature& feature : features) {
    sample.push_back(hash_of(feature.name));
    sample.push_back(static_cast<std::int64_t>(feature.numbers.size()));
    for (const double number : feature.numbers) sample.push_back(whole_or_bits(number));
  }
  return sample;
}

bool is_sample(std::span<const std::int64_t> sample) {
  while (!sample.empty()) {
    if (sample.size() < 2 || sample[1] < 0) return false;
    const auto values = static_cast<std::size_t>(sample[1]);
    if (values > sample.size() - 2) return false;
    sample = sample.subspan(2 + values);
  }
  return true;
}

}  // namespace outsize::trace
