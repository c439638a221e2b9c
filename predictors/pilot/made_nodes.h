// The nodes of autograd's graph that a pilot has seen made in this step; and of each op's, their numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "predictors/pilot/graph_nodes.h"
#include "predictors/pilot/network.h"

namespace outsize::pilot {

class MadeNodes : public GraphNodes<NodeId, kNobody> {
 public:
  void keep(std::uint32_t number, NodeId maker, std::uint64_t op = 0) {
    if (!GraphNodes::keep(number, maker, op)) return;
    if (maker >= numbers_.size()) numbers_.resize(maker + 1 + maker / 2);
    if (numbers_[maker].empty()) makers_.push_back(maker);
    numbers_[maker].push_back(number);
  }
  // The latest that this one made before `number`, or of all where that is 0; 0 where there is none. O(log made).
  std::uint32_t before(std::uint32_t number, NodeId maker) const {
    if (maker >= numbers_.size()) return 0;
    const std::vector<std::uint32_t>& all = numbers_[maker];
    const auto end = number == 0 ? all.end() : std::lower_bound(all.begin(), all.end(), number);
    return end == all.begin() ? 0 : *(end - 1);
  }
  // The step has ended.
  void clear() {
    for (const NodeId maker : makers_) numbers_[maker].clear();
    makers_.clear();
    GraphNodes::clear();
  }
  Bytes bytes() const {
    std::size_t entries = makers_.capacity();
    for (const std::vector<std::uint32_t>& each : numbers_) entries += each.capacity();
    return GraphNodes::bytes() + static_cast<Bytes>(numbers_.capacity() * sizeof(numbers_[0]) + entries * sizeof(NodeId));
  }

 private:
  std::vector<std::vector<std::uint32_t>> numbers_;  // by maker, ascending
  std::vector<NodeId> makers_;                       // of this step's
};

}  // namespace outsize::pilot
