#include "platforms/host/write_limit.h"

#include <gtest/gtest.h>

namespace outsize::host {
namespace {

constexpr Nanos kSecond = 1'000'000'000;

TEST(WriteLimit, WithoutARateNothingWaits) {
  WriteLimit limit;
  limit.begin(1 << 30, 0);
  EXPECT_FALSE(limit.on());
  EXPECT_EQ(limit.wait(0), 0);
}

TEST(WriteLimit, KeepsThePaceWhateverTheSizes) {
  for (const Bytes bytes : {Bytes{4096}, 4 * kMiB, 300 * kMiB}) {
    WriteLimit limit;
    constexpr std::int64_t kRate = 100'000'000;
    limit.set_rate(kRate);
    const Nanos start = 77 * kSecond;
    Nanos now = start;
    Bytes begun = 0;
    while (now < start + 1000 * kSecond) {
      const Nanos wait = limit.wait(now);
      now += wait;
      EXPECT_EQ(limit.wait(now), 0) << "the wait it named was not enough";
      limit.begin(bytes, now);
      begun += bytes;
      const Nanos seconds = (now - start) / kSecond + 1;  // begun ones
      ASSERT_LE(begun, kRate * (seconds + 1) + bytes) << "after " << seconds << " s";
    }
    EXPECT_GE(begun, kRate * 1000) << "slower than allowed";
  }
}

TEST(WriteLimit, WhatWasNotUsedIsLost) {
  WriteLimit limit;
  limit.set_rate(1'000'000);
  limit.begin(1'000'000, kSecond);
  // An idle hour later there is a second's worth to take at once, not an hour's.
  const Nanos later = 3600 * kSecond;
  limit.begin(2'000'000, later);
  EXPECT_EQ(limit.wait(later), kSecond);
}

TEST(WriteLimit, OneByteASecondIsAPaceToo) {
  WriteLimit limit;
  limit.set_rate(1);
  limit.begin(64 * kMiB, 0);
  EXPECT_EQ(limit.wait(0), 64 * kMiB * kSecond - WriteLimit::kBurst);
}

}  // namespace
}  // namespace outsize::host
