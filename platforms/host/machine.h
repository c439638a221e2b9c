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

struct DiskBandwidth {  // bytes a second, sustained over `sample` bytes each
  Bytes read = 0, write = 0, mixed_read = 0, mixed_write = 0, sample = 0;
};
// Writes and reads back a scratch spill file in `directory`; takes seconds.
Result<DiskBandwidth> measure_disk(const std::string& directory, Bytes sample);

// What moving or guarding a small page takes an op's thread, in nanoseconds. Takes tens of milliseconds. An
// error where userfaultfd is not to be had: mremap moves tables of pages, which costs next to nothing.
Result<Nanos> measure_page_cost();

struct FaultSupport {
  bool userfaultfd = false, kernel_faults = false, move = false, write_protect = false;
  std::string reason;  // why not, where not
};
FaultSupport fault_support();

}  // namespace outsize::host
