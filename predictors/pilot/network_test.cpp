#include "predictors/pilot/network.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

constexpr Bytes kBytes = 1 << 20;
constexpr char kStepEnds = '$';

// Steps written as letters, a node each.
class Net {
 public:
  NodeId node(char letter) { return network.node(static_cast<Token>(letter), false); }
  // Whether one of its passes was a new choice, as pass says.
  bool step(const std::string& letters) {
    ++step_;
    bool chosen = false;
    for (const char letter : letters + kStepEnds) chosen = go(node(letter)) || chosen;
    return chosen;
  }
  // The class of what comes after that letter, in its order.
  std::string after(char letter) {
    const ClassId choice = network.choice_after(network[node(letter)]);
    return choice == kNobody ? "" : members(choice);
  }
  std::string members(ClassId choice) const {
    std::string letters;
    for (const NodeId id : network.members(choice)) letters += static_cast<char>(network[id].token);
    return letters;
  }
  Network network;

 private:
  bool go(NodeId to) { return network.pass(std::exchange(running_, to), to, step_); }
  NodeId running_ = node(kStepEnds);
  std::uint64_t step_ = 0;
};

TEST(PilotNetwork, ATokenIsOneNode) {
  Network network;
  const NodeId one = network.node(11, false), other = network.node(12, true);
  EXPECT_NE(one, other);
  EXPECT_EQ(network.node(11, true), one) << "as it was first seen";
  EXPECT_FALSE(network[one].backward);
  EXPECT_TRUE(network[other].backward);
  EXPECT_EQ(network.nodes(), 2U);
}

TEST(PilotNetwork, AnOpIsTakenToFareAsItsKindHasFaredSince) {
  constexpr std::uint32_t kKind = 5, kOther = 6;
  constexpr NodeId kNodes = 40;
  Network network;
  for (NodeId id = 0; id <= kNodes; ++id) {
    ASSERT_EQ(network.node(id + 1, false), id);
    EXPECT_EQ(network.time_of(network[id]), 0);
    network.is_of(id, id < kNodes ? kKind : kOther, kNoIdiomClass);
    network.took(id, 1000);
  }
  const Node &last = network[kNodes - 1], &other = network[kNodes];
  EXPECT_EQ(network.time_of(last), 1000);
  for (NodeId id = 0; id + 1 < kNodes; ++id) network.took(id, 3000);  // a larger sample
  EXPECT_NEAR(static_cast<double>(network.time_of(last)), 3000, 300);
  EXPECT_EQ(network.time_of(other), 1000);
  network.took(0, Nanos{1} << 50);  // a wait
  EXPECT_LT(network.time_of(last), 6000);
}

// Each change of all kin must not stay with the one in which it showed: or what runs seldom would be taken to be ever quicker.
TEST(PilotNetwork, SamplesOfAllSizesLeaveTheTimeOfWhatRunsSeldomAsItWas) {
  constexpr NodeId kNodes = 40;
  Network network;
  for (NodeId id = 0; id < kNodes; ++id) {
    network.node(id + 1, false);
    network.is_of(id, 7, kNoIdiomClass);
    network.took(id, 1'000'000);
  }
  const Node& seldom = network[kNodes - 1];
  for (int step = 0; step < 400; ++step) {
    for (NodeId id = 0; id + 1 < kNodes; ++id) network.took(id, step % 2 == 0 ? 2'000'000 : 1'000'000);
  }
  EXPECT_NEAR(static_cast<double>(network.time_of(seldom)), 1'000'000, 250'000);
}

TEST(PilotNetwork, WhatLastsIsOneThingByItsRole) {
  Network network;
  const ThingId weight = network.lasting(7);
  EXPECT_NE(network.lasting(8), weight);
  EXPECT_EQ(network.lasting(7), weight);
  EXPECT_EQ(network.thing(weight).role, 7U);
  EXPECT_FALSE(network.thing(weight).forward);
  network.used_forward(weight);
  EXPECT_TRUE(network.thing(weight).forward);
}

TEST(PilotNetwork, WhatANodeBearsIsOneThingByItsOrder) {
  Network network;
  const NodeId node = network.node(1, false), other = network.node(2, false);
  const ThingId second = network.birth(node, 1, kBytes);
  const ThingId first = network.birth(node, 0, 2 * kBytes);
  EXPECT_NE(first, second);
  EXPECT_NE(network.birth(other, 0, kBytes), first);
  EXPECT_EQ(network.birth(node, 1, 3 * kBytes), second);
  EXPECT_EQ(network.thing(second).bytes, 3 * kBytes) << "of the last one";
  EXPECT_EQ(network.thing(first).bytes, 2 * kBytes);
  EXPECT_EQ(network.thing(second).node, node);
  EXPECT_EQ(network[node].births, (std::vector<ThingId>{first, second}));
}

// An op that works now on what one expert made and now on what another did.
TEST(PilotNetwork, UsesThatVaryBecomeOneThingThatStandsForAll) {
  Network network;
  const NodeId user = network.node(100, false);
  const ThingId weight = network.lasting(7);
  std::vector<ThingId> made;
  for (Token token = 0; token < 50; ++token) made.push_back(network.birth(network.node(1 + token, false), 0, kBytes));
  const ThingId of_two[] = {weight, made[0]};
  network.uses(user, of_two);
  EXPECT_EQ(network[user].uses, (std::vector<ThingId>{weight, made[0]}));
  network.uses(user, of_two);
  EXPECT_EQ(network[user].uses[1], made[0]) << "while it does not vary";
  const ThingId other[] = {weight, made[1]};
  network.uses(user, other);
  EXPECT_EQ(network[user].uses[0], weight);
  const ThingId stands = network[user].uses[1];
  EXPECT_EQ(network.thing(stands).among, (std::vector<ThingId>{made[0], made[1]}));
  const std::size_t things = network.things();
  for (int round = 0; round < 3; ++round) {
    for (const ThingId thing : made) {
      const ThingId now[] = {weight, thing};
      network.uses(user, now);
      const std::vector<ThingId>& among = network.thing(stands).among;
      EXPECT_NE(std::find(among.begin(), among.end(), thing), among.end());
      EXPECT_LE(among.size(), 32U);
    }
  }
  EXPECT_EQ(network[user].uses, (std::vector<ThingId>{weight, stands})) << "it stays the same thing";
  EXPECT_EQ(network.things(), things);
}

// Which weight an op uses is in its token: where it still varies, the last one is the best guess.
TEST(PilotNetwork, WhatLastsStandsForItself) {
  Network network;
  const NodeId user = network.node(100, false);
  const ThingId one[] = {network.lasting(7)}, other[] = {network.lasting(8)};
  const ThingId made[] = {network.birth(user, 0, kBytes)};
  network.uses(user, one);
  network.uses(user, other);
  EXPECT_EQ(network[user].uses[0], other[0]);
  network.uses(user, made);
  EXPECT_EQ(network[user].uses[0], made[0]);
  network.uses(user, one);
  EXPECT_EQ(network[user].uses[0], one[0]);
}

TEST(PilotNetwork, WhereTheirNumberVariesTheLastOnesCount) {
  Network network;
  const NodeId node = network.node(1, false);
  const ThingId two[] = {network.birth(node, 0, kBytes), network.birth(node, 1, kBytes)};
  network.deaths(node, two);
  EXPECT_EQ(network[node].deaths_now().size(), 2U);
  network.deaths(node, {});
  EXPECT_TRUE(network[node].deaths_now().empty());
  network.deaths(node, std::span(two).first(1));
  ASSERT_EQ(network[node].deaths_now().size(), 1U);
  EXPECT_EQ(network[node].deaths_now()[0], two[0]);
}

// Or a program whose ops work on one, two, one things for days would fill the memory.
TEST(PilotNetwork, NumbersThatVaryMakeNothingNewForEver) {
  Network network;
  const NodeId node = network.node(1, false);
  const ThingId two[] = {network.birth(node, 0, kBytes), network.birth(node, 1, kBytes)};
  const ThingId swapped[] = {two[1], two[0]};
  for (int i = 0; i < 100; ++i) {
    network.uses(node, two);
    network.uses(node, std::span(swapped).first(1));
    network.uses(node, swapped);
  }
  EXPECT_LE(network.things(), 4U);
}

TEST(PilotNetwork, WhereOneThingComesAlwaysNothingIsChosen) {
  Net net;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(net.step("abc"));
  EXPECT_EQ(net.after('a'), "");
  EXPECT_EQ(net.network.classes(), 0U);
  const Node& a = net.network[net.node('a')];
  ASSERT_EQ(a.ways.size(), 1U);
  EXPECT_EQ(a.ways[0].to, net.node('b'));
  EXPECT_EQ(a.ways[0].count, 3U);
}

TEST(PilotNetwork, WhatIsChosenAmongIsOneClass) {
  Net net;
  net.step("abd");
  EXPECT_TRUE(net.step("acd")) << "another way for the first time";
  EXPECT_FALSE(net.step("acd"));
  EXPECT_EQ(net.after('a'), "bc");
  EXPECT_EQ(net.after('b'), "") << "only d ever came";
  EXPECT_EQ(net.network.class_of(net.network[net.node('d')]), kNobody);
}

TEST(PilotNetwork, ClassesThatShareAMemberAreOne) {
  Net net;
  net.step("a1bx2dy");
  net.step("a1cx2ey");
  EXPECT_EQ(net.after('1'), "bc");
  EXPECT_EQ(net.after('2'), "de");
  EXPECT_TRUE(net.step("a1ex2dy")) << "an expert of both";
  EXPECT_EQ(net.after('1').size(), 4U);
  EXPECT_EQ(net.after('1'), net.after('2'));
  for (const char letter : net.after('1')) {
    const Node& node = net.network[net.node(letter)];
    EXPECT_EQ(net.network.class_of(node), net.network.choice_after(net.network[net.node('1')]));
    EXPECT_EQ(net.after('1')[node.place], letter);
  }
}

TEST(PilotNetwork, WhatRunsTwiceInAStepIsKnownTo) {
  Net net;
  net.step("abc");
  net.step("abc");
  EXPECT_FALSE(net.network[net.node('b')].again) << "once a step";
  net.step("abbc");
  EXPECT_TRUE(net.network[net.node('b')].again);
  EXPECT_FALSE(net.network[net.node('c')].again);
}

// Every step runs some of all, always in one order; they were seen first in another.
TEST(PilotNetwork, MembersComeToStandInTheOrderInWhichStepsRunThem) {
  constexpr unsigned kSeed = 20261201;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 20; ++round) {
    const std::string all = "abcdefghijkl";
    Net net;
    for (auto letter = all.rbegin(); letter != all.rend(); ++letter) net.step(std::string(1, *letter));
    EXPECT_NE(net.after(kStepEnds).substr(0, all.size()), all) << "in the order of first sight";
    for (int step = 0; step < 100; ++step) {
      std::string some;
      for (const char letter : all) {
        if (random() % 2 == 0) some += letter;
      }
      net.step(some);
    }
    std::string order = net.after(kStepEnds);
    std::erase(order, kStepEnds);
    EXPECT_EQ(order, all) << "seed " << kSeed << ", round " << round;
    const ClassId choice = net.network.choice_after(net.network[net.node(kStepEnds)]);
    for (std::size_t i = 0; const NodeId id : net.network.members(choice)) {
      EXPECT_EQ(net.network[id].place, i++);
    }
  }
}

TEST(PilotNetwork, PastItsBoundNewTokensAreOneNode) {
  Network network;
  for (Token token = 1; token <= Network::kNodesMax; ++token) network.node(token, false);
  EXPECT_EQ(network.nodes(), Network::kNodesMax);
  const NodeId nobody = network.node(Network::kNodesMax + 1, false);
  const Bytes bytes = network.table_bytes();
  for (Token token = 2; token < 1000; ++token) EXPECT_EQ(network.node(Network::kNodesMax + token, false), nobody);
  EXPECT_EQ(network.nodes(), Network::kNodesMax + 1);
  EXPECT_EQ(network.table_bytes(), bytes);
  EXPECT_EQ(network.node(5, false), 4U) << "what is known stays known";
}

std::vector<ThingId> used(const Network& network, NodeId node) {
  const auto now = network[node].uses_now();
  return {now.begin(), now.end()};
}

TEST(PilotNetwork, WhatSmallStoragesShareTodayIsStillKnownTomorrow) {
  Network network;
  const NodeId node = network.node(1, false);
  const std::vector<ThingId> all{network.lasting(1), network.lasting(2), network.lasting(3)};
  network.uses(node, all);
  network.uses(node, {}, true);
  EXPECT_EQ(used(network, node), all) << "all may lie there";
  network.uses(node, std::span(all).subspan(1, 1), true);
  EXPECT_EQ(used(network, node), all);
  network.uses(node, std::span(all).first(2));
  EXPECT_EQ(used(network, node), (std::vector{all[0], all[1]})) << "the third is not worked on any more";
  const std::vector<ThingId> others{network.lasting(4)};
  network.uses(node, others, true);
  EXPECT_EQ(used(network, node), others) << "nor are those, with another";
}

TEST(PilotNetwork, WhatHadNoNameBeforeComesToItsPlace) {
  Network network;
  const NodeId node = network.node(1, false);
  const ThingId a = network.birth(node, 0, kBytes), b = network.birth(node, 1, kBytes), c = network.birth(node, 2, kBytes);
  network.uses(node, std::vector{b}, true);
  network.uses(node, std::vector{a, b, c});
  EXPECT_EQ(used(network, node), (std::vector{a, b, c})) << "none of them is either of two";
  network.uses(node, std::vector{a});
  network.uses(node, std::vector{b});
  const ThingId either = used(network, node)[0];
  EXPECT_EQ(network.thing(either).among.size(), 2U);
  network.uses(node, std::vector{c, a});
  EXPECT_EQ(used(network, node)[1], either) << "a is one of them";
  EXPECT_EQ(network.thing(used(network, node)[0]).among, (std::vector{b, c})) << "what stood there before is not lost";
}

}  // namespace
}  // namespace outsize::pilot
