#include "predictors/pilot/made_nodes.h"

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

TEST(PilotMadeNodes, TheLatestOfAMakerIsFoundWhoseTurnIsStillToCome) {
  MadeNodes nodes;
  EXPECT_EQ(nodes.before(0, 1), 0U) << "none was made";
  nodes.keep(11, 1, 100);
  nodes.keep(12, 2, 101);
  nodes.keep(13, 1, 102);
  EXPECT_EQ(nodes.before(0, 1), 13U);
  EXPECT_EQ(nodes.before(13, 1), 11U);
  EXPECT_EQ(nodes.before(12, 1), 11U);
  EXPECT_EQ(nodes.before(11, 1), 0U);
  EXPECT_EQ(nodes.before(13, 2), 12U);
  EXPECT_EQ(nodes.before(0, 3), 0U);
  EXPECT_EQ(nodes.op_of(13), 102U);
  EXPECT_EQ(nodes.op_of(14), 0U);
  EXPECT_EQ(nodes.op_of(0), 0U);
  nodes.clear();
  EXPECT_EQ(nodes.before(0, 1), 0U) << "the step has ended";
  nodes.keep(3, 1, 200);
  EXPECT_EQ(nodes.before(0, 1), 3U);
  EXPECT_EQ(nodes.before(3, 1), 0U);
}

TEST(PilotMadeNodes, WhatIsTooFarFromTheFirstIsNotFoundEither) {
  MadeNodes nodes;
  nodes.keep(1, 1);
  const Bytes bytes = nodes.bytes();
  for (std::uint32_t i = 0; i < 1000; ++i) nodes.keep(1 + static_cast<std::uint32_t>(MadeNodes::kMax) + i, 1);
  EXPECT_EQ(nodes.before(0, 1), 1U);
  EXPECT_EQ(nodes.bytes(), bytes);
}

}  // namespace
}  // namespace outsize::pilot
