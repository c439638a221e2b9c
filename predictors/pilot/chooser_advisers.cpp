// What each adviser of the chooser says of a choice.
#include <algorithm>
#include <cmath>
#include <span>

#include "predictors/pilot/chooser.h"
#include "predictors/pilot/mix.h"

namespace outsize::pilot {
namespace {

constexpr float kSurely = 4;  // logarithm of how much more a rule gives the way it points at
constexpr std::size_t kCounts = 65;

// Logarithms of counts, with a little for what never came.
const std::array<float, kCounts> kLogOfCount = [] {
  std::array<float, kCounts> logs;
  for (std::size_t i = 0; i < kCounts; ++i) logs[i] = std::log(static_cast<float>(i) + 0.05F);
  return logs;
}();

// Of how often that came.
float log_of(std::span<const Count> counts, std::uint32_t to) {
  const auto at = std::ranges::find(counts, to, &Count::to);
  return kLogOfCount[at == counts.end() ? 0 : std::min(at->count, Contexts::kCountMax)];
}

}  // namespace

// Without what is common to all ways, which a softmax does not see.
void Chooser::advise(std::uint64_t key, Advice& out) const {
  static_assert(kLogOfCount.size() == kCountMax + 1);
  advise(contexts_.find(key), out);
}

void Chooser::advise(std::span<const Count> counts, Advice& out) const {
  out.any = !counts.empty();
  if (!out.any) {
    out.weight = 0;
    return;
  }
  std::fill_n(out.log.begin(), count_, kLogOfCount[0]);
  for (const Count& way : counts) {
    const std::size_t index = index_of(way.to);
    if (index < count_) out.log[index] = kLogOfCount[std::min(way.count, kCountMax)];
  }
}

// Of a kind that several ways are of each gets its part.
void Chooser::advise_kinds(std::span<const Count> counts, Advice& out) const {
  out.any = !counts.empty();
  if (!out.any) {
    out.weight = 0;
    return;
  }
  std::array<std::uint32_t, kWaysMax> row, ways{};
  for (std::size_t i = 0; i < count_; ++i) {
    const auto of_kind = [&](const Count& way) { return way.to == kind_[i]; };
    row[i] = static_cast<std::uint32_t>(std::find_if(counts.begin(), counts.end(), of_kind) - counts.begin());
    if (row[i] < counts.size()) ++ways[row[i]];
  }
  for (std::size_t i = 0; i < count_; ++i) {
    const bool known = row[i] < counts.size();
    out.log[i] = kLogOfCount[known ? std::min(counts[row[i]].count, kCountMax) : 0];
    if (known) out.log[i] -= kLogOfCount[ways[row[i]]];
  }
}

void Chooser::hear_kinds(const Standing& standing, ClassId choice, bool all) {
  const auto advices = std::span(advice_).subspan(kKind, kKindOrders);
  const bool off = options_.idioms == IdiomUse::kOff;
  for (Advice& advice : advices) {
    if (off) advice.weight = 0, advice.any = false;
  }
  const auto heard = [](const Advice& advice) { return advice.weight > kFaint; };
  if (off || (!all && std::none_of(advices.begin(), advices.end(), heard))) return;
  const NodeId latest = latest_of(standing, choice);
  for (std::size_t i = 0; i < count_; ++i) kind_[i] = kind_of_way(standing, to_[i], latest, options_.idioms);
  for (std::size_t order = 0; order < kKindOrders; ++order) {
    if (!all && !heard(advices[order])) continue;
    advise_kinds(kinds_.find(kind_key(standing, order, count_, options_.idioms)), advices[order]);
  }
}

void Chooser::point_at(std::size_t way, Advice& out) const {
  out.points_at = way;
  out.any = way < count_;
  if (!out.any) out.weight = 0;
  std::fill_n(out.log.begin(), count_, 0.0F);
  if (way < count_) out.log[way] = kSurely;
}

std::uint64_t Chooser::markov_key(const Standing& standing, std::size_t order) const {
  std::uint64_t key = mix(standing.at, order);
  for (std::size_t i = 0; i < order; ++i) key = mix(key, standing.trail.chosen(i));
  return key;
}

// What comes after backward: an optimizer mostly. It may come after an op that never was the last before; after one of its
// kind is enough.
std::uint64_t Chooser::end_key(const Standing& standing) { return mix(standing.network[standing.at].kind, 11); }

std::uint64_t Chooser::whether_key(const Standing& standing) { return mix(times_key(standing), 10); }

// Of so many since the sample came, which is the how-manieth of its step: of a batch that is told row by row the last goes on
// elsewhere.
std::optional<std::uint64_t> Chooser::round_key(const Standing& standing, ClassId choice) {
  constexpr std::uint32_t kRoundsMax = 256, kSamplesMax = 16;
  const std::uint32_t round = standing.trail.count(choice);
  if (round >= kRoundsMax) return std::nullopt;
  return mix(mix(mix(choice, 12), round), std::min(standing.trail.samples(), kSamplesMax));
}

std::uint64_t Chooser::times_key(const Standing& standing) {
  constexpr std::uint32_t kTimesMax = 3;
  return mix(mix(standing.at, 8), std::min(standing.instances.times(standing.at), kTimesMax));
}

// What ops like this one share: they stand as far behind the anchor of another branch. Anchors are like nothing.
std::optional<std::uint64_t> Chooser::like_key(const Standing& standing, ClassId choice) {
  const Node& at = standing.network[standing.at];
  if (at.relative == 0) return std::nullopt;
  const NodeId before = standing.trail.chosen(0);
  const Symbol last = before == kNobody ? 0 : symbol_of(standing.network, before);
  return mix(mix(mix(choice, at.relative), (last & kRelative) != 0 ? last : 0), 9);
}

std::optional<std::uint64_t> Chooser::best_key(const Standing& standing, ClassId choice, const OfClass& of,
                                               std::size_t i) const {
  if (!options_.sample || of.best[i] >= of.readers.size()) return std::nullopt;
  return read_at(standing.sample, standing.trail, choosing(standing, choice), of.best[i]);
}

// When what backward returns to with `node` was made or used by forward. Autograd's nodes tell, else weights,
// where there are any: on the rest another may work as well.
std::uint64_t Chooser::made(const Standing& standing, const Node& node) {
  if (node.returns_to != kNobody) return latest_made(standing, node.returns_to);
  std::uint64_t weights = 0, rest = 0;
  bool has_weights = false;
  for (const ThingId use : node.uses_now()) {
    const bool is_weight = standing.network.thing(use).forward;
    has_weights = has_weights || is_weight;
    const Instance* const is = meant(standing.network, standing.instances, use).instance;
    if (is == nullptr || !is->forward) continue;
    std::uint64_t& latest = is_weight ? weights : rest;
    latest = std::max(latest, is->since);
  }
  return has_weights ? weights : rest;
}

// The one whose things were made latest.
void Chooser::hear_latest(const Standing& standing, Advice& out) const {
  std::uint64_t latest = 0;
  std::size_t best = count_;
  for (std::size_t i = 0; i < count_; ++i) {
    const Node& node = standing.network[to_[i]];
    const std::uint64_t since = node.backward ? made(standing, node) : 0;
    if (since <= latest || given_up(to_[i], kLatest)) continue;
    latest = since;
    best = i;
  }
  point_at(best, out);
}

// `which`: the same, of those alone that return to something; others are neither more nor less likely for it. A gradient is made
// and then added up or not, which other advisers know; where it is not, the next op is of what was made latest.
// `none`: that none of them comes, for there is nothing left to return to.
void Chooser::hear_returning(const Standing& standing, Advice& which, Advice& none) const {
  constexpr float kCertainly = 8;
  which.points_at = count_;
  which.any = due_ != kNobody;
  none.any = any_returns_ && due_ == kNobody;
  if (!which.any) which.weight = 0;
  if (!none.any) none.weight = 0;
  for (std::size_t i = count_; i-- > 0;) {
    const bool due = returns_[i] && standing.network[to_[i]].returns_to == due_;
    if (due) which.points_at = i;
    which.log[i] = !returns_[i] || due ? kCertainly : 0;
    none.log[i] = returns_[i] ? 0 : kCertainly;
  }
}

// Whether what comes returns to something at all, or what else it is.
void Chooser::hear_whether(const Standing& standing, Advice& out) const {
  const std::span<const Count> counts = contexts_.find(whether_key(standing));
  advise(counts, out);
  if (!out.any) return;
  const float returns = log_of(counts, kReturns);
  for (std::size_t i = 0; i < count_; ++i) {
    if (returns_[i]) out.log[i] = returns;
  }
}

// Which kind of op: of branches that begin alike it is one of them, or they have all been.
void Chooser::hear_round(std::uint64_t key, Advice& out) const {
  const std::span<const Count> counts = contexts_.find(key);
  out.any = !counts.empty();
  if (!out.any) {
    out.weight = 0;
    return;
  }
  for (std::size_t i = 0; i < count_; ++i) out.log[i] = log_of(counts, of_kind(kind_of_op_[i]));
}

// The next in order of those of forward that have not run and that `is_it` is true of.
template <class IsIt>
void Chooser::point_at_next(const Standing& standing, Heard rule, const IsIt& is_it, Advice& out) const {
  std::size_t best = count_;
  for (std::size_t i = 0; i < count_; ++i) {
    const Node& node = standing.network[to_[i]];
    if (node.again || node.backward || standing.instances.ran(to_[i]) || given_up(to_[i], rule)) continue;
    if (best != count_ && node.place >= standing.network[to_[best]].place) continue;
    if (is_it(to_[i])) best = i;
  }
  point_at(best, out);
}

// Of those for which all is there.
void Chooser::hear_there(const Standing& standing, Advice& out) const {
  const auto is_there = [&](ThingId use) {
    return standing.network.thing(use).role != kNoRole || meant(standing.network, standing.instances, use).instance != nullptr;
  };
  point_at_next(standing, kThere, [&](NodeId node) { return std::ranges::all_of(standing.network[node].uses_now(), is_there); }, out);
}

// Whether what surely comes after `node` works on something that this step has used.
bool Chooser::run_was_used(const Standing& standing, NodeId node) const {
  for (int i = 0; i < 12; ++i) {
    const Node& n = standing.network[node];
    for (const ThingId use : n.uses_now()) {
      if (standing.network.thing(use).role != kNoRole && standing.instances.touched(use)) return true;
    }
    if (n.ways.size() != 1) return false;
    node = n.ways[0].to;
  }
  return false;
}

void Chooser::hear_used(const Standing& standing, Advice& out) const {
  point_at_next(standing, kUsed, [&](NodeId node) { return run_was_used(standing, node); }, out);
}

// `all`: also those that have no weight.
void Chooser::hear(const Standing& standing, ClassId choice, OfClass& of, bool all) {
  constexpr std::uint32_t kKnown = 6;
  constexpr float kHardlyWrong = 2;  // weight: right some nine times of ten
  const Qualities& here = of_node(standing.at);
  for (std::size_t i = 0; i < kHeard; ++i) {
    advice_[i].weight = weight_of(here[i].asked < kKnown ? of.fixed[i] : here[i], sort().fixed[i]);
  }
  // Backward ends once a step, mostly elsewhere: while little is known, who says rightly what it returns to is believed when there is
  // nothing left. But where a kept graph is gone through again, there is nothing all the while.
  Advice& none = advice_[kNoneLeft];
  const auto asked = {here[kNoneLeft].asked, of.fixed[kNoneLeft].asked, sort().fixed[kNoneLeft].asked};
  if (std::max(asked) < kKnown) none.weight = advice_[kReturning].weight;
  if (none.weight < kHardlyWrong) none.weight = 0;
  for (std::size_t order = 0; order <= Trail::kOrders; ++order) {
    Advice& advice = advice_[kMarkov + order];
    if (!options_.markov || order > bounds().orders) advice.weight = 0;
    if (all || advice.weight > kFaint) advise(markov_key(standing, order), advice);
  }
  if (!options_.markov) advice_[kTimes].weight = 0;
  if (all || advice_[kTimes].weight > kFaint) advise(times_key(standing), advice_[kTimes]);
  if (!options_.markov || !any_returns_) advice_[kWhether].weight = 0, advice_[kWhether].any = false;
  else if (all || advice_[kWhether].weight > kFaint) hear_whether(standing, advice_[kWhether]);
  const auto round = options_.markov && kinds_differ_ ? round_key(standing, choice) : std::nullopt;
  if (!round) advice_[kRound].weight = 0, advice_[kRound].any = false;
  else if (all || advice_[kRound].weight > kFaint) hear_round(*round, advice_[kRound]);
  const auto like = options_.markov ? like_key(standing, choice) : std::nullopt;
  advice_[kLike].any = false;
  if (!like) advice_[kLike].weight = 0;
  if (like && (all || advice_[kLike].weight > kFaint)) advise(*like, advice_[kLike]);
  for (std::size_t i = 0; i < kBest; ++i) {
    Advice& advice = advice_[kSample + i];
    const auto key = i < bounds().readers ? best_key(standing, choice, of, i) : std::nullopt;
    advice.weight = key ? weight_of(of.readers[of.best[i]], {}) : 0;
    advice.any = false;
    if (key && (all || advice.weight > kFaint)) advise(*key, advice);
  }
  hear_kinds(standing, choice, all);
  if (all || advice_[kLatest].weight > kFaint) hear_latest(standing, advice_[kLatest]);
  if (all || advice_[kReturning].weight > kFaint || advice_[kNoneLeft].weight > kFaint) {
    hear_returning(standing, advice_[kReturning], advice_[kNoneLeft]);
  }
  if (all || advice_[kThere].weight > kFaint) hear_there(standing, advice_[kThere]);
  if (all || advice_[kUsed].weight > kFaint) hear_used(standing, advice_[kUsed]);
  if (options_.rules) return;
  for (const std::size_t rule : {kLatest, kThere, kUsed, kReturning, kNoneLeft}) advice_[rule].weight = 0;
  // What is due was not looked for: of that they are not judged.
  advice_[kReturning].any = advice_[kNoneLeft].any = false;
}

}  // namespace outsize::pilot
