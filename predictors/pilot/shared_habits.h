// Which extents that small storages share an op will work on. Who lies in such an extent changes, so that names and
// things (tokens.h, network.h) say nothing of it. But an op works on the same one time and again where what lasts lies
// there: small weights, and what an optimizer keeps of them. And it *follows* another one: on what that worked on last it
// works next, as an optimizer on the gradients that backward left, or backward on what forward did.
//
// Of an op that works on many the first few are known. Bounded by the nodes that a network has (network.h) and by the
// extents that there are; O(1) a use.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/types.h"
#include "predictors/pilot/network.h"

namespace outsize::pilot {

class SharedHabits {
 public:
  struct Use {
    ExtentId id = kNoExtent;
    bool late = false;  // it had not been used for a while
  };
  // All that an op of this node works on.
  void use(NodeId node, std::span<const Use> uses) {
    if (node >= rows_.size()) {
      if (uses.empty()) return;
      rows_.resize(node + 1 + node / 2);
    }
    uses = uses.first(std::min(uses.size(), kKnown));
    follow(node, uses);
    Row& row = rows_[node];
    const std::array<Habit, kKnown> before = row.habits;
    row.habits = {};
    for (std::size_t i = 0; i < uses.size(); ++i) {
      OfExtent& of = extent(uses[i].id);
      const auto is = [&](const Habit& habit) { return is_of(habit, uses[i].id); };
      const auto known = std::find_if(before.begin(), before.end(), is);
      const int times = known == before.end() ? 1 : std::min(known->times + 1, kTimesMax);
      row.habits[i] = {uses[i].id, of.life, static_cast<std::uint8_t>(times)};
      of.user = node;
      of.place = static_cast<std::uint32_t>(i);
    }
  }
  // Another of that id may be born.
  void die(ExtentId id) {
    OfExtent& of = extent(id);
    of = {(of.life + 1) % kLives, kNobody, 0};
  }
  // On which it is likely to work, of those that are there.
  template <class Tell>
  void at(NodeId node, const Tell& tell) const {
    if (node >= rows_.size()) return;
    for (const Habit& habit : rows_[node].habits) {
      if (habit.times >= kTimes && alive(habit)) tell(habit.id);
    }
    for (const Follow& follow : rows_[node].follows) {
      if (follow.times < kFollowTimes) continue;
      const Habit& habit = rows_[follow.node].habits[follow.place];
      if (habit.times > 0 && alive(habit)) tell(habit.id);
    }
  }
  void clear() {
    rows_.clear();
    for (OfExtent& of : extents_) of.user = kNobody;
  }
  Bytes bytes() const {
    return static_cast<Bytes>(rows_.capacity() * sizeof(Row) + extents_.capacity() * sizeof(OfExtent));
  }

 private:
  static constexpr std::size_t kKnown = 4;  // eight: no better
  // So often, until it is told of. Pools hand on what just died: two times on the same one may be chance. Where another
  // had worked before: once may be.
  static constexpr int kTimes = 3, kFollowTimes = 2;
  static constexpr int kTimesMax = 15;
  static constexpr std::uint32_t kLives = 1U << 24;
  struct Habit {
    ExtentId id = kNoExtent;
    std::uint32_t life : 24 = 0, times : 8 = 0;
  };
  struct Follow {
    NodeId node = kNobody;
    std::uint16_t place = 0, times = 0;
  };
  struct Row {
    std::array<Habit, kKnown> habits{};    // of the latest run
    std::array<Follow, kKnown> follows{};  // times 0: nobody
  };
  struct OfExtent {
    std::uint32_t life = 0;  // how many of that id have ended
    NodeId user = kNobody;   // that worked on it last
    std::uint32_t place = 0;  // among what that worked on
  };
  OfExtent& extent(ExtentId id) {
    if (id >= extents_.size()) extents_.resize(id + 1 + id / 2);
    return extents_[id];
  }
  bool alive(const Habit& habit) const { return extents_[habit.id].life == habit.life; }
  bool is_of(const Habit& habit, ExtentId id) const { return habit.id == id && alive(habit); }
  void follow(NodeId node, std::span<const Use> uses) {
    auto& follows = rows_[node].follows;
    std::array<bool, kKnown> seen{};
    for (const Use& use : uses) {
      const OfExtent of = extent(use.id);
      const bool counts = use.late && of.user != kNobody && of.user != node;
      const auto tells = [&](const Follow& each) {
        return each.times > 0 && is_of(rows_[each.node].habits[each.place], use.id);
      };
      // Right is whoever tells of it, also where others worked on it since; who did last is tried next.
      auto known = std::find_if(follows.begin(), follows.end(), tells);
      if (known == follows.end()) {
        const auto fewer = [](const Follow& a, const Follow& b) { return a.times < b.times; };
        known = std::min_element(follows.begin(), follows.end(), fewer);
        if (!counts || known->times > 1) continue;
        *known = {of.user, static_cast<std::uint16_t>(of.place), 0};
      }
      if (counts) known->times = static_cast<std::uint16_t>(std::min(known->times + 1, kTimesMax));
      seen[static_cast<std::size_t>(known - follows.begin())] = true;
    }
    for (std::size_t i = 0; i < kKnown; ++i) {
      if (!seen[i] && follows[i].times > 0) --follows[i].times;
    }
  }

  std::vector<Row> rows_;          // by node
  std::vector<OfExtent> extents_;  // by extent
};

}  // namespace outsize::pilot
