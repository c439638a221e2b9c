#include "sim/link.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace outsize::sim {
namespace {

LinkOptions plain() {
  LinkOptions options;
  options.read_rate = 1'000'000'000;
  options.write_rate = 500'000'000;
  options.mixed_percent = 50;
  options.latency = 1000;
  return options;
}

TEST(Link, TakesLatencyPlusBytesOverBandwidth) {
  Link link(plain());
  link.submit(1, false, Urgency::kDemand, 1'000'000, 5);
  ASSERT_TRUE(link.busy());
  EXPECT_EQ(link.next_end(), 5 + 1000 + 1'000'000);
  const Transfer done = link.take();
  EXPECT_EQ(done.extent, 1U);
  EXPECT_FALSE(done.write);
  EXPECT_FALSE(done.fails);
  EXPECT_FALSE(link.busy());
}

TEST(Link, OnlyWhatRunsIsIdle) {
  Link link(plain());
  link.submit(1, false, Urgency::kDemand, 1'000'000, 0);
  link.submit(2, false, Urgency::kDemand, 1'000'000, 0);  // after the first
  link.nobody_works(700);
  link.nobody_works(-5);
  EXPECT_EQ(link.take().idle, 700);
  link.nobody_works(30);
  EXPECT_EQ(link.take().idle, 30);
}

TEST(Link, BothDirectionsShareTheDisk) {
  Link link(plain());
  link.submit(1, false, Urgency::kDemand, 1'000'000, 0);
  link.submit(2, true, Urgency::kWriteAhead, 1'000'000, 0);  // half of 500 MB/s
  EXPECT_EQ(link.next_end(), 1000 + 2'000'000) << "the read is slower from here on";
  EXPECT_EQ(link.take().extent, 1U);
  EXPECT_EQ(link.next_end(), 1000 + 2'000'000 + 1'000'000) << "half of the write is done, and it is alone";
}

TEST(Link, RatesBesideTheOtherDirectionMayBeKnown) {
  LinkOptions options = plain();
  options.mixed_read_rate = 800'000'000;
  options.mixed_write_rate = 100'000'000;
  Link link(options);
  link.submit(1, true, Urgency::kWriteAhead, 1'000'000, 0);
  EXPECT_EQ(link.next_end(), 1000 + 2'000'000);
  link.submit(2, false, Urgency::kDemand, 800'000, 1'001'000);  // half of the write is left
  EXPECT_EQ(link.next_end(), 1'001'000 + 1000 + 1'000'000);
  EXPECT_EQ(link.take().extent, 2U);
  EXPECT_EQ(link.next_end(), 2'002'000 + (500'000 - 100'100) * 2);
}

TEST(Link, ASingleCallIsSlower) {
  LinkOptions options = plain();
  options.single_read_rate = 400'000'000;
  options.latency = 0;
  Link link(options);
  link.submit(1, false, Urgency::kDemand, 800'000, 0);
  EXPECT_EQ(link.next_end(), 2'000'000);
  link.submit(2, false, Urgency::kDemand, 800'000, 1'000'000);
  EXPECT_EQ(link.take().ends, 2'000'000) << "two calls have room beside each other";
  EXPECT_EQ(link.take().ends, 3'000'000);
  for (ExtentId id = 3; id < 8; ++id) link.submit(id, false, Urgency::kDemand, 800'000, 4'000'000);
  EXPECT_EQ(link.take().ends, 4'000'000 + 4 * 800'000) << "four share the disk, the fifth waits";
  while (link.take().extent != 7) {}
  link.submit(3, false, Urgency::kDemand, 2 * kLinkCall + 1, 9'000'000);  // three calls: the disk's full rate
  EXPECT_EQ(link.next_end(), 9'000'000 + 2 * kLinkCall + 1);
}

TEST(Link, TheMoreUrgentGoesFirstInOrderOfArrival) {
  Link link(plain());
  link.submit(1, false, Urgency::kPrefetch, 1000, 0);
  link.submit(2, false, Urgency::kPrefetch, 1000, 0);
  link.submit(3, false, Urgency::kPrefetch, 1000, 0);
  link.submit(4, false, Urgency::kDemand, 1000, 0);
  link.promote(3, Urgency::kDemand);
  std::vector<ExtentId> order;
  while (link.busy()) order.push_back(link.take().extent);
  EXPECT_EQ(order, (std::vector<ExtentId>{1, 3, 4, 2}));
}

TEST(Link, FaultsComeFromTheSeed) {
  auto failures = [](std::uint64_t seed, std::uint64_t one_in) {
    LinkOptions options = plain();
    options.seed = seed;
    options.fail_one_in = one_in;
    Link link(options);
    std::string text;
    for (ExtentId id = 0; id < 400; ++id) {
      link.submit(id, false, Urgency::kDemand, 1, 0);
      text += link.take().fails ? 'x' : '.';
    }
    return text;
  };
  EXPECT_EQ(failures(1, 4), failures(1, 4));
  EXPECT_NE(failures(1, 4), failures(2, 4));
  const std::string some = failures(3, 4);
  const auto failed = std::count(some.begin(), some.end(), 'x');
  EXPECT_GT(failed, 60);
  EXPECT_LT(failed, 140);
  EXPECT_EQ(failures(1, 0).find('x'), std::string::npos);
}

}  // namespace
}  // namespace outsize::sim
