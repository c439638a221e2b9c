// What a live run tells of when things happened adds up to its own counts.
#include <gtest/gtest.h>

#include "platforms/host/runtime_test_rig.h"

namespace outsize::host {
namespace {

std::int64_t number_of(const std::string& json, const std::string& key) {
  const auto at = json.find("\"" + key + "\":");
  return at == std::string::npos ? -1 : std::stoll(json.substr(at + key.size() + 3));
}

std::vector<std::int64_t> list_of(const std::string& json, const std::string& key) {
  std::vector<std::int64_t> found;
  auto at = json.find("\"" + key + "\":[") + key.size() + 4;
  while (json[at] != ']') {
    std::size_t digits = 0;
    found.push_back(std::stoll(json.substr(at), &digits));
    at += digits;
    if (json[at] == ',') ++at;
  }
  return found;
}

TEST_F(RuntimeTest, ATimelineAddsUpToTheRunsOwnCounts) {
  in_child([](FaultMechanism mechanism) {
    auto runtime = make(mechanism, 24 * kMiB, "ondemand");
    runtime->keep_timeline(100);
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < 16; ++i) tensors.push_back(birth(*runtime, 4 * kMiB, i));
    for (int step = 0; step < 3; ++step) {
      for (Tensor& t : tensors) {
        const Operand operand = t.operand(Access::kWrite);
        ASSERT_TRUE(runtime->op_begin(77, {&operand, 1}, 0).ok());
        runtime->op_end();
      }
      runtime->step();
    }
    runtime->name_site(77, "an op");
    const Stats stats = runtime->stats();
    const TimelineTold told = Runtime::timeline();
    EXPECT_EQ(number_of(told.json, "read_bytes"), stats.read_bytes);
    EXPECT_EQ(number_of(told.json, "last_step"), 3);
    EXPECT_GT(stats.read_bytes, 0);
    Nanos stall = 0;
    for (const std::int64_t piece : list_of(told.json, "stall_by_cause")) stall += piece;
    EXPECT_GT(stall, 0);
    EXPECT_LE(stall, stats.stall) << "which has the waking, too";
    Bytes most = 0;
    const auto levels = list_of(told.json, "resident");
    for (std::size_t i = 1; i < levels.size(); i += 2) most = std::max(most, levels[i]);
    EXPECT_LE(most, stats.resident_peak);
    EXPECT_GT(most, 16 * kMiB);
    EXPECT_GT(list_of(told.json, "work").size(), 0U);
    bool named = false;
    for (const auto& [site, name] : told.names) named = named || (site == 77 && name == "an op");
    EXPECT_TRUE(named);
    EXPECT_EQ(Runtime::timeline().json, told.json) << "it has ended";
    ASSERT_TRUE(runtime->shutdown().ok());
  });
}

}  // namespace
}  // namespace outsize::host
