// Where a choice need not be thought about, for somebody is nearly always right there; and what is done where he is sure of what is
// not known by name.
#include <algorithm>
#include <optional>
#include <span>

#include "predictors/pilot/chooser.h"

namespace outsize::pilot {

// What mostly came there; nothing where nothing did, or now this and now that.
std::optional<Chooser::Symbol> Chooser::mostly(std::uint64_t key) const {
  Count most;
  std::uint32_t all = 0;
  for (const Count& way : contexts_.find(key)) {
    all += way.count;
    if (way.count > most.count) most = way;
  }
  if (most.count * 8 <= all * 7) return std::nullopt;
  return most.to;
}

// kNobody also where that never came after this op.
NodeId Chooser::mostly(const Standing& standing, std::uint64_t key) const {
  const std::optional<Symbol> symbol = mostly(key);
  return symbol ? node_of(standing, *symbol) : kNobody;
}

// Where one adviser has hardly ever been wrong there is no need to hear the others: the one that was wrong most seldom. All are heard
// where it has nothing to say; and where who says what backward returns to, or which kind comes, is surer and it is another one's turn.
NodeId Chooser::surely(const Standing& standing, ClassId choice, OfClass& of) {
  const Qualities& here = of_node(standing.at);
  float best = 0;
  std::size_t by = kHeard;
  const auto weigh = [&](const Quality& quality, std::size_t adviser) {
    if (!is_sure(quality) || quality.right <= best) return;
    best = quality.right;
    by = adviser;
  };
  for (std::size_t order = 0; options_.markov && order <= bounds().orders; ++order) weigh(here[kMarkov + order], kMarkov + order);
  if (options_.markov) weigh(here[kTimes], kTimes);
  if (options_.sample && of.best[0] < of.readers.size()) weigh(of.readers[of.best[0]], kSample);
  if (by == kHeard) return surely_by_rules(standing, choice);
  std::optional<std::uint64_t> key = times_key(standing);
  if (by == kSample) key = best_key(standing, choice, of, 0);
  else if (by != kTimes) key = markov_key(standing, by - kMarkov);
  const NodeId to = key ? mostly(standing, *key) : kNobody;
  return to != kNobody && !is_overruled(standing, choice, to, best) ? to : kNobody;
}

// Who says what backward returns to, or which kind comes, is surer than somebody who was right so often; and it is another one's turn.
bool Chooser::is_overruled(const Standing& standing, ClassId choice, NodeId to, float right) {
  const Qualities& here = of_node(standing.at);
  const bool rule_is_surer = options_.rules && is_surer(here[kReturning], right);
  return (rule_is_surer && !is_its_turn(standing, choice, to)) || is_of_another_round(standing, choice, to, right);
}

// An op of another kind mostly came then, says who counts, and is surer.
bool Chooser::is_of_another_round(const Standing& standing, ClassId choice, NodeId to, float right) {
  return options_.markov && is_surer(of_node(standing.at)[kRound], right) && !is_of_this_round(standing, choice, to);
}

// An op of its kind mostly came then, or it is not known what did.
bool Chooser::is_of_this_round(const Standing& standing, ClassId choice, NodeId node) const {
  const auto key = round_key(standing, choice);
  const std::span<const Count> counts = key ? contexts_.find(*key) : std::span<const Count>();
  const auto most = std::ranges::max_element(counts, {}, &Count::count);
  return most == counts.end() || most->to == of_kind(standing.network[node].kind);
}

// As far as backward returns to something with it.
bool Chooser::is_its_turn(const Standing& standing, ClassId choice, NodeId node) const {
  if (standing.network[node].returns_to == kNobody) return true;
  const std::uint64_t since = returns_since(standing, node);
  if (since == 0) return false;
  const NodeId due = due_among(standing, standing.network.members(choice));
  return returns_since(standing, due) <= since;
}

// Whether backward returns to something is sure here, and if it does, that it does to what was made last.
NodeId Chooser::surely_by_rules(const Standing& standing, ClassId choice) {
  const Qualities& here = of_node(standing.at);
  if (!options_.rules || !options_.markov || !is_sure(here[kWhether])) return kNobody;
  const std::optional<Symbol> symbol = mostly(whether_key(standing));
  if (!symbol) return kNobody;
  const float right = here[kWhether].right;
  if (*symbol != kReturns) {
    const NodeId to = node_of(standing, *symbol);
    return to == kNobody || is_overruled(standing, choice, to, right) ? kNobody : to;
  }
  const NodeId to = is_sure(here[kReturning]) ? only_due(standing) : kNobody;
  if (to == kNobody || !is_its_turn(standing, choice, to)) return kNobody;
  return is_of_another_round(standing, choice, to, right) ? kNobody : to;
}

// Of the ways from here the one that returns to what was made last; of two that return to the same others have to say which.
NodeId Chooser::only_due(const Standing& standing) const {
  NodeId to = kNobody;
  std::uint64_t since = 0;
  for (const Way& way : standing.network[standing.at].ways) {
    const std::uint64_t made_at = returns_since(standing, way.to);
    if (made_at == 0 || made_at < since) continue;
    to = made_at == since ? kNobody : way.to;
    since = made_at;
  }
  return to;
}

// The sample is sure of what never came after this op, but after others of this class: what comes will be named after another
// branch, and be the same part of the program. A plan that takes the likeliest of the rest goes round in circles.
NodeId Chooser::surely_elsewhere(const Standing& standing, ClassId choice, const OfClass& of) {
  if (of.best[0] >= of.readers.size() || !is_sure(of.readers[of.best[0]])) return kNobody;
  const auto key = best_key(standing, choice, of, 0);
  const std::optional<Symbol> symbol = key ? mostly(*key) : std::nullopt;
  if (!symbol || (*symbol & kRelative) == 0 || node_of(standing, *symbol) != kNobody) return kNobody;
  const std::span<const NodeId> members = standing.network.members(choice);
  const auto is_it = [&](NodeId member) { return symbol_of(standing.network, member) == *symbol; };
  const auto some = members.first(std::min(members.size(), kDueAmongMax));
  const auto at = std::ranges::find_if(some, is_it);
  return at == some.end() || is_overruled(standing, choice, *at, of.readers[of.best[0]].right) ? kNobody : *at;
}

// Where one adviser was sure, and right, there is not much to learn: most of the time that learning takes is saved. Not always, or
// what is known would grow old. What is learnt so seldom counts for less beside surprises, which all are: who is sure has to
// be right more often than it says.
bool Chooser::passes_over(const Standing& standing, ClassId choice, OfClass& of, NodeId node) {
  if (!options_.learn || of.choices % kNowAndThen == 0 || surely(standing, choice, of) != node) return false;
  ++of.choices;
  ++score_.choices;
  ++score_.right;
  return true;
}

}  // namespace outsize::pilot
