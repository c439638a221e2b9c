// The way that a step has come, as far as choices depend on it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "predictors/pilot/network.h"

namespace outsize::pilot {

class Trail {
 public:
  static constexpr std::size_t kOrders = 3;  // how many choices back
  static constexpr std::size_t kRecent = 3;

  struct Visit {
    ClassId choice = kNobody;
    std::uint32_t index = 0;  // the how-manieth since the sample came
  };

  // A node that is chosen among several runs.
  void enter(ClassId choice, NodeId node) {
    for (std::size_t i = kOrders; --i > 0;) chosen_[i] = chosen_[i - 1];
    chosen_[0] = node;
    if (choice >= counts_.size()) counts_.resize(choice + 1, 0);
    const Visit visit{choice, counts_[choice]++};
    std::size_t at = 0;
    while (at + 1 < kRecent && recent_[at].choice != choice) ++at;
    for (; at > 0; --at) recent_[at] = recent_[at - 1];
    recent_[0] = visit;
  }
  // Counting begins anew.
  void begin_sample() {
    counts_.assign(counts_.size(), 0);
    recent_.fill({});
  }
  NodeId chosen(std::size_t back) const { return chosen_[back]; }
  std::uint32_t count(ClassId choice) const { return choice < counts_.size() ? counts_[choice] : 0; }
  // The latest visits, of other classes than `choice`: what this choice lies within.
  Visit around(ClassId choice, std::size_t how_far) const {
    for (const Visit& visit : recent_) {
      if (visit.choice == choice || visit.choice == kNobody) continue;
      if (how_far-- == 0) return visit;
    }
    return {};
  }

 private:
  std::array<NodeId, kOrders> chosen_{kNobody, kNobody, kNobody};
  std::array<Visit, kRecent> recent_{};
  std::vector<std::uint32_t> counts_;  // by class
};

}  // namespace outsize::pilot
