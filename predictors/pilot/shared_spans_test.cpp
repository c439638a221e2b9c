#include "predictors/pilot/shared_spans.h"

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

std::vector<ExtentId> at(const SharedSpans& spans, std::uint64_t op) {
  std::vector<ExtentId> found;
  spans.at(op, [&](ExtentId id) { found.push_back(id); });
  std::sort(found.begin(), found.end());
  return found;
}

using Extents = std::vector<ExtentId>;

TEST(SharedSpans, TellsWhatWasUsedAroundAnOp) {
  SharedSpans spans;
  for (const std::uint64_t op : {10U, 14U}) spans.use(3, op);
  for (const std::uint64_t op : {13U, 20U}) spans.use(1, op);
  EXPECT_EQ(at(spans, 12), (Extents{1, 3})) << "what is used just after it may hold what it made";
  EXPECT_EQ(at(spans, 9), (Extents{3}));
  EXPECT_EQ(at(spans, 16), (Extents{1}));
  EXPECT_TRUE(at(spans, 21).empty());
  EXPECT_TRUE(at(spans, 7).empty());
}

TEST(SharedSpans, TheDeadAndEarlierStepsAreForgotten) {
  SharedSpans spans;
  spans.use(3, 10);
  spans.use(4, 10);
  spans.die(3);
  spans.die(7);
  EXPECT_EQ(at(spans, 10), (Extents{4}));
  spans.use(3, 12);  // another one in its place
  EXPECT_EQ(at(spans, 12), (Extents{3}));
  spans.clear();
  EXPECT_TRUE(at(spans, 12).empty());
  spans.use(4, 30);
  EXPECT_EQ(at(spans, 30), (Extents{4}));
}

TEST(SharedSpans, WhatIsUsedAllTheTimeIsNotToldOf) {
  SharedSpans spans;
  for (std::uint64_t op = 1; op < 600; op += 3) spans.use(3, op);
  EXPECT_TRUE(at(spans, 300).empty());
}

TEST(SharedSpans, WhereNoStepEndsTheOlderAreForgotten) {
  SharedSpans spans;
  std::uint64_t op = 0;
  for (; op < 10 * SharedSpans::kMax; ++op) {
    spans.use(op % 8, op);
    if (op % 8 != 3) spans.die(op % 8);
  }
  EXPECT_EQ(at(spans, op), Extents()) << "all but one died";
  EXPECT_LT(spans.bytes(), static_cast<Bytes>(SharedSpans::kMax) * 64);
  spans.use(5, op);
  EXPECT_EQ(at(spans, op), (Extents{5}));
}

}  // namespace
}  // namespace outsize::pilot
