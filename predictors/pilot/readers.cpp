#include "predictors/pilot/readers.h"

#include <algorithm>
#include <bit>

#include "predictors/pilot/mix.h"

namespace outsize::pilot {
namespace {

enum How : std::uint64_t {
  kAtOwn, kAtAround, kAtAroundThat, kFirst, kLessFirst, kLessLength, kRoughly, kFirstAndOwn, kRoughlyAndOwn, kAtKin,
  kAtAroundKin, kAtPlace
};

// Numbers that differ by less than an eighth are mostly one.
std::int64_t roughly(std::int64_t value) {
  constexpr int kKept = 4;
  const auto size = static_cast<std::uint64_t>(value < 0 ? -(value + 1) : value);
  const int dropped = std::max(0, static_cast<int>(std::bit_width(size)) - kKept);
  const auto rough = static_cast<std::int64_t>(size >> dropped << dropped);
  return value < 0 ? -rough - 1 : rough;
}

std::int64_t less(std::int64_t own, std::int64_t than) {
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  return std::clamp<std::int64_t>(own - std::clamp(than, -kFar, kFar), -2, 2);
}

std::uint64_t key_of(ClassId choice, const Feature& feature, std::uint64_t how, std::int64_t value) {
  return mix(mix(mix(choice, feature.name), how + 16), static_cast<std::uint64_t>(value));
}

std::optional<std::uint64_t> read_place(const Sample& sample, ClassId choice, Reader place) {
  const Feature* const feature = sample.long_one();
  if (feature == nullptr || place >= feature->values.size()) return std::nullopt;
  return key_of(choice, *feature, kAtPlace + place, feature->values[place]);
}

}  // namespace

std::optional<std::uint64_t> read_at(const Sample& sample, const Trail& trail, const Choosing& choosing, Reader reader) {
  const ClassId choice = choosing.choice;
  if (is_place(reader)) return read_place(sample, choice, reader);
  const Feature* const feature = sample.row((reader - kPlaces) / kReadings);
  if (feature == nullptr || feature->values.empty()) return std::nullopt;
  const std::uint64_t how = (reader - kPlaces) % kReadings;
  const std::uint32_t own = trail.count(choice);
  const std::int64_t first = feature->values[0];
  const bool is_sequence = feature->values.size() > 1;
  switch (how) {
    case kAtOwn:
      if (!is_sequence) return std::nullopt;
      return key_of(choice, *feature, how, value_at(*feature, own));
    case kAtAround:
    case kAtAroundThat: {
      const Trail::Visit around = trail.around(choice, how - kAtAround);
      if (!is_sequence || around.choice == kNobody) return std::nullopt;
      return key_of(choice, *feature, how, value_at(*feature, around.index));
    }
    // What the value means is the same to all kin, so that none of them has to learn it anew.
    case kAtKin:
      if (!is_sequence || choosing.kind == 0) return std::nullopt;
      return key_of(choosing.kind, *feature, how, value_at(*feature, trail.kin(choosing.kind)));
    case kAtAroundKin: {
      const std::uint32_t around = trail.around_kin(choosing.kind);
      if (!is_sequence || choosing.kind == 0 || around == kNobody) return std::nullopt;
      return key_of(choosing.kind, *feature, how, value_at(*feature, around));
    }
    case kFirst: return key_of(choice, *feature, how, first);
    case kLessFirst: return key_of(choice, *feature, how, less(own, first));
    case kLessLength: return key_of(choice, *feature, how, less(own, static_cast<std::int64_t>(feature->values.size())));
    case kRoughly: return key_of(choice, *feature, how, roughly(first));
    case kFirstAndOwn: return mix(key_of(choice, *feature, how, first), own);
    default: return mix(key_of(choice, *feature, how, roughly(first)), own);
  }
}

}  // namespace outsize::pilot
