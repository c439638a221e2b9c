// The spill file: unnamed (O_TMPFILE, or unlinked at once), mode 0600, direct I/O, its space
// reserved with fallocate before use and reclaimed when it is no longer needed.
//
// Threading: not thread-safe; the runtime calls it under its lock. fd() may be used by any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/types.h"
#include "platforms/host/clock.h"
#include "platforms/host/file_run.h"

namespace outsize::host {

struct Slot {
  std::int64_t offset = -1;     // of its first run; multiple of kPageBytes
  Bytes bytes = 0;              // of all runs; multiple of kPageBytes
  std::vector<FileRun> pieces = {};  // its runs in their order, where it has several; else empty
  bool valid() const { return offset >= 0; }
};

class SpillFile {
 public:
  struct Options {
    std::string directory;  // must exist
    Bytes limit = 0;        // 0: what the file system has free at creation, less 256 MiB
    Nanos (*now)() = monotonic_now;  // when a full disk may be asked again; never null
  };
  // Refuses tmpfs and ramfs (they are RAM), read-only and full file systems, and directories that
  // cannot be written, each with its own message. Network file systems get a warning().
  static Result<std::unique_ptr<SpillFile>> create(const Options& options);
  virtual ~SpillFile() = default;

  // Reserves space: in one run while there is one or the file can grow (in large steps), else in pieces,
  // the largest first. kOutOfSpace when the limit or the disk is full and the free runs are not enough.
  virtual Result<Slot> allocate(Bytes bytes) = 0;
  virtual void release(const Slot& slot) noexcept = 0;
  // Reserves space until the file holds `bytes` in all, used or free, and `spare` beside it. kOutOfSpace
  // as allocate(). What a step held is not reclaimed soon.
  virtual Status hold(Bytes bytes, Bytes spare) = 0;
  // A disk that was full is not asked for as much or more at every allocate(), but after some time, longer each
  // time; or when this is called, because somebody was told and may have made room. hold() always asks.
  virtual void ask_again() noexcept = 0;
  // Gives long free runs back to the file system (hole punching); called between steps.
  virtual void reclaim() noexcept = 0;

  // Slots allocated before fork are not reused while a forked child lives (it may read them).
  virtual void before_fork() = 0;
  virtual void after_fork_parent() = 0;
  virtual void after_fork_child() = 0;

  virtual int fd() const = 0;               // opened O_DIRECT where the file system can
  virtual Bytes size() const = 0;           // reserved bytes, used or free
  virtual Bytes used() const = 0;
  virtual Bytes disk_size() const = 0;      // of the whole file system
  virtual const std::string& directory() const = 0;
  virtual const std::string& warning() const = 0;  // empty: none
};

// The network file system with this number (statfs), or null where it is none.
const char* network_file_system(std::uint32_t magic);

}  // namespace outsize::host
