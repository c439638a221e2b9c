#include "predictors/pilot/kinds.h"

#include <vector>

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

// A hub from which ops of several idioms may come; whatever the names are.
class Hub {
 public:
  explicit Hub(Token names) : names_(names) {
    hub_ = add(0, "aten::index");
    for (const char* const op : {"aten::addmm", "aten::bmm", "aten::addmm"}) ways_.push_back(add(ways_.size() + 1, op));
    for (const NodeId way : ways_) network.pass(hub_, way, 1);
    for (const NodeId way : ways_) network.pass(hub_, way, 2);  // in order
  }
  void choose(std::size_t way) {
    trail.enter(network.class_of(network[ways_[way]]), ways_[way]);
    instances.run(ways_[way]);
  }
  Standing standing(BaseType base = BaseType::kPlain) const { return {network, instances, trail, sample, hub_, base}; }
  Kind kind(std::size_t way, IdiomUse use = IdiomUse::kOn) const {
    const ClassId choice = network.choice_after(network[hub_]);
    return kind_of_way(standing(), ways_[way], latest_of(standing(), choice), use);
  }
  std::uint64_t key(std::size_t order, std::size_t ways = 3) const {
    return kind_key(standing(), order, ways, IdiomUse::kOn);
  }

  Network network;
  Instances instances;
  Trail trail;
  Sample sample;

 private:
  NodeId add(std::size_t number, const char* op) {
    const NodeId id = network.node(names_ + number, false);
    network[id].idiom = idiom_class_named(op);
    network[id].kind = static_cast<std::uint32_t>(100 + number);
    network[id].time = 300'000;
    return id;
  }
  Token names_;
  NodeId hub_ = kNobody;
  std::vector<NodeId> ways_;
};

TEST(PilotKinds, AreTheSameInNetworksOfOtherNames) {
  Hub one(10), other(5000);
  for (Hub* const hub : {&one, &other}) hub->choose(1);
  for (std::size_t order = 0; order < kKindOrders; ++order) EXPECT_EQ(one.key(order), other.key(order));
  for (std::size_t way = 0; way < 3; ++way) EXPECT_EQ(one.kind(way), other.kind(way));
  EXPECT_EQ(sort_of(one.standing(), true, IdiomUse::kOn), sort_of(other.standing(), true, IdiomUse::kOn));
}

TEST(PilotKinds, TellIdiomsAndTheOrderApart) {
  Hub hub(10);
  EXPECT_EQ(hub.kind(0), hub.kind(2)) << "nothing was chosen yet, and both are products with bias";
  EXPECT_NE(hub.kind(0), hub.kind(1));
  EXPECT_NE(hub.kind(0, IdiomUse::kOneHot), hub.kind(2, IdiomUse::kOneHot));
  hub.choose(0);
  EXPECT_NE(hub.kind(0), hub.kind(2)) << "one is the same again, one is later";
  EXPECT_LT(hub.kind(2, IdiomUse::kOneHot), kKindEnd);
}

TEST(PilotKinds, ContextsLookAtTheLastChoices) {
  Hub hub(10);
  const std::uint64_t at = hub.key(0), before = hub.key(1);
  hub.choose(1);
  EXPECT_EQ(hub.key(0), at);
  EXPECT_NE(hub.key(1), before);
  EXPECT_NE(hub.key(0, 12), at) << "one among three is another choice than one among twelve";
}

TEST(PilotKinds, SortsAreBoundedAndOfBaseTypeAndIdiom) {
  Hub hub(10);
  const auto sort = [&](BaseType base, bool by_base, IdiomUse use) { return sort_of(hub.standing(base), by_base, use); };
  EXPECT_NE(sort(BaseType::kPlain, true, IdiomUse::kOn), sort(BaseType::kAttention, true, IdiomUse::kOn));
  EXPECT_EQ(sort(BaseType::kPlain, false, IdiomUse::kOn), sort(BaseType::kAttention, false, IdiomUse::kOn));
  EXPECT_EQ(sort(BaseType::kAttention, false, IdiomUse::kOff), 0U);
  for (const BaseType base : {BaseType::kPlain, BaseType::kAttention}) EXPECT_LT(sort(base, true, IdiomUse::kOn), kSorts);
}

}  // namespace
}  // namespace outsize::pilot
