// Plans take ops to be as slow as others of their kind have been since the sample began.
#include <vector>

#include <gtest/gtest.h>

#include "predictors/pilot/pilot.h"

namespace outsize::pilot {
namespace {

constexpr ExtentId kLayers = 20;
constexpr Nanos kTime = 1'000'000;

class Layers {
 public:
  Layers() : pilot(table_, {}) {
    table_.ensure(kLayers);
    for (ExtentId id = 0; id < kLayers; ++id) {
      table_[id].bytes = kMiB;
      pilot.on_birth(id, kMiB);
    }
  }
  void run(ExtentId from, ExtentId to, Nanos time) {
    for (ExtentId id = from; id < to; ++id) {
      const ExtentId extents[] = {id};
      pilot.on_op({7, extents, false, now_ += time_, {}, 0});
      time_ = time;  // it will have taken
    }
  }
  void step(Nanos time) {
    run(0, kLayers, time);
    pilot.on_step(now_ += time_);
  }
  // Until it is wanted, says a plan that is made now.
  Nanos until(ExtentId id) {
    pilot.on_sample({});
    std::vector<Upcoming> out(64);
    out.resize(pilot.upcoming(out));
    for (const Upcoming& next : out) {
      if (next.extent == id) return next.in;
    }
    return -1;
  }
  ExtentTable table_;
  PilotPredictor pilot;

 private:
  Nanos now_ = 0, time_ = 0;
};

TEST(PilotPlanTimes, OpsThatAreStillToComeAreAsSlowAsThoseBefore) {
  for (const Nanos slower : {1, 3}) {
    Layers program;
    for (int i = 0; i < 20; ++i) program.step(kTime);
    program.run(0, kLayers / 2, slower * kTime);
    const Nanos until = program.until(kLayers - 1), left = kLayers / 2 - 1;
    EXPECT_NEAR(static_cast<double>(until), static_cast<double>(left * slower * kTime), 0.25 * static_cast<double>(left * slower * kTime));
  }
}

}  // namespace
}  // namespace outsize::pilot
