// Moves slots of a spill file through a pool of threads and measures how long that takes: for who measures a disk.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/types.h"
#include "platforms/host/chunk_memory.h"
#include "platforms/host/io_pool.h"
#include "platforms/host/spill_file.h"

namespace outsize::host {

// Memory to move: not zeros, as some disks and file systems are faster with those; in huge pages where a run's small ones
// lie together (PagePool::fresh_part), else in small ones. More than processors' caches hold, as a run's: of 16 MiB used again
// and again one transfer at a time was read at 3.0 to 5.0 GB/s, of these at 2.3 to 2.8.
struct ProbeMemory : ChunkMemory {
  static constexpr Bytes kBytes = 128 * kMiB;
  ProbeMemory();
};

class DiskProbe {
 public:
  static constexpr Bytes kTransfer = 4 * kMiB;
  static constexpr std::size_t kLanes = 4;  // transfers of one part under way at once
  struct Part {
    IoRequest::Kind kind;
    const Slot* slot;  // of whole transfers, in one run
  };
  DiskProbe(int fd, const ProbeMemory& memory);
  // Bytes a second of every part, all of them under way together until the first ends.
  Result<std::vector<Bytes>> run(const std::vector<Part>& parts, std::size_t lanes = kLanes);
  // Both kinds of transfers find their way (io_bounce.h), as in a run after a while, and keep it: the first bytes of a slot
  // are moved until that is so, half a GiB each way, of a small one less. The slot was `written` before, as the first writing is
  // slow for other reasons.
  Status settle(const Slot& written);

 private:
  void submit(std::size_t lane);
  void next(const IoResult& result);

  const int fd_;
  const ProbeMemory& memory_;
  Bytes next_piece_ = 0;
  std::mutex mutex_;
  std::condition_variable all_done_;
  std::vector<Part> parts_;
  std::vector<Bytes> asked_, moved_;  // of each part
  bool ending_ = false;
  std::size_t busy_ = 0;              // lanes
  Status status_;
  std::unique_ptr<IoPool> pool_;      // last: its threads use the rest
};

// Reads or writes the same bytes of a spill file whenever it is asked: for who measures what that does to a program that
// computes meanwhile. For one thread at a time.
class DiskLoad {
 public:
  static constexpr Bytes kLeast = static_cast<Bytes>(DiskProbe::kLanes) * DiskProbe::kTransfer;
  // Writes `bytes`, rounded up to kLeast, to a new file in `directory`, as what never was written is read without a disk.
  static Result<std::unique_ptr<DiskLoad>> create(const std::string& directory, Bytes bytes);
  // All of them once.
  Status move(IoRequest::Kind kind);
  Bytes bytes() const { return slot_.bytes; }

 private:
  explicit DiskLoad(std::unique_ptr<SpillFile> file)
      : file_(std::move(file)), probe_(file_->fd(), memory_) {}

  std::unique_ptr<SpillFile> file_;
  Slot slot_;
  ProbeMemory memory_;
  DiskProbe probe_;  // last: its threads use the rest
};

}  // namespace outsize::host
