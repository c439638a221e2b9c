// What the chooser knows, as part of a saved model (model.h).
#include <algorithm>
#include <span>
#include <utility>

#include "predictors/pilot/chooser.h"
#include "predictors/pilot/model.h"

namespace outsize::pilot {

void Chooser::save(ModelWriter& out, const Quality& quality) {
  out.number(quality.asked);
  if (quality.asked > 0) out.real(quality.right);
}

void Chooser::load(ModelReader& in, Quality& quality) {
  quality.asked = static_cast<std::uint32_t>(in.number(kMemoryOfSort, "an adviser that was asked too often"));
  if (quality.asked > 0) quality.right = in.real(0, 1, "how often an adviser was right");
}

void Chooser::save(ModelWriter& out, std::size_t nodes) const {
  for (const float weight : weights_) out.real(weight);
  out.number(classes_.size());
  for (const OfClass& of : classes_) {
    for (const Quality& quality : of.fixed) save(out, quality);
    out.number(of.readers.size());
    for (const Quality& quality : of.readers) save(out, quality);
    for (const Reader best : of.best) out.number(best == kNoReader ? 0 : best + 1ULL);
    out.number(of.choices);
  }
  save_nodes(out, nodes);
  save_contexts(out, contexts_);
  save_sorts(out);
}

void Chooser::save_contexts(ModelWriter& out, const Contexts& contexts) {
  const std::vector<std::uint64_t> keys = contexts.keys();
  out.number(keys.size());
  std::uint64_t before = 0;
  for (const std::uint64_t key : keys) {
    out.number(key - std::exchange(before, key));
    const std::span<const Count> counts = contexts.find(key);
    out.number(counts.size());
    for (const Count& way : counts) {
      out.number(way.to);
      out.number(way.count);
    }
  }
}

// A sort stands there once it was met.
void Chooser::save_sorts(ModelWriter& out) const {
  const auto asked = [](const Quality& quality) { return quality.asked > 0; };
  const auto known = [&](const OfSort& of) { return std::ranges::any_of(of.fixed, asked); };
  std::size_t sorts = sorts_.size();
  while (sorts > 0 && !known(sorts_[sorts - 1])) --sorts;
  out.number(sorts);
  for (const OfSort& of : std::span(sorts_).first(sorts)) {
    out.number(known(of) ? 1 : 0);
    if (!known(of)) continue;
    for (const float weight : of.weights) out.real(weight);
    for (const Quality& quality : of.fixed) save(out, quality);
  }
  save_contexts(out, kinds_);
}

// Of most nodes nothing is known: only one thing ever came after them.
void Chooser::save_nodes(ModelWriter& out, std::size_t nodes) const {
  const auto known = [this](std::size_t node) {
    const auto asked = [](const Quality& quality) { return quality.asked > 0; };
    if (node < nodes_.size() && std::any_of(nodes_[node].begin(), nodes_[node].end(), asked)) return true;
    const auto tried = [](std::uint8_t tries) { return tries > 0; };
    return node < in_vain_.size() && std::any_of(in_vain_[node].begin(), in_vain_[node].end(), tried);
  };
  std::vector<NodeId> told;
  for (NodeId node = 0; node < nodes; ++node) {
    if (known(node)) told.push_back(node);
  }
  out.number(told.size());
  for (const NodeId node : told) {
    out.number(node);
    for (std::size_t i = 0; i < kHeard; ++i) save(out, node < nodes_.size() ? nodes_[node][i] : Quality{});
    for (std::size_t i = 0; i < kRules; ++i) out.number(node < in_vain_.size() ? in_vain_[node][i] : 0);
  }
}

void Chooser::load(ModelReader& in, const Network& network) {
  for (float& weight : weights_) weight = in.real(0, kWeightMax, "an adviser's weight");
  classes_.resize(in.count(network.classes(), "too many classes"));
  for (OfClass& of : classes_) {
    for (Quality& quality : of.fixed) load(in, quality);
    of.readers.resize(in.count(kPlaces + Sample::kRowsMax * kReadings, "too many features"));
    for (Quality& quality : of.readers) load(in, quality);
    for (Reader& best : of.best) {  // from 0: kNoReader
      best = static_cast<Reader>(in.number(of.readers.size(), "too many features")) - 1;
    }
    of.choices = in.number(std::uint64_t{1} << 61, "too many choices");
    if (!in.ok()) return;
  }
  load_nodes(in, network.nodes());
  load_contexts(in, contexts_, kContextsMax);
  check_ways(in, contexts_, network.nodes());
  load_sorts(in);
}

void Chooser::load_nodes(ModelReader& in, std::size_t nodes) {
  const std::size_t told = in.count(nodes, "too many nodes");
  if (told == 0) return;
  nodes_.resize(nodes);
  in_vain_.resize(nodes);
  for (std::size_t i = 0; i < told && in.ok(); ++i) {
    const NodeId node = in.id(nodes, "there is no such node");
    for (Quality& quality : nodes_[node]) load(in, quality);
    for (std::uint8_t& tries : in_vain_[node]) {
      tries = static_cast<std::uint8_t>(in.number(kTriesMax, "a rule that was tried too often"));
    }
  }
}

void Chooser::load_contexts(ModelReader& in, Contexts& table, std::size_t most) {
  const std::size_t contexts = in.count(most, "too many contexts");
  std::vector<Count> counts;
  std::uint64_t key = 0;
  for (std::size_t i = 0; i < contexts && in.ok(); ++i) {
    const std::uint64_t further = in.any();
    if (further > UINT64_MAX - key || (i > 0 && further == 0)) in.refuse("contexts are out of order");
    key += further;
    counts.resize(in.count(kWaysMax, "too many ways"));
    for (Count& way : counts) {
      way.to = static_cast<Symbol>(in.number(UINT32_MAX, "there is no such node"));
      way.count = static_cast<std::uint32_t>(in.number(kCountMax, "a way that is gone too often"));
    }
    if (counts.empty()) in.refuse("a context without ways");
    else if (!table.put(key, counts)) in.refuse("contexts that are too much alike");
  }
}

void Chooser::check_ways(ModelReader& in, const Contexts& contexts, std::size_t nodes) {
  const auto is_none = [nodes](const Count& way) { return (way.to & kRelative) == 0 && way.to >= nodes; };
  for (const std::uint64_t key : contexts.keys()) {
    if (std::ranges::any_of(contexts.find(key), is_none)) in.refuse("there is no such node");
  }
}

void Chooser::load_sorts(ModelReader& in) {
  sorts_.resize(in.count(kSorts, "too many sorts of choices"));
  for (OfSort& of : sorts_) {
    if (!in.flag("whether a sort of choice is known")) continue;
    for (float& weight : of.weights) weight = in.real(-kWeightMax, kWeightMax, "an adviser's weight");
    for (Quality& quality : of.fixed) load(in, quality);
    if (!in.ok()) return;
  }
  load_contexts(in, kinds_, kKindsMax);
}

void Chooser::keep_what_has_no_names() {
  Chooser other(options_);
  other.weights_ = weights_;
  other.sorts_ = std::move(sorts_);
  other.kinds_ = std::move(kinds_);
  other.score_ = score_;
  *this = std::move(other);
}

}  // namespace outsize::pilot
