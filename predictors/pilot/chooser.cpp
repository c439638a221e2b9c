#include "predictors/pilot/chooser.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace outsize::pilot {

Chooser::OfClass& Chooser::of_class(ClassId choice) {
  if (choice >= classes_.size()) classes_.resize(choice + 1);
  return classes_[choice];
}

Chooser::Qualities& Chooser::of_node(NodeId node) {
  if (node >= nodes_.size()) nodes_.resize(node + 1 + node / 2);
  return nodes_[node];
}

Chooser::Symbol Chooser::symbol_of(const Network& network, NodeId node) {
  const Token relative = network[node].relative;
  return relative == 0 ? node : kRelative | static_cast<Symbol>(relative);
}

// kNobody where it never came after this op.
NodeId Chooser::node_of(const Standing& standing, Symbol symbol) {
  if ((symbol & kRelative) == 0) return symbol;
  for (const Way& way : standing.network[standing.at].ways) {
    if (symbol_of(standing.network, way.to) == symbol) return way.to;
  }
  return kNobody;
}

std::size_t Chooser::index_of(Symbol symbol) const {
  if ((symbol & kRelative) == 0) {
    const std::size_t index = symbol < index_.size() ? index_[symbol] : kNobody;
    return index < count_ && to_[index] == symbol ? index : kWaysMax;
  }
  const auto end = symbol_.begin() + static_cast<std::ptrdiff_t>(count_);
  const auto at = std::find(symbol_.begin(), end, symbol);
  return at == end ? kWaysMax : static_cast<std::size_t>(at - symbol_.begin());
}

// Of nodes that return to something that is there still, the one whose was made last; kNobody of none. Of very many only the first
// are looked at.
NodeId Chooser::due_among(const Standing& standing, std::span<const NodeId> nodes) const {
  NodeId due = kNobody;
  std::uint64_t since = 0;
  for (const NodeId node : nodes.first(std::min(nodes.size(), kDueAmongMax))) {
    const std::uint64_t made_at = returns_since(standing, node);
    if (made_at <= since) continue;
    since = made_at;
    due = node;
  }
  return due;
}

// When what backward returns to with this node was made; 0: it returns to nothing that is there.
std::uint64_t Chooser::returns_since(const Standing& standing, NodeId node) const {
  if (node == kNobody) return 0;
  const ThingId thing = standing.network[node].returns_to;
  return thing == kNobody || given_up(node, kReturning) ? 0 : latest_made(standing, thing);
}

// Also where it is named after another branch: it stands for that part of the program.
NodeId Chooser::mostly_after_backward(const Standing& standing) const {
  Count most{kNobody, 0};
  for (const Count& way : contexts_.find(end_key(standing))) {
    if (way.count > most.count && way.to < standing.network.nodes()) most = way;
  }
  return most.to;
}

// Of those that return to something, one that returns to what is due is taken in any case. Where steps went on from here with such
// and nothing is left to return to, backward may end here. What is made and never returned to is due until it is given up.
template <class Take>
void Chooser::gather_due(const Standing& standing, std::span<const NodeId> members, const Take& take) {
  NodeId due = due_among(standing, members);
  if (members.size() > kDueAmongMax) {  // all ways from here are members, but maybe not among the first
    const NodeId here = due_among(standing, std::span(to_).first(count_));
    if (returns_since(standing, here) > returns_since(standing, due)) due = here;
  }
  const NodeId more = due != kNobody ? due : any_returns_ ? mostly_after_backward(standing) : kNobody;
  if (more != kNobody && index_of(symbol_of(standing.network, more)) == kWaysMax) take(more);
  if (due != kNobody) due_ = standing.network[due].returns_to;
}

// Where steps went from here, the most frequent if there are too many; and where they went from elsewhere at such a
// choice: what comes may come after this for the first time.
void Chooser::gather_ways(const Standing& standing) {
  const Network& network = standing.network;
  const auto& ways = network[standing.at].ways;
  std::array<Way, kWaysMax / 2> most{};
  const auto more = [](const Way& a, const Way& b) { return a.count != b.count ? a.count > b.count : a.to < b.to; };
  const auto end = std::partial_sort_copy(ways.begin(), ways.end(), most.begin(), most.end(), more);
  if (index_.size() < network.nodes()) index_.resize(network.nodes() + network.nodes() / 2, kNobody);
  count_ = 0;
  any_returns_ = kinds_differ_ = false;
  due_ = kNobody;
  const auto take = [&](NodeId to) {
    any_returns_ |= returns_[count_] = network[to].returns_to != kNobody;
    kind_of_op_[count_] = network[to].kind;
    kinds_differ_ |= kind_of_op_[count_] != kind_of_op_[0];
    index_[to] = static_cast<std::uint32_t>(count_);
    symbol_[count_] = symbol_of(network, to);
    to_[count_++] = to;
  };
  bool forward = false, backward = false;
  for (auto way = most.begin(); way != end; ++way) {
    take(way->to);
    (network[way->to].backward ? backward : forward) = true;
  }
  const std::span<const NodeId> members = network.members(network.choice_after(network[standing.at]));
  if (backward && options_.rules) gather_due(standing, members, take);
  for (const NodeId member : members) {
    if (count_ == kWaysMax) break;
    const Node& node = network[member];
    if (node.relative != 0) continue;  // it belongs to another branch
    if (!(node.backward ? backward : forward)) continue;
    if (index_of(member) == kWaysMax) take(member);
  }
}

void Chooser::be_of_sort(const Standing& standing) {
  sort_ = sort_of(standing, options_.base, options_.idioms);
  if (sort_ >= sorts_.size()) sorts_.resize(sort_ + 1);
}

// As if it had been asked once more, and been right then as often as it was before.
float Chooser::weight_of(const Quality& quality, const Quality& before) {
  constexpr float kDoubt = 4;
  const auto asked = static_cast<float>(quality.asked), asked_before = static_cast<float>(before.asked);
  const float once_more = before.right * asked_before / (asked_before + kDoubt);
  return std::max(0.0F, -std::log(1.02F - (quality.right * asked + once_more) / (asked + 1)));
}

void Chooser::mix_advice() {
  std::fill_n(chance_.begin(), count_, 0.0F);
  for (std::size_t a = 0; a < kHeard; ++a) {
    if (advice_[a].weight <= kFaint) continue;
    const float weight = trust_in(a) * advice_[a].weight;
    for (std::size_t i = 0; i < count_; ++i) chance_[i] += weight * advice_[a].log[i];
  }
  const float most = *std::max_element(chance_.data(), chance_.data() + count_);
  float sum = 0;
  for (std::size_t i = 0; i < count_; ++i) sum += chance_[i] = std::exp(chance_[i] - most);
  for (std::size_t i = 0; i < count_; ++i) chance_[i] /= sum;
}

std::size_t Chooser::likeliest() const {
  return static_cast<std::size_t>(std::max_element(chance_.data(), chance_.data() + count_) - chance_.data());
}

Choice Chooser::choose(const Standing& standing) {
  const auto& ways = standing.network[standing.at].ways;
  if (ways.empty()) return {};
  const ClassId choice = standing.network.choice_after(standing.network[standing.at]);
  if (choice == kNobody) return {ways[0].to, 1};
  OfClass& of = of_class(choice);
  if (const NodeId to = surely(standing, choice, of); to != kNobody) return {to, 1};
  gather_ways(standing);
  be_of_sort(standing);
  hear(standing, choice, of, false);
  mix_advice();
  const std::size_t best = likeliest();
  const NodeId elsewhere = chance_[best] < kUnlikely ? surely_elsewhere(standing, choice, of) : kNobody;
  return {elsewhere != kNobody ? elsewhere : to_[best], chance_[best]};
}

// It gives this way more than any other, but for such as are as good.
template <class AsGood>
bool Chooser::right(const Advice& advice, std::size_t way, const AsGood& is_as_good) const {
  for (std::size_t i = 0; i < count_; ++i) {
    if (i != way && !is_as_good(i) && !(advice.log[i] < advice.log[way])) return false;
  }
  return true;
}

bool Chooser::right(const Advice& advice, std::size_t way) const {
  return right(advice, way, [](std::size_t) { return false; });
}

// Those that do not say which way comes are right where it is one of those that they mean.
bool Chooser::was_right(std::size_t adviser, std::size_t way) const {
  const Advice& advice = advice_[adviser];
  if (adviser == kReturning || adviser == kNoneLeft) return advice.log[way] > 0;
  if (adviser == kWhether) return right(advice, way, [&](std::size_t i) { return returns_[i] && returns_[way]; });
  if (adviser == kRound) return right(advice, way, [&](std::size_t i) { return kind_of_op_[i] == kind_of_op_[way]; });
  return right(advice, way);
}

void Chooser::judge(Quality& quality, bool right, std::uint32_t memory) {
  quality.asked = std::min(quality.asked + 1, memory);
  quality.right += ((right ? 1.0F : 0.0F) - quality.right) / static_cast<float>(quality.asked);
}

void Chooser::judge_rule(const Network& network, std::size_t rule, std::size_t way) {
  // A rule for backward says nothing of what comes in forward, and the other way round.
  const NodeId to = to_[way];
  if (network[to].backward != (rule == kLatest || rule == kReturning) || says_nothing_of(rule, way)) return;
  const std::size_t points_at = advice_[rule].points_at;
  const bool other = points_at < count_ && !(rule == kReturning && network[to_[points_at]].returns_to == network[to].returns_to);
  const NodeId pointed = other ? to_[points_at] : to;
  const NodeId most = std::max(pointed, to);
  if (most >= in_vain_.size()) in_vain_.resize(most + 1 + most / 2);
  std::uint8_t& tries = in_vain_[pointed][rule - kLatest];
  tries = static_cast<std::uint8_t>(std::min<int>(tries + 1, kTriesMax));
  in_vain_[to][rule - kLatest] = 0;
}

bool Chooser::says_nothing_of(std::size_t adviser, std::size_t way) const {
  return adviser == kReturning && !returns_[way];
}

void Chooser::learn(const Standing& standing, NodeId node) {
  learn_choice(standing, node);
  const bool ends_backward = standing.network[standing.at].backward && !standing.network[node].backward;
  if (options_.learn && ends_backward) count(end_key(standing), node);
}

void Chooser::learn_choice(const Standing& standing, NodeId node) {
  const ClassId choice = standing.network.choice_after(standing.network[standing.at]);
  if (choice == kNobody) return;
  OfClass& of = of_class(choice);
  if (passes_over(standing, choice, of, node)) return;
  gather_ways(standing);
  be_of_sort(standing);
  const Symbol to = symbol_of(standing.network, node);
  const std::size_t way = index_of(to);
  if (way < count_) {
    hear(standing, choice, of, true);
    mix_advice();
    ++score_.choices;
    score_.right += likeliest() == way;
  }
  if (!options_.learn) return;
  if (way < count_) {
    judge_heard(standing, of, way);
    descend(way);
    learn_kinds(standing, way);
  }
  learn_sample(standing, of, choice, to, way);
  for (std::size_t order = 0; order <= bounds().orders; ++order) count(markov_key(standing, order), to);
  count(times_key(standing), to);
  if (const auto round = round_key(standing, choice); round && way < count_ && kinds_differ_) count(*round, of_kind(kind_of_op_[way]));
  if (way < count_ && any_returns_) count(whether_key(standing), returns_[way] ? kReturns : to);
  if (const auto like = like_key(standing, choice)) count(*like, to);
  ++of.choices;
}

void Chooser::learn_kinds(const Standing& standing, std::size_t way) {
  if (options_.idioms == IdiomUse::kOff) return;
  for (std::size_t order = 0; order < kKindOrders; ++order) {
    kinds_.count(kind_key(standing, order, count_, options_.idioms), kind_[way], bounds().kinds);
  }
}

void Chooser::judge_heard(const Standing& standing, OfClass& of, std::size_t way) {
  for (const std::size_t rule : {kLatest, kThere, kUsed, kReturning}) judge_rule(standing.network, rule, way);
  for (std::size_t a = 0; a < kHeard; ++a) {
    const bool of_sample = a >= kSample && a < kSample + kBest;
    if (of_sample || !advice_[a].any || says_nothing_of(a, way)) continue;
    const bool is_right = was_right(a, way);
    judge(of.fixed[a], is_right);
    judge(of_node(standing.at)[a], is_right);
    judge(sort().fixed[a], is_right, kMemoryOfSort);
  }
}

// A step down the slope of the cross entropy: half of it for all choices, half for those of this sort.
void Chooser::descend(std::size_t way) {
  constexpr float kRate = 0.01F;
  for (std::size_t a = 0; a < kHeard; ++a) {
    const Advice& advice = advice_[a];
    if (advice.weight <= kFaint) continue;
    float slope = 0;
    for (std::size_t i = 0; i < count_; ++i) slope += (chance_[i] - (i == way ? 1.0F : 0.0F)) * advice.log[i];
    const float down = kRate * slope * advice.weight;
    weights_[a] = std::clamp(weights_[a] - down, 0.0F, kWeightMax);
    sort().weights[a] = std::clamp(sort().weights[a] - down, -kWeightMax, kWeightMax);
  }
}

// Places of a long sequence that are still worth trying: of many only the better half goes on, again and again (successive
// halving: Karnin, Koren and Somekh, 2013).
void Chooser::halve_places(OfClass& of, std::uint64_t age) {
  constexpr std::uint64_t kFirst = 32;
  if (age == 0 || of.places.empty()) {
    of.places.resize(kPlaces);
    std::iota(of.places.begin(), of.places.end(), Reader{0});
  }
  if (age < kFirst || (age & (age - 1)) != 0) return;
  const auto left = static_cast<std::ptrdiff_t>(std::min<std::size_t>(of.places.size(), 8 * kPlaces / age));
  const auto is_better = [&of](Reader a, Reader b) { return better(of, a, b); };
  std::nth_element(of.places.begin(), of.places.begin() + left, of.places.end(), is_better);
  of.places.resize(static_cast<std::size_t>(left));
  std::sort(of.places.begin(), of.places.end());
}

// None where it does without. All readers where a class is new, and now and then while nobody is nearly always right; else those
// that are heard. Places are many: they are tried for so long only.
void Chooser::learn_sample(const Standing& standing, OfClass& of, ClassId choice, Symbol to, std::size_t way) {
  constexpr std::uint64_t kPlacesNew = 256, kAnew = 1024;
  static_assert(kAnew % kNowAndThen == 0 && kNew % kNowAndThen == 0);  // choices of these ages are not passed over
  if (!options_.sample || standing.sample.rows() == 0 || does_without(of)) return;
  if (readers(standing.sample) > of.readers.size()) of.readers.resize(readers(standing.sample));
  const Choosing by = choosing(standing, choice);
  read_.clear();
  const auto read = [&](Reader reader) {
    const auto key = read_at(standing.sample, standing.trail, by, reader);
    if (!key) return;
    contexts_.prefetch(*key);
    read_.push_back({reader, *key});
  };
  const std::uint64_t age = of.choices % kAnew;
  const bool is_told = told(of);
  const bool with_places = age < kPlacesNew && !is_told;
  const bool all = age < kNew || (age % kNowAndThen == 0 && !is_told);
  const Reader end = all ? readers(standing.sample) : kPlaces;
  if (with_places) {
    halve_places(of, age);
    for (const Reader place : of.places) read(place);
  }
  for (Reader reader = kPlaces; reader < end; ++reader) read(reader);
  const std::span heard = std::span(of.best).first(bounds().readers);
  for (const Reader best : heard) {
    const auto is_it = [best](const auto& seen) { return seen.first == best; };
    if (best != kNoReader && std::none_of(read_.begin(), read_.end(), is_it)) read(best);
  }
  Advice advice;
  for (const auto& [reader, key] : read_) {
    advise(key, advice);
    if (way < count_ && advice.any) judge(of.readers[reader], right(advice, way));
    count(key, to);
  }
  if (all) pick_best(of);
  else std::sort(heard.begin(), heard.end(), [&of](Reader a, Reader b) { return better(of, a, b); });
}

// A new class that some adviser, who looks at what came before, was right of whenever it was asked; or of which nothing can be
// said yet. Most new classes are such, and reading samples in every way is most of what learning costs.
bool Chooser::does_without(const OfClass& of) const {
  constexpr std::uint64_t kFirst = 4;
  if (of.choices < kFirst) return true;
  if (of.choices >= kNew) return false;
  for (std::size_t a = 0; a < kHeard; ++a) {
    if (is_used(a) && says_which(a) && of.fixed[a].asked >= kFirst && of.fixed[a].right > 0.999F) return true;
  }
  return false;
}

bool Chooser::is_used(std::size_t adviser) const {
  if (adviser <= kLike) return options_.markov;
  if (adviser >= kKind) return options_.idioms != IdiomUse::kOff;
  return adviser < kLatest || options_.rules;
}

// Somebody is nearly always right.
bool Chooser::told(const OfClass& of) {
  const auto tells = [](const Quality& quality) { return quality.right >= 0.95F && quality.asked >= 16; };
  const Reader best = of.best[0];
  if (best != kNoReader && tells(of.readers[best])) return true;
  for (std::size_t a = 0; a < kHeard; ++a) {
    if (says_which(a) && tells(of.fixed[a])) return true;
  }
  return false;
}

bool Chooser::better(const OfClass& of, Reader a, Reader b) {
  const float first = a == kNoReader ? -1 : weight_of(of.readers[a], {});
  const float second = b == kNoReader ? -1 : weight_of(of.readers[b], {});
  return first != second ? first > second : a < b;
}

void Chooser::pick_best(OfClass& of) const {
  of.best.fill(kNoReader);
  const std::span heard = std::span(of.best).first(bounds().readers);
  for (Reader reader = 0; reader < of.readers.size(); ++reader) {
    if (of.readers[reader].asked == 0 || !better(of, reader, heard.back())) continue;
    auto at = heard.end() - 1;
    for (; at != heard.begin() && better(of, reader, at[-1]); --at) *at = at[-1];
    *at = reader;
  }
}

Bytes Chooser::table_bytes() const {
  std::size_t bytes = classes_.size() * sizeof(OfClass);
  for (const OfClass& of : classes_) bytes += of.readers.size() * sizeof(Quality) + of.places.capacity() * sizeof(Reader);
  bytes += sorts_.size() * sizeof(OfSort);
  return contexts_.bytes() + kinds_.bytes() +
         static_cast<Bytes>(bytes + nodes_.size() * (sizeof(Qualities) + kRules + sizeof(std::uint32_t)));
}

}  // namespace outsize::pilot
