#include "planners/dtr/score.h"

#include <bit>

namespace outsize::dtr {
namespace {

constexpr int kDigits = 56;  // of the quotient: 53 for a double, and enough to see how to round
constexpr Wide kExact = Wide{1} << 53;

int width(Wide value) {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  if (high != 0) return 64 + std::bit_width(high);
  return std::bit_width(static_cast<std::uint64_t>(value));
}

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

}  // namespace

double nearest_quotient(std::int64_t numerator, Wide denominator) {
  if (numerator == 0) return 0.0;
  const bool negative = numerator < 0;
  const auto bits = static_cast<std::uint64_t>(numerator);
  Wide rest = negative ? 0 - bits : bits;
  double quotient = 0.0;
  if (rest <= kExact && denominator <= kExact) {
    quotient = static_cast<double>(static_cast<std::uint64_t>(rest)) /
               static_cast<double>(static_cast<std::uint64_t>(denominator));
  } else {
    // Written division in base two. Both are shifted to the same width, so that the first digit is
    // the one before or after the point; a last digit says whether anything is left.
    const int shift = width(denominator) - width(rest);
    if (shift >= 0) rest <<= shift;
    if (shift < 0) denominator <<= -shift;
    std::uint64_t digits = 0;
    for (int i = 0; i < kDigits; ++i) {
      const bool fits = rest >= denominator;
      if (fits) rest -= denominator;
      digits = digits << 1 | (fits ? 1U : 0U);
      rest <<= 1;
    }
    digits = digits << 1 | (rest != 0 ? 1U : 0U);
    quotient = static_cast<double>(digits) * power_of_two(-shift - kDigits);
  }
  return negative ? -quotient : quotient;
}

}  // namespace outsize::dtr
