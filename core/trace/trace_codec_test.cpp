#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/trace/trace_test_rig.h"

namespace outsize::trace {
namespace {

// Seeds are printed and can be given back: OUTSIZE_TEST_SEED=7.
std::uint64_t first_seed() {
  const char* set = std::getenv("OUTSIZE_TEST_SEED");
  return set != nullptr ? std::strtoull(set, nullptr, 10) : 1;
}

OwnedEvent with(Event::Kind kind, Nanos time) {
  OwnedEvent owned;
  owned.plain.kind = kind;
  owned.plain.time = time;
  return owned;
}

// One event of each kind, and each field once away from its zero.
Events tiny() {
  Events all;
  all.push_back(with(Event::Kind::kMeta, 0));
  all.back().text = "{\"threads\": 2}";
  all.push_back(with(Event::Kind::kAdopt, 1));
  all.back().plain.storage = 0;
  all.back().plain.bytes = 4096;
  all.back().plain.flag = true;
  all.push_back(with(Event::Kind::kSample, 2));
  all.back().features = {{"length", {3, -200}}, {"depth", {0.5}}};
  all.push_back(with(Event::Kind::kSiteName, 3));
  all.back().plain.site = 0x0123456789abcdefULL;
  all.back().text = "aten::mm";
  all.push_back(with(Event::Kind::kWait, 1000));
  all.back().plain.cause = WaitCause::kRoom;
  all.back().plain.duration = 900;
  all.push_back(with(Event::Kind::kOpBegin, 1001));
  all.back().plain.site = 0x0123456789abcdefULL;
  all.back().plain.op_flags = kInBackward | kUsesRng;
  all.back().operands = {{0, Access::kRead}, {0, Access::kWrite}};
  all.push_back(with(Event::Kind::kBirth, 1002));
  all.back().plain.storage = 1;
  all.back().plain.bytes = 300;
  all.push_back(with(Event::Kind::kOpBegin, 1003));
  all.back().plain.graph = graph_place(5, 2);
  all.back().plain.site = 0x0123456789abcdefULL;
  all.back().operands = {{1, Access::kWrite}};
  all.push_back(with(Event::Kind::kOpEnd, 1004));
  all.push_back(with(Event::Kind::kOpEnd, 1005));
  all.push_back(with(Event::Kind::kUntracked, 1006));
  all.back().plain.site = 0x0123456789abcdefULL;
  all.back().plain.bytes = 77;
  for (const auto kind : {Event::Kind::kExpose, Event::Kind::kRawAccess, Event::Kind::kPin,
                          Event::Kind::kUnpin, Event::Kind::kHint}) {
    all.push_back(with(kind, 2000));
    all.back().plain.thread = 1;
    all.back().plain.storage = 1;
    all.back().plain.flag = kind == Event::Kind::kRawAccess || kind == Event::Kind::kHint;
  }
  all.push_back(with(Event::Kind::kDeath, 2001));
  all.back().plain.thread = 1;
  all.back().plain.storage = 1;
  all.push_back(with(Event::Kind::kStep, 2002));
  all.push_back(with(Event::Kind::kEnd, 2003));
  return all;
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr char digits[] = "0123456789abcdef";
    text += digits[static_cast<unsigned char>(byte) >> 4];
    text += digits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// Written by hand from docs/TRACE.md. If this fails, the format has changed: raise kFormatVersion.
TEST(TraceCodec, GoldenBytes) {
  const Blocks blocks = encoded(tiny());
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_EQ(hex(blocks[0]),
            "000000"                                            // no event, time 0, storage 0
            "41000e7b2274687265616473223a20327d"                // meta
            "6602" "8020"                                       // adoption of a file: 4096 bytes
            "5002" "02" "066c656e677468" "0200" "06" "8f03"     // sample: length 3, -200
            "056465707468" "0101" "000000000000e03f"            // depth 0.5
            "4202" "efcdab8967452301" "086174656e3a3a6d6d"      // the site's name
            "4dca0f" "01" "8407"                                // waited for room, 900 ns
            "630203" "00efcdab8967452301" "02" "00" "01"        // op: backward + rng; storage 0 twice
            "4502ac02"                                          // birth of 300 bytes
            "6302" "10" "0a" "04" "33" "01" "05"               // op at the site of slot 50, in node 2
            "4402" "4402"                                       // both end
            "4e02" "33" "4d"                                  // 77 bytes untracked
            "0801c40f" "01" "6900" "01" "4a00" "01" "4b00" "01" "6c00" "01"
            "4702" "01"                                         // death
            "0f0002"                                            // step on thread 0
            "5102" "12" "02" "01" "02" "01" "ac22" "00" "00");  // the end
}

TEST(TraceCodec, AWholeTraceComesBack) {
  const Events events = tiny();
  const Decoded back = decoded(encoded(events));
  EXPECT_EQ(back.error, "");
  ASSERT_EQ(back.events.size(), events.size());
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(back.events[i], events[i]) << "event " << i;
  EXPECT_EQ(back.totals.ops, 2U);
  EXPECT_EQ(back.totals.born_bytes, 4396);
}

TEST(TraceCodec, RandomTracesComeBack) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 20; ++seed) {
    SCOPED_TRACE("OUTSIZE_TEST_SEED=" + std::to_string(seed));
    const Events events = RandomTrace(seed).make(seed % 4 == 0 ? 40000 : 500);
    const Blocks blocks = encoded(events, seed % 3 == 0 ? 7 : 0);
    const Decoded back = decoded(blocks);
    ASSERT_EQ(back.error, "");
    ASSERT_EQ(back.events.size(), events.size());
    for (std::size_t i = 0; i < events.size(); ++i) ASSERT_EQ(back.events[i], events[i]) << "event " << i;
    EXPECT_TRUE(seed % 4 != 0 || blocks.size() > 1);
  }
}

TEST(TraceCodec, WhatMakesNoSenseComesBackToo) {
  Events events = tiny();
  events[5].operands = {{5000, Access::kRead}, {0, static_cast<Access>(3)}};  // not born; no access mode
  events[6].plain.time = 4;                                                   // before its op
  const Decoded back = decoded(encoded(events));
  EXPECT_EQ(back.error, "");
  ASSERT_EQ(back.events.size(), events.size());
  EXPECT_EQ(back.events[5], events[5]);
  EXPECT_EQ(back.events[6], events[6]);
}

TEST(TraceCodec, NumbersOfFeaturesComeBackToTheBit) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double number : {0.0, -0.0, 1.0, -1.0, 0x1p53, -0x1p53, 0x1p53 - 1, 1e300, inf, 0.1}) {
    Events events{with(Event::Kind::kSample, 0), with(Event::Kind::kEnd, 0)};
    events[0].features = {{"x", {number}}};
    const Decoded back = decoded(encoded(events));
    ASSERT_EQ(back.error, "");
    EXPECT_EQ(std::signbit(back.events[0].features[0].numbers[0]), std::signbit(number));
    EXPECT_EQ(back.events[0].features[0].numbers[0], number);
  }
}

// As much as Python tells at most (outsize/samples.py).
TEST(TraceCodec, TheLargestSampleIsAnEvent) {
  Events events{with(Event::Kind::kSample, 0), with(Event::Kind::kEnd, 0)};
  for (int i = 0; i < 64; ++i) {
    events[0].features.push_back({std::string(1000, 'x'), std::vector<double>(i < 16 ? 4096 : 0, 0.1)});
  }
  const Decoded back = decoded(encoded(events));
  ASSERT_EQ(back.error, "");
  EXPECT_EQ(back.events[0], events[0]);
}

TEST(TraceCodec, EveryTruncationIsTold) {
  const Blocks blocks = encoded(tiny(), 5);
  ASSERT_GT(blocks.size(), 3U);
  std::size_t cuts = 0;
  for (std::size_t keep = 0; keep < blocks.size(); ++keep) {
    for (std::size_t bytes = 0; bytes < blocks[keep].size(); ++bytes, ++cuts) {
      Blocks cut(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(keep));
      if (bytes > 0) cut.push_back(blocks[keep].substr(0, bytes));
      const std::string error = decoded(cut).error;
      EXPECT_TRUE(error.find("cut off") != error.npos || error.find("in the middle") != error.npos)
          << "block " << keep << " byte " << bytes << ": " << error;
      EXPECT_NE(error.find("[block "), error.npos) << error;
    }
  }
  EXPECT_GT(cuts, 100U);
}

// Nothing is taken from beyond a block: a text, operands, features that say they are longer.
TEST(TraceCodec, WhatClaimsMoreThanItsBlockHoldsIsTold) {
  const std::string start(3, '\0');  // no event, time 0, storage 0
  const std::pair<const char*, std::string> claims[] = {
      {"text", std::string("\x41\x00\x05" "ab", 5)},
      {"fixed", std::string("\x42\x00" "1234567", 9)},
      {"operands", std::string("\x43\x00\x00" "12345678" "\x7f\x01", 13)},
      {"features", std::string("\x50\x00\x7f\x01" "a", 5)},
      {"values", std::string("\x50\x00\x01\x01" "a" "\x7f\x00\x02", 8)}};
  for (const auto& [what, bytes] : claims) {
    const Decoded back = decoded({start + bytes});
    EXPECT_NE(back.error.find("the block ends in the middle of an event"), std::string::npos) << what << back.error;
    EXPECT_TRUE(back.events.empty()) << what;
  }
}

// Without checksums (they are the file's) a flipped bit may give another trace; never a crash, and
// never one that the same bytes do not say.
TEST(TraceCodec, FlippedBitsNeverCrash) {
  const Blocks blocks = encoded(tiny(), 6);
  std::size_t refused = 0, read = 0;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    for (std::size_t bit = 0; bit < 8 * blocks[block].size(); ++bit) {
      Blocks flipped = blocks;
      flipped[block][bit / 8] = static_cast<char>(flipped[block][bit / 8] ^ (1 << bit % 8));
      const Decoded back = decoded(flipped);
      ++(back.error.empty() ? read : refused);
      if (!back.error.empty()) continue;
      const Blocks again = encoded(back.events, 6);
      EXPECT_EQ(decoded(again).events.size(), back.events.size());
    }
  }
  EXPECT_GT(refused, read / 4);
}

TEST(TraceCodec, RandomBytesNeverCrash) {
  std::mt19937_64 random(first_seed());
  for (int i = 0; i < 3000; ++i) {
    Blocks blocks{std::string(3, '\0')};
    for (std::uint64_t left = random() % 64; left > 0; --left) blocks[0] += static_cast<char>(random());
    EXPECT_NE(decoded(blocks).error, "");
  }
}

TEST(TraceCodec, BlocksThatAreMissingSwappedOrTwiceAreTold) {
  const Blocks blocks = encoded(RandomTrace(3).make(200), 50);
  ASSERT_GE(blocks.size(), 4U);
  Blocks missing = blocks, swapped = blocks, twice = blocks, more = blocks;
  missing.erase(missing.begin() + 1);
  std::swap(swapped[1], swapped[2]);
  twice.insert(twice.begin() + 1, blocks[1]);
  more.push_back(blocks.back());
  for (const Blocks& wrong : {missing, swapped, twice}) {
    EXPECT_NE(decoded(wrong).error.find("this block does not follow"), std::string::npos);
  }
  EXPECT_NE(decoded(more).error.find("something follows its end"), std::string::npos);
  EXPECT_NE(decoded({}).error.find("cut off after event 0"), std::string::npos);
}

TEST(TraceCodec, AnEndThatCountsOtherwiseIsTold) {
  Blocks blocks = encoded(tiny());
  const std::size_t deaths = blocks[0].size() - 5;
  ASSERT_EQ(blocks[0][deaths], 1);
  blocks[0][deaths] = 2;
  EXPECT_NE(decoded(blocks).error.find("its end counts other events"), std::string::npos);
}

TEST(TraceCodec, TheEncoderRefusesWhatHasNoBytes) {
  Blocks blocks;
  Encoder encoder(into(blocks));
  const auto refused = [&](auto change) {
    Event event;
    event.kind = Event::Kind::kBirth;
    event.storage = encoder.next_storage();
    change(event);
    const Status status = encoder.write(event);
    return status.ok() ? std::string("written") : status.error().what;
  };
  const std::vector<Operand> many(300000);
  EXPECT_NE(refused([](Event& e) { e.storage = 1; }).find("another number"), std::string::npos);
  EXPECT_NE(refused([](Event& e) { e.bytes = -1; }).find("its bytes"), std::string::npos);
  EXPECT_NE(refused([](Event& e) { e.bytes = (Bytes{1} << 61) + 1; }).find("its bytes"), std::string::npos);
  EXPECT_NE(refused([](Event& e) { e.time = -1; }).find("its time"), std::string::npos);
  EXPECT_NE(refused([](Event& e) { e.duration = -1; }).find("it lasts"), std::string::npos);
  EXPECT_NE(refused([](Event& e) { e.kind = Event::Kind::kEnd; }).find("finish()"), std::string::npos);
  EXPECT_NE(refused([](Event& e) { e.kind = Event::Kind{0}; }).find("its kind"), std::string::npos);
  EXPECT_NE(refused([](Event& e) {
    e.kind = Event::Kind::kDeath;
    e.storage = kNoStorage;
  }).find("no storage"), std::string::npos);
  EXPECT_NE(refused([&](Event& e) {
    e.kind = Event::Kind::kOpBegin;
    e.operands = many;
  }).find("longer than 2 MiB"), std::string::npos);
  EXPECT_EQ(refused([](Event& e) { e.bytes = Bytes{1} << 61; }), "written");
  EXPECT_NE(refused([](Event& e) { e.bytes = 1; }).find("all births together"), std::string::npos);
  EXPECT_TRUE(encoder.finish(0).ok());
  EXPECT_NE(refused([](Event&) {}).find("has ended"), std::string::npos);
  EXPECT_EQ(decoded(blocks).events.size(), 2U);  // what was refused left nothing behind
}

TEST(TraceCodec, AnErrorOfTheSinkIsFinal) {
  Encoder encoder([](std::string_view, bool) { return Status(Error{ErrorCode::kIo, "disk full", "", ""}); });
  ASSERT_TRUE(encoder.write(Event{}).ok());
  EXPECT_EQ(encoder.cut().error().what, "disk full");
  EXPECT_EQ(encoder.write(Event{}).error().what, "disk full");
  EXPECT_EQ(encoder.finish(0).error().what, "disk full");
}

TEST(TraceCodec, AnErrorOfTheSourceIsGivenOn) {
  Decoder decoder([](std::string&) { return Result<bool>(Error{ErrorCode::kIo, "no disk", "", ""}); });
  Event event;
  EXPECT_EQ(decoder.next(event).error().what, "no disk");
  EXPECT_EQ(decoder.next(event).error().what, "no disk");
}

}  // namespace
}  // namespace outsize::trace
