// How many ops pass from one use of a thing (network.h) to the next. It tells when a thing is used again that no plan
// tells of: the mean of those gaps that were longer than it has gone unused by now, to within an octave.
//
// A thing's gaps are of several kinds: a weight's few ops from forward's use to the next one's, hundreds until backward,
// thousands until the next step. So they are kept by octaves, each with its own mean; what was seen long ago counts less.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/residency/extent.h"

namespace outsize::pilot {

class Gaps {
 public:
  void add(Position gap) {
    Octave& octave = octaves_[octave_of(gap)];
    const auto now = static_cast<std::int64_t>(std::min(gap, kLongest)), mean = std::int64_t{octave.mean};
    octave.mean = static_cast<std::uint32_t>(octave.count == 0 ? now : mean + (now - mean) / kLatest);
    if (++octave.count < kFades) return;
    for (Octave& each : octaves_) each.count = (each.count + 1) / 2;  // none is forgotten
  }
  // How much longer than `age` those were that were longer, in the mean; 0: none was. An octave is taken or left by its mean.
  Position beyond(Position age) const {
    Position more = 0, count = 0;
    for (std::size_t i = octave_of(age); i < octaves_.size(); ++i) {
      const Octave& octave = octaves_[i];
      if (octave.mean <= age) continue;
      more += octave.count * (octave.mean - age);
      count += octave.count;
    }
    return count == 0 ? 0 : more / count;
  }

 private:
  static constexpr Position kLongest = (Position{1} << 24) - 1;
  static constexpr std::int64_t kLatest = 4;  // of an octave's mean, one part in so many is the latest
  static constexpr std::uint32_t kFades = 16;
  struct Octave {
    std::uint32_t mean : 24 = 0, count : 8 = 0;
  };
  static std::size_t octave_of(Position gap) {
    return static_cast<std::size_t>(std::bit_width(std::min(gap, kLongest)));
  }
  std::array<Octave, 25> octaves_{};
};

// Those of all things.
class GapTable {
 public:
  void add(std::uint32_t thing, Position gap) {
    if (thing >= gaps_.size()) gaps_.resize(thing + 1 + thing / 2);
    gaps_[thing].add(gap);
  }
  Position beyond(std::uint32_t thing, Position age) const {
    return thing < gaps_.size() ? gaps_[thing].beyond(age) : 0;
  }
  void clear() { gaps_.clear(); }
  Bytes bytes() const { return static_cast<Bytes>(gaps_.capacity() * sizeof(Gaps)); }

 private:
  std::vector<Gaps> gaps_;
};

}  // namespace outsize::pilot
