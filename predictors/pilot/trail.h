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

  // A node that is chosen among several runs; of ops of its kind (Node::kind; 0: nobody knows).
  void enter(ClassId choice, NodeId node, std::uint32_t kind = 0) {
    for (std::size_t i = kOrders; --i > 0;) chosen_[i] = chosen_[i - 1];
    chosen_[0] = node;
    if (choice >= counts_.size()) counts_.resize(choice + 1, 0);
    const Visit visit{choice, counts_[choice]++};
    std::size_t at = 0;
    while (at + 1 < kRecent && recent_[at].choice != choice) ++at;
    for (; at > 0; --at) recent_[at] = recent_[at - 1];
    recent_[0] = visit;
    if (kind != 0) enter_kin(kind);
  }
  // Counting begins anew.
  void begin_step() {
    begin_sample();
    samples_ = 0;
  }
  void begin_sample() {
    ++samples_;
    counts_.assign(counts_.size(), 0);
    recent_.fill({});
    kin_count_ = 0;
    latest_ = before_ = kKinMax;
  }
  NodeId chosen(std::size_t back) const { return chosen_[back]; }
  std::uint32_t samples() const { return samples_; }  // of this step so far
  std::uint32_t count(ClassId choice) const { return choice < counts_.size() ? counts_[choice] : 0; }
  // The latest visits, of other classes than `choice`: what this choice lies within.
  Visit around(ClassId choice, std::size_t how_far) const {
    for (const Visit& visit : recent_) {
      if (visit.choice == choice || visit.choice == kNobody) continue;
      if (how_far-- == 0) return visit;
    }
    return {};
  }
  // How many of this kind were chosen since the sample came, whatever their classes.
  std::uint32_t kin(std::uint32_t kind) const {
    const std::size_t at = find(kind);
    return at < kin_count_ ? kin_[at].count : 0;
  }
  // The how-manieth of its kind the latest choice of another kind was; kNobody where there was none.
  std::uint32_t around_kin(std::uint32_t kind) const {
    for (const std::size_t at : {latest_, before_}) {
      if (at < kin_count_ && kin_[at].kind != kind) return kin_[at].count - 1;
    }
    return kNobody;
  }

 private:
  static constexpr std::size_t kKinMax = 16;  // kinds; more are not counted
  struct Kin {
    std::uint32_t kind = 0, count = 0;
  };
  std::size_t find(std::uint32_t kind) const {
    std::size_t at = 0;
    while (at < kin_count_ && kin_[at].kind != kind) ++at;
    return at;
  }
  void enter_kin(std::uint32_t kind) {
    const std::size_t at = find(kind);
    if (at == kKinMax) return;
    if (at == kin_count_) kin_[kin_count_++] = {kind, 0};
    ++kin_[at].count;
    if (latest_ == at) return;
    before_ = latest_;
    latest_ = at;
  }

  std::array<NodeId, kOrders> chosen_{kNobody, kNobody, kNobody};
  std::array<Visit, kRecent> recent_{};
  std::vector<std::uint32_t> counts_;  // by class
  std::array<Kin, kKinMax> kin_{};
  std::size_t kin_count_ = 0;
  std::uint32_t samples_ = 0;
  std::size_t latest_ = kKinMax, before_ = kKinMax;  // the latest two kinds
};

}  // namespace outsize::pilot
