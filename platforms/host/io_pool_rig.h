// What the tests of the I/O pool share: page-aligned memory, a file without a name, and a pool whose
// results are remembered in order; and the system's account of bytes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "platforms/host/io_pool.h"

namespace outsize::host {

using Kind = IoRequest::Kind;
using Urgency = IoRequest::Urgency;

// The number after `key` in a file of lines "key: number"; -1 where there is none.
inline long long number_in(const std::filesystem::path& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string word, value; lines >> word >> value;) {
    if (word == key) return static_cast<long long>(std::strtoull(value.c_str(), nullptr, 10));
  }
  return -1;
}

class Memory {
 public:
  explicit Memory(Bytes bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        data_(static_cast<char*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Memory() { munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* data() const { return data_; }
  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < bytes_; i += 8) {
      const std::uint64_t word = random();
      std::memcpy(data_ + i, &word, 8);
    }
  }
  bool equals(const Memory& other) const { return std::memcmp(data_, other.data_, bytes_) == 0; }

 private:
  std::size_t bytes_;
  char* data_;
};

class IoPoolTest : public testing::Test {
 protected:
  IoPoolTest() {
    std::string path = "/var/tmp/outsize-test-XXXXXX";
    fd_ = mkostemp(path.data(), O_CLOEXEC);
    unlink(path.c_str());
  }
  ~IoPoolTest() override {
    pool_.reset();
    close(fd_);
    unsetenv("OUTSIZE_IO_FAULT");
  }

  void start(int threads, const char* fault = nullptr) {
    if (fault != nullptr) setenv("OUTSIZE_IO_FAULT", fault, 1);
    pool_ = IoPool::create(threads, [this](const IoResult& result) { done(result); }, bounce_);
  }
  IoRequest request(Kind kind, void* memory, Bytes bytes, std::int64_t offset, std::uint64_t token,
                    Urgency urgency = Urgency::kDemand) const {
    return {kind, urgency, fd_, offset, memory, bytes, token};
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(10), [&] { return order_.size() >= count; })) << order_.size();
  }
  IoResult result(std::uint64_t token) {
    const std::lock_guard lock(mutex_);
    return results_.at(token);
  }
  // Bytes that `seed` makes, written as request 1 and read as request 2, are the same; they are returned.
  std::unique_ptr<Memory> expect_back(Bytes bytes, std::int64_t offset, std::uint64_t seed, const std::vector<FileRun>& runs = {}) {
    auto out = std::make_unique<Memory>(bytes);
    Memory in(bytes);
    out->fill(seed);
    IoRequest write = request(Kind::kWrite, out->data(), bytes, offset, 1), read = request(Kind::kRead, in.data(), bytes, offset, 2);
    write.pieces = read.pieces = runs;
    for (const IoRequest& each : {write, read}) {
      pool_->submit(each);
      wait_for(each.token);
      const Status status = result(each.token).status;
      EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message());
    }
    EXPECT_TRUE(in.equals(*out));
    return out;
  }
  std::vector<std::uint64_t> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }

  int fd_ = -1;
  IoPool::Bounce bounce_ = IoPool::Bounce::kMeasured;
  std::unique_ptr<IoPool> pool_;

 private:
  void done(const IoResult& result) {
    const std::lock_guard lock(mutex_);
    order_.push_back(result.token);
    results_[result.token] = result;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> order_;
  std::map<std::uint64_t, IoResult> results_;
};

}  // namespace outsize::host
