// The nodes of autograd's graph that this step has made, by their numbers: what made each of them, as a thing.
#pragma once

#include <cstdint>
#include <vector>

#include "predictors/pilot/network.h"

namespace outsize::pilot {

class GraphNodes {
 public:
  static constexpr std::size_t kMax = 1U << 20;

  // Numbers are told in ascending order; what is too far from the first is forgotten.
  void keep(std::uint32_t number, ThingId thing) {
    if (things_.empty()) first_ = number;
    const std::size_t index = number - first_;
    if (index >= kMax) return;
    if (index >= things_.size()) things_.resize(index + 1, kNobody);
    things_[index] = thing;
  }
  // kNobody where nobody made it.
  ThingId find(std::uint32_t number) const {
    const std::size_t index = number - first_;
    return index < things_.size() ? things_[index] : kNobody;
  }
  void clear() { things_.clear(); }
  std::size_t capacity() const { return things_.capacity(); }

 private:
  std::uint32_t first_ = 0;
  std::vector<ThingId> things_;  // by number, from the first on
};

}  // namespace outsize::pilot
