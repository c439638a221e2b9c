// The nodes of autograd's graph that this step has made, by their numbers: what made each of them.
#pragma once

#include <cstdint>
#include <vector>

namespace outsize::pilot {

template <class Maker, Maker kNone>
class GraphNodes {
 public:
  static constexpr std::size_t kMax = 1U << 20;

  // Numbers are told in ascending order; what is too far from the first is forgotten.
  void keep(std::uint32_t number, Maker maker) {
    if (makers_.empty()) first_ = number;
    const std::size_t index = number - first_;
    if (index >= kMax) return;
    if (index >= makers_.size()) makers_.resize(index + 1, kNone);
    makers_[index] = maker;
  }
  // kNone where nobody made it.
  Maker find(std::uint32_t number) const {
    const std::size_t index = number - first_;
    return index < makers_.size() ? makers_[index] : kNone;
  }
  void clear() { makers_.clear(); }
  std::size_t capacity() const { return makers_.capacity(); }

 private:
  std::uint32_t first_ = 0;
  std::vector<Maker> makers_;  // by number, from the first on
};

}  // namespace outsize::pilot
