// How much of a plan has to run until another is made.
#include <gtest/gtest.h>

#include "predictors/pilot/pilot.h"

namespace outsize::pilot {
namespace {

constexpr std::uint64_t kOps = 5000;  // of a step, no two alike

// The third step has run its first op.
class Row {
 public:
  Row() : pilot(table(), {}) {
    for (int step = 0; step < 2; ++step) {
      for (std::uint64_t kind = 1; kind <= kOps; ++kind) op(kind);
      pilot.on_step(now_ += 1000);
    }
    op(1);
  }
  // Ops of a plan that was to be of so many, until it has mostly run.
  std::uint32_t runs(std::uint32_t ops) {
    Plan plan;
    pilot.foresee(plan, ops);
    while (!plan.mostly_run()) plan.advance();
    return plan.place();
  }
  PilotPredictor pilot;

 private:
  static const ExtentTable& table() {
    static const ExtentTable kNone;
    return kNone;
  }
  void op(std::uint64_t kind) { pilot.on_op({kind, {}, false, now_ += 1'000'000, {}, {}}); }
  Nanos now_ = 0;
};

TEST(PilotPlanLength, OfAShortOneHalfIsLeftAndOfALongOneAQuarter) {
  Row row;
  EXPECT_EQ(row.runs(100), 50U);
  EXPECT_EQ(row.runs(512), 256U);
  EXPECT_EQ(row.runs(1024), 512U);
  EXPECT_EQ(row.runs(1536), 1024U) << "half of it would do, too, but is more than is needed";
  EXPECT_EQ(row.runs(4096), 3072U);
}

TEST(PilotPlanLength, OneThatALongerOneWouldNotTellMoreThanRunsToItsEnd) {
  Row row;
  EXPECT_EQ(row.runs(2 * kOps), kOps);
}

}  // namespace
}  // namespace outsize::pilot
