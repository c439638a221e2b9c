#include "predictors/pilot/graph_nodes.h"

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

constexpr std::uint32_t kNone = 0;
using Nodes = GraphNodes<std::uint32_t, kNone>;

TEST(PilotGraphNodes, MakersAreFoundByNumber) {
  Nodes nodes;
  EXPECT_EQ(nodes.find(7), kNone) << "none was made";
  nodes.keep(7, 70);
  nodes.keep(9, 90);
  EXPECT_EQ(nodes.find(7), 70U);
  EXPECT_EQ(nodes.find(8), kNone);
  EXPECT_EQ(nodes.find(9), 90U);
  EXPECT_EQ(nodes.find(10), kNone);
  EXPECT_EQ(nodes.find(6), kNone);
  nodes.clear();
  EXPECT_EQ(nodes.find(7), kNone);
  nodes.keep(3, 30);
  EXPECT_EQ(nodes.find(3), 30U);
}

TEST(PilotGraphNodes, WhatIsFarFromTheFirstIsForgotten) {
  Nodes nodes;
  nodes.keep(100, 1);
  nodes.keep(100 + static_cast<std::uint32_t>(Nodes::kMax), 2);
  nodes.keep(5, 3);
  EXPECT_EQ(nodes.find(100 + static_cast<std::uint32_t>(Nodes::kMax)), kNone);
  EXPECT_EQ(nodes.find(5), kNone);
  EXPECT_EQ(nodes.find(100), 1U);
  EXPECT_LE(nodes.capacity(), 16U);
}

TEST(PilotGraphNodes, TurnsOfWhatNobodyMadeDoNotCountAsTheLatest) {
  const auto token_of = [](std::uint32_t maker) { return Token{maker}; };
  Nodes nodes;
  nodes.keep(11, 1, 100);
  EXPECT_EQ(nodes.latest_turn(), 0U);
  nodes.turn(11, true, token_of);
  EXPECT_EQ(nodes.latest_turn(), 11U);
  nodes.turn(0xfffffffeU, true, token_of);
  EXPECT_EQ(nodes.latest_turn(), 11U);
  nodes.turn(0, true, token_of);
  EXPECT_EQ(nodes.latest_turn(), 11U) << "gradients are added up";
  nodes.turn(0, false, token_of);
  EXPECT_EQ(nodes.latest_turn(), 0U) << "forward again";
}

TEST(PilotGraphNodes, WhoMadeIsTheOpThatStoodThereNotALaterOneThatStandsNowhere) {
  Nodes nodes;
  nodes.begin(5);
  nodes.place(5, 70, 100);
  nodes.begin(0);
  nodes.place(0, 71, 101);
  const auto ended = nodes.begin(6);
  EXPECT_EQ(ended.maker, 70U);
  EXPECT_EQ(ended.op, 100U);
  EXPECT_EQ(ended.number, 5U);
  EXPECT_TRUE(ended.made);
}

}  // namespace
}  // namespace outsize::pilot
