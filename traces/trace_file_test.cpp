#include "traces/trace_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "core/trace/trace_test_rig.h"
#include "traces/file_limit_rig.h"
#include "traces/frame.h"

namespace outsize::traces {
namespace {

class TraceFile : public testing::Test {
 protected:
  TraceFile() : path_(testing::TempDir() + "outsize_trace_" + std::to_string(getpid()) + ".trace") {}
  ~TraceFile() override { unlink(path_.c_str()); }

  // Writes these events and gives the file's bytes.
  std::string write(const trace::Events& events, int level = kLevel, std::size_t cut_every = 0) {
    auto writer = FileWriter::create(path_, level);
    EXPECT_TRUE(writer.ok());
    std::size_t written = 0;
    for (const trace::OwnedEvent& owned : events) {
      trace::Encoder& encoder = (*writer)->encoder();
      const bool end = owned.plain.kind == trace::Event::Kind::kEnd;
      Status fine = end ? encoder.finish(owned.plain.time)
                        : trace::borrowed(owned, [&](const trace::Event& event) { return encoder.write(event); });
      if (fine.ok() && cut_every > 0 && ++written % cut_every == 0) fine = encoder.cut();
      EXPECT_TRUE(fine.ok());
    }
    EXPECT_TRUE((*writer)->close().ok());
    const std::string bytes = contents();
    EXPECT_EQ((*writer)->file_bytes(), bytes.size());
    return bytes;
  }

  std::string contents() const {
    std::ifstream file(path_, std::ios::binary);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }

  void put(std::string_view bytes) const {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  // The message, or nothing for a whole trace.
  std::string read(trace::Events* events = nullptr) const {
    auto reader = FileReader::open(path_);
    if (!reader) return reader.error().message();
    trace::Event event;
    for (;;) {
      const Result<bool> more = (*reader)->next(event);
      if (!more.ok()) return more.error().message();
      if (!more.value()) return "";
      if (events != nullptr) events->emplace_back(event);
    }
  }

  std::string read(std::string_view bytes) const {
    put(bytes);
    return read();
  }

  std::string path_;
};

bool has(const std::string& text, const char* piece) { return text.find(piece) != text.npos; }

TEST_F(TraceFile, ComesBack) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    const trace::Events events = trace::RandomTrace(seed).make(seed == 1 ? 60000 : 300);
    const std::string bytes = write(events, seed % 2 == 0 ? 0 : kLevel);
    trace::Events back;
    ASSERT_EQ(read(&back), "");
    ASSERT_EQ(back.size(), events.size());
    for (std::size_t i = 0; i < events.size(); ++i) ASSERT_EQ(back[i], events[i]) << "event " << i;
  }
}

TEST_F(TraceFile, Compresses) {
  trace::Events events = trace::RandomTrace(7).make(20000);
  const std::size_t stored = write(events, 0).size();
  EXPECT_LT(write(events).size(), stored * 9 / 10);
}

// Every byte of the container; checked against the table of docs/TRACE.md. Stored, since zstd's
// bytes may change with its version. The checksums are XXH3 of what stands before them.
TEST_F(TraceFile, GoldenBytes) {
  trace::OwnedEvent end;
  end.plain.kind = trace::Event::Kind::kEnd;
  const std::string bytes = write({end}, 0);
  const std::string block("\0\0\0\x51\0\0\0\0\0\0\0\0\0", 13);
  std::string header("\x89OZTR\r\n\x1a\x03\0\0\0", 12);
  std::string frame("\0\0\0\0\x0d\0\0\0\x0d\0\0\0\x02\0\0\0", 16);
  const auto little = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  header += little(0x92941f56U, 4);
  frame += little(0x738c104621c9808dULL, 8);
  EXPECT_EQ(bytes, header + frame + little(0xa40fc904d4698f4dULL, 8) + block);
}

TEST_F(TraceFile, EveryTruncationIsTold) {
  for (const int level : {0, kLevel}) {
    const std::string bytes = write(trace::RandomTrace(2).make(60), level, 20);
    for (std::size_t keep = 0; keep < bytes.size(); ++keep) {
      const std::string said = read(std::string_view(bytes).substr(0, keep));
      EXPECT_TRUE(has(said, keep == 0 ? "the file is empty" : "the trace is cut off")) << keep << ": " << said;
      EXPECT_TRUE(has(said, path_.c_str())) << said;
    }
  }
}

TEST_F(TraceFile, EveryFlippedBitIsTold) {
  const std::string bytes = write(trace::RandomTrace(3).make(60), kLevel, 20);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const std::string said = read(flipped);
    EXPECT_TRUE(has(said, bit < 64 ? "no trace of outsize" : "the trace is damaged")) << bit << ": " << said;
    EXPECT_TRUE(bit < 128 || has(said, "[block ")) << said;
  }
}

TEST_F(TraceFile, WhatFollowsTheEndIsTold) {
  const std::string bytes = write(trace::RandomTrace(4).make(60));
  EXPECT_TRUE(has(read(bytes + '\0'), "something follows its last block"));
  EXPECT_TRUE(has(read(bytes + bytes), "something follows its last block"));
}

TEST_F(TraceFile, BlocksThatAreSwappedAreTold) {
  const std::string bytes = write(trace::RandomTrace(5).make(60), 0, 20);
  const auto size_at = [&](std::size_t at) {
    FrameBytes head{};
    Frame frame;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), head.size(), head.begin());
    EXPECT_TRUE(read_frame(head, frame));
    return kFrameBytes + frame.stored_bytes;
  };
  const std::size_t first = kHeaderBytes, second = first + size_at(first), third = second + size_at(second);
  const std::string swapped = bytes.substr(0, first) + bytes.substr(second, third - second) +
                              bytes.substr(first, second - first) + bytes.substr(third);
  EXPECT_TRUE(has(read(swapped), "block 1 stands where block 0 is expected"));
  EXPECT_TRUE(has(read(bytes.substr(0, first) + bytes.substr(second)), "block 1 stands where block 0"));
}

TEST_F(TraceFile, LaterVersionsAreRefused) {
  const HeaderBytes later = header_bytes(trace::kFormatVersion + 1);
  const std::string said = read(std::string(later.data(), later.size()).append("whatever comes"));
  EXPECT_TRUE(has(said, "the trace has version 4 of the format, and this outsize reads 3 [byte 8] Read it")) << said;
}

TEST_F(TraceFile, SitesOfEarlierVersionsGetTheirIdiomClassFromTheirName) {
  constexpr SiteId kSite = 0xfedcba98fff76543ULL;
  trace::Events events(4);
  events[0].plain.kind = trace::Event::Kind::kSiteName;
  events[0].plain.site = kSite;
  events[0].text = "aten::mm [8x8], [8x8]";
  events[1].plain.kind = trace::Event::Kind::kOpBegin;
  events[1].plain.site = kSite;
  events[2].plain.kind = trace::Event::Kind::kOpEnd;
  events[3].plain.kind = trace::Event::Kind::kEnd;
  std::string bytes = write(events);
  for (const std::uint32_t version : {1U, 2U, 3U}) {
    const HeaderBytes header = header_bytes(version);
    std::copy(header.begin(), header.end(), bytes.begin());
    put(bytes);
    trace::Events back;
    ASSERT_EQ(read(&back), "");
    const SiteId site = version < 3 ? with_idiom_class(kSite, idiom_class_named("aten::mm")) : kSite;
    EXPECT_EQ(back[0].plain.site, site) << version;
    EXPECT_EQ(back[1].plain.site, site) << version;
  }
}

TEST_F(TraceFile, OtherFilesAreRefused) {
  EXPECT_TRUE(has(read("{\"INSTRUCTION\": \"CALL\"}\n"), "is no trace of outsize"));
  EXPECT_TRUE(has(read(std::string(100, '\0')), "is no trace of outsize"));
  path_ += ".missing";
  EXPECT_TRUE(has(read(), "the trace cannot be read: No such file"));
}

TEST_F(TraceFile, AFrameThatMakesNoSenseIsTold) {
  const std::string bytes = write(trace::RandomTrace(6).make(30), 0);
  const auto with = [&](auto change) {
    FrameBytes head{};
    std::copy_n(bytes.begin() + kHeaderBytes, head.size(), head.begin());
    Frame frame;
    EXPECT_TRUE(read_frame(head, frame));
    change(frame);
    head = frame_bytes(frame);
    return bytes.substr(0, kHeaderBytes) + std::string(head.data(), head.size()) +
           bytes.substr(kHeaderBytes + kFrameBytes);
  };
  EXPECT_TRUE(has(read(with([](Frame& f) { f.block_bytes = 1U << 30; })), "makes no sense"));
  EXPECT_TRUE(has(read(with([](Frame& f) { f.flags |= 4; })), "makes no sense"));
  EXPECT_TRUE(has(read(with([](Frame& f) { ++f.block_bytes; })), "another length than it says"));
  EXPECT_TRUE(has(read(with([](Frame& f) { f.flags |= kCompressed; })), "zstd says"));
  EXPECT_TRUE(has(read(with([](Frame& f) { f.flags &= ~kLast; })), "the trace is cut off"));
}

TEST_F(TraceFile, ReadingCanBeCancelledBetweenBlocks) {
  const trace::Events events = trace::RandomTrace(8).make(60);
  write(events, kLevel, 20);
  int asked = 0;
  auto reader = FileReader::open(path_, [&asked] { return ++asked == 3; });
  ASSERT_TRUE(reader.ok());
  trace::Event event;
  std::size_t read = 0;
  Result<bool> more = true;
  while ((more = (*reader)->next(event)).ok() && more.value()) ++read;
  EXPECT_EQ(read, 40U) << "two blocks, cut by hand every 20";
  ASSERT_FALSE(more.ok());
  EXPECT_TRUE(has(more.error().message(), "the reading was interrupted")) << more.error().message();
}

TEST_F(TraceFile, ADiskThatIsFullIsTold) {
  auto writer = FileWriter::create(path_);
  ASSERT_TRUE(writer.ok());
  Status status;
  {
    const FileLimit limit(kHeaderBytes);
    status = (*writer)->encoder().finish(0);
  }
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(has(status.error().message(), ("the trace " + path_ + " cannot be written: File too large").c_str()))
      << status.error().what;
  EXPECT_FALSE(FileWriter::create(path_ + "/none/x").ok());
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "there is no /dev/full here";
  writer = FileWriter::create("/dev/full");
  ASSERT_FALSE(writer.ok()) << "not even its header, and that before training starts";
  EXPECT_TRUE(has(writer.error().message(), "No space left")) << writer.error().message();
}

}  // namespace
}  // namespace outsize::traces
