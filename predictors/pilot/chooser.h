// The pilot model: at a node from which steps went several ways, which way comes. After the idea of DyNN-Offload (Ren
// et al., HPCA 2024), whose pilot sees the sample, the network's blocks and its base type; the model is ours.
//
// Several *advisers* each give every way a probability: what followed after the last 0 to 3 choices; what followed the
// how-manieth run of this op in the step; what followed ops as far behind the begin of other branches; what followed
// where the sample had this value (readers.h; the few ways of reading it that were right most often are heard); the ways
// whose things were made latest (backward returns in reverse); whether what comes returns to something at all, by the
// how-manieth run this is, which of those alone that do, and that none does where nothing is left; which kind of op came at the
// how-manieth choice of its class since the how-manieth sample came; the next in order of those whose things are there, or were used in
// this step (optimizers); which kind of way followed such kinds of work, in whatever network (kinds.h). How often each was
// right is kept by class of choices.
// A softmax over ways of their logarithms, weighed by that and by weights that all choices of all networks share,
// decides; the weights learn by gradient descent from every choice that is seen: a mixture of context models as in
// lossless compression (Mahoney, Adaptive weighing of context models, 2005).
//
// Weights are kept by *sort* of choice as well, beside those that are shared: by the idioms of what is chosen and the network's
// base type. So is how often each adviser was right; a choice that is new begins with that. Nothing of a sort, and no
// kind, is of one network: all of it is kept where the rest of a model is of no use.
//
// Costs: O(ways + advisers) table look-ups a choice and, in backward, of up to 1024 of its class what is left of them; one
// or a few where an adviser is sure (chooser_sure.cpp), and the latter where another is surer of what backward returns to, or one
// more where one is surer of the kind of op that comes. Learning looks at all of the sample's features now and then.
// Bounded: past so many contexts those that came seldom are forgotten.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/large_table.h"
#include "predictors/pilot/contexts.h"
#include "predictors/pilot/kinds.h"
#include "predictors/pilot/readers.h"
#include "predictors/pilot/standing.h"

namespace outsize::pilot {

struct Choice {
  NodeId to = kNobody;
  float probability = 1;
};

// Small: few contexts, and few advisers of one sort are heard.
enum class ChooserSize : std::uint32_t { kSmall, kMedium, kLarge };

struct ChooserOptions {
  bool sample = true;   // advisers that look at it
  bool markov = true;   // those that look at the way so far
  bool rules = true;    // those that look at what was made and used
  IdiomUse idioms = IdiomUse::kOn;  // those that look at kinds; and sorts of choices by them
  bool base = true;     // sorts by the network's base type
  bool learn = true;    // else it stays what a model made it
  ChooserSize size = ChooserSize::kMedium;
};

class Chooser {
 public:
  static constexpr float kUnlikely = 0.3F;  // a way of less chance is hardly the one
  explicit Chooser(const ChooserOptions& options = {}) : options_(options) {}
  // kNobody where nothing ever came after.
  Choice choose(const Standing& standing);
  // It went there.
  void learn(const Standing& standing, NodeId node);
  Bytes table_bytes() const;
  // As part of a saved model, beside a network of so many nodes. A new one is loaded; what has been refused
  // leaves it of no use.
  void save(ModelWriter& out, std::size_t nodes) const;
  void load(ModelReader& in, const Network& network);
  std::size_t contexts() const { return contexts_.size(); }
  std::size_t kinds() const { return kinds_.size(); }  // contexts of kinds
  // Of another network nothing else helps.
  void keep_what_has_no_names();

  struct Score {
    std::uint64_t choices = 0, right = 0;
  };
  // Of all the choices learnt from, before they were: how many who was sure, or else the mixture, would have said rightly.
  const Score& score() const { return score_; }

 private:
  static constexpr std::size_t kWaysMax = Contexts::kWaysMax;
  struct Bounds {
    std::size_t contexts, kinds;  // contexts of kinds
    std::size_t orders;           // choices back
    std::size_t readers;          // so many are heard
  };
  static constexpr std::size_t kContextsMax = 1U << 20, kKindsMax = 1U << 16, kBest = 4;  // of the largest
  static constexpr std::array<Bounds, 3> kBounds{{{1U << 12, 1U << 8, 1, 1},
                                                  {1U << 18, 1U << 14, Trail::kOrders, 2},
                                                  {kContextsMax, kKindsMax, Trail::kOrders, kBest}}};
  const Bounds& bounds() const { return kBounds[static_cast<std::size_t>(options_.size)]; }
  enum Heard : std::size_t {
    kMarkov = 0, kTimes = 4, kWhether, kRound, kLike, kSample, kLatest = kSample + kBest, kThere, kUsed, kReturning, kNoneLeft, kKind,
    kHeard = kKind + kKindOrders
  };
  static constexpr std::uint64_t kNowAndThen = 8;  // one choice in so many of a class is looked at closely
  static constexpr std::uint64_t kNew = 64;        // a class of fewer choices is new
  static constexpr std::uint32_t kMemory = 48;  // of a quality: choices
  static constexpr std::uint32_t kMemoryOfSort = 512;
  static constexpr std::uint32_t kCountMax = Contexts::kCountMax;
  static constexpr std::size_t kDueAmongMax = 1024;  // nodes
  static constexpr float kWeightMax = 4;
  static constexpr float kSure = 0.98F;      // a quality so good, of an adviser that was asked ...
  static constexpr std::uint32_t kAskedOften = 24;  // ... so often
  static constexpr float kFaint = 0.05F;  // of less weight no adviser is heard

  struct Quality {
    float right = 0;           // share, of late
    std::uint32_t asked = 0;
  };
  struct Advice {
    std::array<float, kWaysMax> log{};  // of the probability, by way
    float weight = 0;                   // by how often it was right
    std::size_t points_at = kWaysMax;   // a rule's way
    bool any = false;                   // it has something to say
  };
  static constexpr std::size_t kRules = kNoneLeft - kLatest;  // that may be given up
  // The others say of several alike that it is one of them, or none.
  static constexpr bool says_which(std::size_t adviser) {
    return adviser != kWhether && adviser != kRound && adviser != kReturning && adviser != kNoneLeft;
  }
  static constexpr std::uint8_t kTriesMax = 2;
  using Qualities = std::array<Quality, kHeard>;
  static constexpr Reader kNoReader = 0xffffffffU;
  struct OfClass {
    OfClass() { best.fill(kNoReader); }
    Qualities fixed{};
    std::vector<Quality> readers;               // by reader
    std::array<Reader, kBest> best{};           // the best first; kNoReader where there are fewer
    std::uint64_t choices = 0;
    std::vector<Reader> places;                 // that are still tried; a saved model does without
  };
  struct OfSort {
    std::array<float, kHeard> weights{};  // added to those that all share
    Qualities fixed{};
  };
  // What contexts count: nodes, and of those that are named after the branch they follow the name without it, so that what
  // comes after one branch is known from what came after the others.
  using Symbol = std::uint32_t;
  static constexpr Symbol kRelative = 1U << 31;
  static constexpr Symbol kReturns = ~Symbol{0};  // any that returns to something
  static constexpr Symbol of_kind(std::uint32_t kind) { return kRelative | kind; }  // any whose op is of that kind
  static Symbol symbol_of(const Network& network, NodeId node);
  static NodeId node_of(const Standing& standing, Symbol symbol);

  static void save(ModelWriter& out, const Quality& quality);
  static void load(ModelReader& in, Quality& quality);
  void save_nodes(ModelWriter& out, std::size_t nodes) const;
  void load_nodes(ModelReader& in, std::size_t nodes);
  void save_sorts(ModelWriter& out) const;
  void load_sorts(ModelReader& in);
  static void save_contexts(ModelWriter& out, const Contexts& contexts);
  static void load_contexts(ModelReader& in, Contexts& contexts, std::size_t most);
  static void check_ways(ModelReader& in, const Contexts& contexts, std::size_t nodes);
  std::optional<Symbol> mostly(std::uint64_t key) const;
  NodeId mostly(const Standing& standing, std::uint64_t key) const;
  static bool is_sure(const Quality& quality) { return quality.asked >= kAskedOften && quality.right >= kSure; }
  NodeId surely_by_rules(const Standing& standing, ClassId choice);
  NodeId surely_elsewhere(const Standing& standing, ClassId choice, const OfClass& of);
  NodeId only_due(const Standing& standing) const;
  static bool is_surer(const Quality& quality, float right) { return quality.asked >= kAskedOften && quality.right > right; }
  bool is_of_another_round(const Standing& standing, ClassId choice, NodeId to, float right);
  bool is_overruled(const Standing& standing, ClassId choice, NodeId to, float right);
  NodeId surely(const Standing& standing, ClassId choice, OfClass& of);
  bool passes_over(const Standing& standing, ClassId choice, OfClass& of, NodeId node);
  NodeId due_among(const Standing& standing, std::span<const NodeId> nodes) const;
  std::uint64_t returns_since(const Standing& standing, NodeId node) const;
  bool is_its_turn(const Standing& standing, ClassId choice, NodeId node) const;
  bool is_of_this_round(const Standing& standing, ClassId choice, NodeId node) const;
  template <class Take>
  void gather_due(const Standing& standing, std::span<const NodeId> members, const Take& take);
  void learn_choice(const Standing& standing, NodeId node);
  NodeId mostly_after_backward(const Standing& standing) const;
  void gather_ways(const Standing& standing);  // to_[0, count_), by index_of
  void hear(const Standing& standing, ClassId choice, OfClass& of, bool all);
  std::size_t index_of(Symbol symbol) const;
  static std::uint64_t times_key(const Standing& standing);
  static std::uint64_t whether_key(const Standing& standing);
  static std::uint64_t end_key(const Standing& standing);
  static std::optional<std::uint64_t> round_key(const Standing& standing, ClassId choice);
  static std::optional<std::uint64_t> like_key(const Standing& standing, ClassId choice);
  // When the latest of that thing was made; 0: none is there.
  static std::uint64_t latest_made(const Standing& standing, ThingId thing) {
    const Instance* const top = standing.instances.top(thing);
    return top == nullptr ? 0 : top->since;
  }
  static std::uint64_t made(const Standing& standing, const Node& node);
  void hear_latest(const Standing& standing, Advice& out) const;
  void hear_returning(const Standing& standing, Advice& which, Advice& none) const;
  void hear_whether(const Standing& standing, Advice& out) const;
  void hear_round(std::uint64_t key, Advice& out) const;
  template <class IsIt>
  void point_at_next(const Standing& standing, Heard rule, const IsIt& is_it, Advice& out) const;
  void hear_there(const Standing& standing, Advice& out) const;
  void hear_used(const Standing& standing, Advice& out) const;
  void point_at(std::size_t way, Advice& out) const;
  void advise(std::uint64_t key, Advice& out) const;
  void advise(std::span<const Count> counts, Advice& out) const;
  void hear_kinds(const Standing& standing, ClassId choice, bool all);
  void advise_kinds(std::span<const Count> counts, Advice& out) const;
  bool run_was_used(const Standing& standing, NodeId node) const;
  void mix_advice();
  std::size_t likeliest() const;
  void learn_kinds(const Standing& standing, std::size_t way);
  void judge_heard(const Standing& standing, OfClass& of, std::size_t way);
  void descend(std::size_t way);
  bool given_up(NodeId node, std::size_t rule) const {
    return node < in_vain_.size() && in_vain_[node][rule - kLatest] >= kTriesMax;
  }
  void judge_rule(const Network& network, std::size_t rule, std::size_t way);
  bool says_nothing_of(std::size_t adviser, std::size_t way) const;
  template <class AsGood>
  bool right(const Advice& advice, std::size_t way, const AsGood& is_as_good) const;
  bool right(const Advice& advice, std::size_t way) const;
  bool was_right(std::size_t adviser, std::size_t way) const;
  static void judge(Quality& quality, bool right, std::uint32_t memory = kMemory);
  std::uint64_t markov_key(const Standing& standing, std::size_t order) const;
  static Choosing choosing(const Standing& standing, ClassId choice) {
    return {choice, standing.network.kind_after(standing.network[standing.at])};
  }
  // The key under which the `i`-th best reader of a class sees this choice.
  std::optional<std::uint64_t> best_key(const Standing& standing, ClassId choice, const OfClass& of, std::size_t i) const;
  void learn_sample(const Standing& standing, OfClass& of, ClassId choice, Symbol to, std::size_t way);
  static void halve_places(OfClass& of, std::uint64_t age);
  void pick_best(OfClass& of) const;
  static bool told(const OfClass& of);
  bool does_without(const OfClass& of) const;
  bool is_used(std::size_t adviser) const;  // as options say
  static bool better(const OfClass& of, Reader a, Reader b);
  void count(std::uint64_t key, Symbol to) { contexts_.count(key, to, bounds().contexts); }
  OfClass& of_class(ClassId choice);
  Qualities& of_node(NodeId node);
  // Of the choice that is thought about.
  OfSort& sort() { return sorts_[sort_]; }
  const OfSort& sort() const { return sorts_[sort_]; }
  void be_of_sort(const Standing& standing);
  float trust_in(std::size_t adviser) const {
    return std::clamp(weights_[adviser] + sort().weights[adviser], 0.0F, kWeightMax);
  }
  // `before`: how often it was right at such choices, which tells where little is known of this one.
  static float weight_of(const Quality& quality, const Quality& before);

  ChooserOptions options_;
  Contexts contexts_, kinds_;
  std::vector<OfClass> classes_;
  LargeTable<Qualities> nodes_;
  std::vector<OfSort> sorts_;  // by sort_of
  // By node: how often in a row a rule pointed at it for nothing. What does not come any more, as an optimizer's ops
  // that make state, is not pointed at for ever.
  std::vector<std::array<std::uint8_t, kRules>> in_vain_;
  std::array<float, kHeard> weights_ = all_ones();
  static constexpr std::array<float, kHeard> all_ones() {
    std::array<float, kHeard> ones{};
    for (float& one : ones) one = 1;
    return ones;
  }
  Score score_;
  // of the choice that is thought about
  std::array<NodeId, kWaysMax> to_{};
  std::array<Symbol, kWaysMax> symbol_{};
  std::array<bool, kWaysMax> returns_{};  // backward returns to something with it
  bool any_returns_ = false;
  std::array<std::uint32_t, kWaysMax> kind_of_op_{};
  bool kinds_differ_ = false;
  ThingId due_ = kNobody;               // which it is due to return to
  std::array<Kind, kWaysMax> kind_{};
  std::size_t count_ = 0;
  std::size_t sort_ = 0;
  std::vector<std::uint32_t> index_;  // by node: in to_, where it is there
  std::vector<std::pair<Reader, std::uint64_t>> read_;  // what readers see: keys, all of them known before one is looked at
  std::array<Advice, kHeard> advice_;
  std::array<float, kWaysMax> chance_{};
};

}  // namespace outsize::pilot
