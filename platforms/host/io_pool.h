// A small pool of threads that read and write with pread and pwrite. Large transfers are cut into
// pieces so that several threads share one; reads that somebody waits for go first, and writes step
// back so that reads keep their share of the disk (mixed bandwidth is below either alone). Memory that lies
// here and there goes through bounce buffers where that is faster (io_bounce.h).
//
// Injection: OUTSIZE_IO_FAULT="every=K[,offset=J][,kind=read|write][,error=EIO|ENOSPC|SHORT|FLIP|LATE|PARTS][,late=MS]"
// makes the K-th (then every K-th) transfer fail for the fault tests. Some succeed: with FLIP one bit is
// changed; with LATE it takes long; with PARTS the system does a page of it at each call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/result.h"
#include "core/base/types.h"
#include "platforms/host/file_run.h"

namespace outsize::host {

struct IoRequest {
  enum class Kind : std::uint8_t { kRead, kWrite };
  // Lower goes first: a waiting op, a prefetch, a write somebody waits for, a write ahead.
  enum class Urgency : std::uint8_t { kDemand, kPrefetch, kPressedWrite, kWriteAhead };
  Kind kind = Kind::kRead;
  Urgency urgency = Urgency::kDemand;
  int fd = -1;
  std::int64_t offset = 0;  // multiple of kPageBytes for direct I/O
  void* memory = nullptr;   // page aligned
  Bytes bytes = 0;
  std::uint64_t token = 0;  // the caller's
  std::vector<FileRun> pieces = {};  // where the bytes lie in the file, if not in one run from `offset` on
  const void* helper = nullptr;      // of a kDemand read: who will call help() for it at once, or nobody
};

struct IoResult {
  std::uint64_t token = 0;
  Status status;      // the error names the operation, offset, bytes and errno
  Nanos nanos = 0;    // from first byte asked to last byte done
};

class IoPool {
 public:
  using Done = std::function<void(const IoResult&)>;  // on a pool thread, no pool lock held
  enum class Bounce : std::uint8_t { kMeasured, kNever, kAlways };  // see io_bounce.h; the last two are for tests
  static std::unique_ptr<IoPool> create(int threads, Done done, Bounce bounce = Bounce::kMeasured);
  virtual ~IoPool() = default;  // waits for what is under way

  virtual void submit(const IoRequest& request) = 0;
  // Raises a queued request's urgency (a prefetch that an op now waits for).
  virtual void promote(std::uint64_t token, IoRequest::Urgency urgency, const void* helper = nullptr) = 0;
  // Does a piece of a queued read of this helper on the calling thread, and what follows its end. False where there is
  // none. Who waits for bytes need not wait for a thread to wake up and fetch them, nor for being woken: that is as long as
  // the read of a small extent, and far longer where others use the processors.
  virtual bool help(const void* helper) = 0;
  // A helper does not help any more; the threads take what is left of its reads.
  virtual void give_up(const void* helper) = 0;
  // Bytes a second that writes may take on average; 0: no limit. See write_limit.h.
  virtual void set_write_limit(std::uint64_t bytes_a_second) = 0;
  // How long pressed writes, for which somebody waits, have been held back by that limit.
  virtual Nanos held_back() const = 0;
  // How many bytes went through bounce buffers.
  virtual Bytes bounced() const = 0;
  // Whether transfers go through them is not tried any more: for who measures.
  virtual void keep_ways() = 0;
  // Blocks until nothing is queued or under way and holds new work back until resume(). For fork.
  virtual void quiesce() = 0;
  virtual void resume() = 0;
  // In a forked child: forget the threads (they are not here) and everything queued.
  virtual void after_fork_child() = 0;
};

}  // namespace outsize::host
