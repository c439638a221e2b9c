#include "predictors/pilot/kinds.h"

#include <algorithm>
#include <bit>

#include "predictors/pilot/mix.h"

namespace outsize::pilot {
namespace {

constexpr Kind kBackward = 1U << 3, kRan = 1U << 7;
constexpr int kRelationAt = 4, kClassAt = 8;
static_assert(kClassAt + kKindBits < 31);

enum Relation : Kind { kNone, kSame, kNext, kPrevious, kLater, kEarlier };

// To within a factor of eight, of a microsecond and more.
Kind rough_time(Nanos time) {
  constexpr int kMicros = 10, kFactor = 3, kLongest = 7;
  const int bits = std::bit_width(static_cast<std::uint64_t>(std::max<Nanos>(time, 0) >> kMicros));
  return static_cast<Kind>(std::min((bits + kFactor - 1) / kFactor, kLongest));
}

Relation relation(const Network& network, NodeId way, NodeId latest) {
  if (latest == kNobody) return kNone;
  if (way == latest) return kSame;
  const std::uint32_t a = network[latest].place, b = network[way].place;
  if (b > a) return b == a + 1 ? kNext : kLater;
  return a == b + 1 ? kPrevious : kEarlier;
}

}  // namespace

Kind kind_of_work(const Node& node, IdiomUse use) {
  const Kind work = use == IdiomUse::kOneHot ? node.kind : node.idiom;
  return work << kClassAt | (node.backward ? kBackward : 0) | rough_time(node.time);
}

Kind kind_of_way(const Standing& standing, NodeId way, NodeId latest, IdiomUse use) {
  const Kind stands = static_cast<Kind>(relation(standing.network, way, latest)) << kRelationAt;
  return kind_of_work(standing.network[way], use) | stands | (standing.instances.ran(way) ? kRan : 0);
}

NodeId latest_of(const Standing& standing, ClassId choice) {
  for (std::size_t back = 0; back < Trail::kOrders; ++back) {
    const NodeId node = standing.trail.chosen(back);
    if (node != kNobody && standing.network.class_of(standing.network[node]) == choice) return node;
  }
  return kNobody;
}

std::uint64_t kind_key(const Standing& standing, std::size_t order, std::size_t ways, IdiomUse use) {
  constexpr std::size_t kChoices = 2;
  std::uint64_t key = mix(order, kind_of_work(standing.network[standing.at], use));
  key = mix(key, static_cast<std::uint64_t>(std::bit_width(ways)));
  for (std::size_t back = 0; order > 0 && back < kChoices; ++back) {
    const NodeId node = standing.trail.chosen(back);
    key = mix(key, node == kNobody ? kKindEnd : kind_of_work(standing.network[node], use));
  }
  return key;
}

// The first way that was ever gone tells: it stays the first.
std::size_t sort_of(const Standing& standing, bool base, IdiomUse use) {
  const auto& ways = standing.network[standing.at].ways;
  if (ways.empty()) return 0;
  const Node& to = standing.network[ways[0].to];
  std::size_t sort = base ? static_cast<std::size_t>(standing.base) : 0;
  sort = sort * kIdiomClassesMax + (use == IdiomUse::kOff ? kNoIdiomClass : to.idiom);
  return sort * 2 + (to.backward ? 1 : 0);
}

}  // namespace outsize::pilot
