#include "traces/pilot_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "traces/frame.h"

namespace outsize::traces {
namespace {

class PilotFileTest : public testing::Test {
 protected:
  PilotFileTest() : path_("pilot_file_test-" + std::to_string(getpid()) + ".pilot") {}
  ~PilotFileTest() override { std::remove(path_.c_str()); }
  std::string written(const std::string& card = "{\"a\": 1}", const std::string& model = std::string(5000, 'm')) {
    const Status status = write_pilot_file(path_, card, model);
    EXPECT_TRUE(status.ok()) << status.error().message();
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Result<PilotFile> read(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return read_pilot_file(path_);
  }
  std::string path_;
};

TEST_F(PilotFileTest, CardAndModelComeBack) {
  const std::string bytes = written();
  auto file = read_pilot_file(path_);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->card, "{\"a\": 1}");
  EXPECT_EQ(file->model, std::string(5000, 'm'));
  EXPECT_EQ(file->name, model_name(file->model));
  EXPECT_EQ(file->file_bytes, bytes.size());
  EXPECT_LT(bytes.size(), 500U);
  EXPECT_EQ(written(), bytes);
}

TEST_F(PilotFileTest, EveryByteIsChecked) {
  const std::string bytes = written();
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(read(bytes.substr(0, size)).ok()) << size;
  EXPECT_FALSE(read(bytes + "x").ok());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    EXPECT_FALSE(read(bad).ok()) << at;
  }
}

TEST_F(PilotFileTest, OfALaterVersionItIsRefusedByName) {
  std::string bytes = written();
  put_number(&bytes[8], kPilotFileVersion + 1);
  put_number(&bytes[40], hash_of({bytes.data(), 40}));
  const auto file = read(bytes);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kUnsupported);
}

TEST_F(PilotFileTest, WhatCannotBeReadOrWrittenIsToldWithItsPath) {
  const auto none = read_pilot_file(path_ + ".none");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message().find(path_), std::string::npos);
  const Status status = write_pilot_file("no-such-folder/" + path_, "", "m");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_FALSE(read("a text").ok());
}

}  // namespace
}  // namespace outsize::traces
