// The modelled bytes must notice what a wrong decision would do to real ones.
#include "sim/sim_memory.h"

#include <string_view>

#include <gtest/gtest.h>

namespace outsize::sim {
namespace {

TEST(SimMemory, ARoundTripKeepsTheBytes) {
  SimMemory memory;
  memory.born(1, false);
  memory.change(1);
  memory.write_begins(1);
  memory.write_ends(1, false);
  memory.evicted(1);
  EXPECT_NE(memory.wrong(1), nullptr) << "not in RAM";
  memory.installed(1, true);
  EXPECT_EQ(memory.wrong(1), nullptr);
  EXPECT_TRUE(memory.reachable(1, false));
  EXPECT_FALSE(memory.reachable(1, true)) << "guarded";
}

TEST(SimMemory, AStaleTornFailedOrForgottenCopyShows) {
  for (const char* how : {"stale", "torn", "failed", "forgotten"}) {
    const std::string_view what = how;
    SimMemory memory;
    memory.born(1, false);
    memory.write_begins(1);
    if (what == "torn") memory.change(1);
    memory.write_ends(1, what == "failed");
    if (what == "stale") memory.change(1);
    if (what == "forgotten") memory.forgotten(1);
    memory.evicted(1);
    memory.installed(1, true);
    EXPECT_NE(memory.wrong(1), nullptr) << how;
  }
}

}  // namespace
}  // namespace outsize::sim
