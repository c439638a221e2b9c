#include "predictors/pilot/trail.h"

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

constexpr ClassId kLayers = 0, kExperts = 1, kEnds = 2, kMore = 3;

TEST(PilotTrail, TheLastChoicesAreKnown) {
  Trail trail;
  for (std::size_t back = 0; back < Trail::kOrders; ++back) EXPECT_EQ(trail.chosen(back), kNobody);
  for (NodeId node = 10; node < 15; ++node) trail.enter(kLayers, node);
  for (std::size_t back = 0; back < Trail::kOrders; ++back) EXPECT_EQ(trail.chosen(back), 14 - back);
}

TEST(PilotTrail, ChoicesAreCountedByClassFromTheSampleOn) {
  Trail trail;
  EXPECT_EQ(trail.count(kMore), 0U);
  for (int i = 0; i < 3; ++i) trail.enter(kMore, 10);
  trail.enter(kLayers, 11);
  EXPECT_EQ(trail.count(kMore), 3U);
  EXPECT_EQ(trail.count(kLayers), 1U);
  EXPECT_EQ(trail.count(kExperts), 0U);
  trail.begin_sample();
  EXPECT_EQ(trail.count(kMore), 0U);
  EXPECT_EQ(trail.chosen(0), 11U) << "the way goes on";
  EXPECT_EQ(trail.around(kEnds, 0).choice, kNobody);
  trail.enter(kMore, 10);
  EXPECT_EQ(trail.count(kMore), 1U);
}

TEST(PilotTrail, SamplesAreCountedFromTheStepOn) {
  Trail trail;
  EXPECT_EQ(trail.samples(), 0U);
  trail.begin_sample();
  trail.begin_sample();
  trail.enter(kMore, 10);
  EXPECT_EQ(trail.samples(), 2U);
  trail.begin_step();
  EXPECT_EQ(trail.samples(), 0U);
  EXPECT_EQ(trail.count(kMore), 0U);
}

// Layers that choose among experts each: an expert's choice lies in a layer's.
TEST(PilotTrail, AroundAChoiceLieTheLatestOfOtherClasses) {
  Trail trail;
  EXPECT_EQ(trail.around(kExperts, 0).choice, kNobody);
  trail.enter(kEnds, 30);
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    trail.enter(kLayers, 10 + layer);
    for (std::uint32_t expert = 0; expert < 4; ++expert) {
      const Trail::Visit around = trail.around(kExperts, 0), beyond = trail.around(kExperts, 1);
      EXPECT_EQ(around.choice, kLayers);
      EXPECT_EQ(around.index, layer);
      EXPECT_EQ(beyond.choice, kEnds);
      EXPECT_EQ(beyond.index, 0U);
      EXPECT_EQ(trail.around(kExperts, 2).choice, kNobody);
      trail.enter(kExperts, 20 + expert);
    }
  }
  EXPECT_EQ(trail.around(kLayers, 0).choice, kExperts);
  EXPECT_EQ(trail.around(kLayers, 0).index, 11U);
}

TEST(PilotTrail, OfMoreClassesTheOldestIsForgotten) {
  Trail trail;
  for (const ClassId choice : {kLayers, kExperts, kEnds, kMore}) trail.enter(choice, 10 + choice);
  EXPECT_EQ(trail.around(kNobody - 1, 0).choice, kMore);
  EXPECT_EQ(trail.around(kNobody - 1, 1).choice, kEnds);
  EXPECT_EQ(trail.around(kNobody - 1, 2).choice, kExperts);
  EXPECT_EQ(trail.around(kNobody - 1, 3).choice, kNobody);
  trail.enter(kExperts, 11);
  EXPECT_EQ(trail.around(kNobody - 1, 0).choice, kExperts);
  EXPECT_EQ(trail.around(kNobody - 1, 2).choice, kEnds);
}

// Cells of a tree, some of a class of their own.
TEST(PilotTrail, KinAreCountedTogether) {
  constexpr std::uint32_t kCell = 7, kStack = 8;
  Trail trail;
  EXPECT_EQ(trail.kin(kCell), 0U);
  EXPECT_EQ(trail.around_kin(kStack), kNobody);
  trail.enter(kLayers, 10, kCell);
  trail.enter(kExperts, 20, kCell);
  EXPECT_EQ(trail.kin(kCell), 2U);
  EXPECT_EQ(trail.around_kin(kStack), 1U) << "within the second cell";
  EXPECT_EQ(trail.around_kin(kCell), kNobody);
  trail.enter(kEnds, 30, kStack);
  EXPECT_EQ(trail.kin(kStack), 1U);
  EXPECT_EQ(trail.around_kin(kStack), 1U);
  EXPECT_EQ(trail.around_kin(kCell), 0U);
  trail.begin_sample();
  EXPECT_EQ(trail.kin(kCell), 0U);
  EXPECT_EQ(trail.around_kin(kStack), kNobody);
}

TEST(PilotTrail, OfTooManyKindsTheLastAreNotCounted) {
  Trail trail;
  for (std::uint32_t kind = 1; kind <= 100; ++kind) trail.enter(kLayers, 10, kind);
  EXPECT_EQ(trail.kin(1), 1U);
  EXPECT_EQ(trail.kin(100), 0U);
  EXPECT_NE(trail.around_kin(100), kNobody);
}

}  // namespace
}  // namespace outsize::pilot
