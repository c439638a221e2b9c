// What this machine offers: memory limits, disk bandwidth, fault mechanism.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/base/types.h"

namespace outsize::host {

struct MemoryLimits {
  Bytes total = 0;      // the machine's RAM
  Bytes available = 0;  // MemAvailable
  Bytes cgroup = 0;     // the tightest limit on our path, v1 or v2; 0: none
  Bytes cgroup_used = 0;
};
MemoryLimits memory_limits();

// Bytes a second, sustained over `sample` bytes each, of a file that was written before. Both ways at once: until half
// of it was read or the other half written, and then the other way round.
struct DiskBandwidth {
  Bytes read = 0, write = 0, mixed_read = 0, mixed_write = 0, sample = 0;
  Bytes single_read = 0, single_write = 0;  // with one call under way
};
// Writes and reads back a scratch spill file in `directory`; takes seconds.
Result<DiskBandwidth> measure_disk(const std::string& directory, Bytes sample);

struct PageCost {       // nanoseconds of an op's thread, where they are not bytes
  Nanos page = 0;       // moving or guarding a small page
  Nanos fresh_mib = 0;  // a MiB of small pages that were given back and come from the system again
  Nanos fresh_huge_mib = 0;  // of huge ones that nobody has used lately ...
  Nanos warm_huge_mib = 0;   // ... and of such as were given back just now
  Bytes cold = 0;            // so many bytes of huge ones a run makes before it meets again what it gave back
};
// Takes tens of milliseconds and 32 MiB; and up to two seconds for each GiB of memory that may have been freed lately:
// that is used up first. An error where userfaultfd is not to be had: mremap moves tables of pages, which costs next to
// nothing.
Result<PageCost> measure_page_cost(Bytes lately_freed);

struct MoveCost {      // nanoseconds of processors, pages apart
  Nanos command = 0;   // of an op's thread, for a read, write or eviction
  Nanos transfer = 0;  // of the I/O threads, for a read or write, its bytes apart
  Nanos wait = 0;      // and what an op waits for a read beyond the time of its bytes: the disk, and waking threads
};
// Moves `sample` bytes of each of two sizes, within bounds, between at most 4 MiB of RAM and a spill file of 8 MiB in
// `directory`.
// A session of its own: an error while there is another, and what an earlier one left in this process would be
// moved too. So in a process of its own.
Result<MoveCost> measure_move_cost(const std::string& directory, Bytes sample);

struct FaultSupport {
  bool userfaultfd = false, kernel_faults = false, move = false, write_protect = false;
  std::string reason;  // why not, where not
};
FaultSupport fault_support();

}  // namespace outsize::host
