// The process's resident size, and a thread that comes by every few milliseconds to look at it.
#pragma once

#include <functional>
#include <memory>

#include "core/base/types.h"

namespace outsize::host {

class ResidentSize {
 public:
  ResidentSize();
  ~ResidentSize();
  ResidentSize(const ResidentSize&) = delete;
  ResidentSize& operator=(const ResidentSize&) = delete;
  // Bytes of RAM the process holds now, files mapped into it included; 0 where that cannot be read.
  // One system call.
  Bytes read() const;

 private:
  int fd_;
};

class MemoryWatch {
 public:
  static constexpr Nanos kEvery = 5'000'000;
  using Look = std::function<void()>;  // on the watch's thread
  // Null where no thread can be had.
  static std::unique_ptr<MemoryWatch> start(Look look);
  virtual ~MemoryWatch() = default;  // no look is under way or comes afterwards
};

}  // namespace outsize::host
