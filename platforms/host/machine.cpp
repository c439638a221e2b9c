#include "platforms/host/machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "platforms/host/disk_probe.h"
#include "platforms/host/machine_cgroup.h"
#include "platforms/host/machine_error.h"
#include "platforms/host/spill_file.h"
#include "platforms/host/uffd_open.h"

namespace outsize::host {
namespace {

constexpr Bytes kSingle = 256 * kMiB;  // enough for one lane
constexpr Bytes kMaxParts = 2;

}  // namespace

MemoryLimits memory_limits() {
  MemoryLimits limits;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    Bytes kib = 0;
    if (!(words >> key >> kib)) continue;
    if (key == "MemTotal:") limits.total = kib * kKiB;
    else if (key == "MemAvailable:") limits.available = kib * kKiB;
  }
  const CgroupMemory cgroup = cgroup_memory("", limits.total);
  limits.cgroup = cgroup.limit;
  limits.cgroup_used = cgroup.used;
  return limits;
}

Result<DiskBandwidth> measure_disk(const std::string& directory, Bytes sample) {
  // Every lane has something to do.
  sample = round_up(std::max(sample, DiskLoad::kLeast), DiskProbe::kTransfer);
  auto file = SpillFile::create({directory, 0});
  if (!file) return file.error();
  auto first = (*file)->allocate(sample);
  if (!first) return first.error();
  auto second = (*file)->allocate(sample);
  if (!second) return second.error();
  const ProbeMemory memory(kMaxParts * DiskLoad::kLeast);
  if (memory.address == MAP_FAILED) return os_error(ErrorCode::kInternal, "mmap", memory.error);

  DiskProbe probe((*file)->fd(), static_cast<char*>(memory.address));
  const DiskProbe::Part read_first{IoRequest::Kind::kRead, &*first};
  const DiskProbe::Part write_first{IoRequest::Kind::kWrite, &*first};
  const DiskProbe::Part write_second{IoRequest::Kind::kWrite, &*second};
  // The first writing of reserved space also costs the file system its bookkeeping, as it does in
  // a run; what was reserved and never written would read as zeros without touching the disk.
  auto write = probe.run({write_first});
  if (!write) return write.error();
  auto read = probe.run({read_first});
  if (!read) return read.error();
  auto mixed = probe.run({read_first, write_second});
  if (!mixed) return mixed.error();
  Slot part = *first;
  part.bytes = std::min(sample, kSingle);
  auto single_read = probe.run({{IoRequest::Kind::kRead, &part}}, 1);
  if (!single_read) return single_read.error();
  auto single_write = probe.run({{IoRequest::Kind::kWrite, &part}}, 1);
  if (!single_write) return single_write.error();
  DiskBandwidth speed;
  speed.sample = sample;
  speed.write = write.value()[0];
  speed.read = read.value()[0];
  speed.mixed_read = mixed.value()[0];
  speed.mixed_write = mixed.value()[1];
  speed.single_read = single_read.value()[0];
  speed.single_write = single_write.value()[0];
  return speed;
}

FaultSupport fault_support() {
  FaultSupport support;
  Result<Uffd> uffd = open_uffd();
  if (!uffd) {
    support.reason = uffd.error().message();
    return support;
  }
  support.userfaultfd = true;
  support.write_protect = true;  // open_uffd insists on it
  support.kernel_faults = uffd->kernel_faults;
  support.move = uffd->move;
  close(uffd->fd);
  if (!support.move) support.reason = "This kernel has no UFFDIO_MOVE (Linux 6.8 has): pages are copied.";
  if (!support.kernel_faults) {
    if (!support.reason.empty()) support.reason += " ";
    support.reason += "Only faults of user code are reported (vm.unprivileged_userfaultfd is 0).";
  }
  return support;
}

}  // namespace outsize::host
