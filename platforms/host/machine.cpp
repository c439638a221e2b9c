#include "platforms/host/machine.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "platforms/host/disk_probe.h"
#include "platforms/host/machine_cgroup.h"
#include "platforms/host/machine_error.h"
#include "platforms/host/spill_file.h"
#include "platforms/host/uffd_open.h"

namespace outsize::host {
namespace {

constexpr Bytes kSingle = 256 * kMiB;  // enough for one lane

// Bytes a second read from one half while the other is written, and then the other way round: of both together.
Result<std::pair<Bytes, Bytes>> measure_mixed(DiskProbe& probe, const Slot& slot) {
  Slot low = slot, high = slot;
  low.bytes = high.bytes = slot.bytes / 2;
  high.offset += low.bytes;
  double seconds = 0, read = 0, written = 0;
  for (const auto& [from, to] : {std::pair(&low, &high), std::pair(&high, &low)}) {
    auto rates = probe.run({{IoRequest::Kind::kRead, from}, {IoRequest::Kind::kWrite, to}});
    if (!rates) return rates.error();
    const auto reads = static_cast<double>(rates.value()[0]), writes = static_cast<double>(rates.value()[1]);
    const double took = static_cast<double>(low.bytes) / std::max({reads, writes, 1.0});  // until one half was through
    seconds += took;
    read += reads * took;
    written += writes * took;
  }
  return std::pair(static_cast<Bytes>(read / seconds), static_cast<Bytes>(written / seconds));
}

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
  // Every lane of either half has something to do.
  sample = round_up(std::max(sample, 2 * DiskLoad::kLeast), 2 * DiskProbe::kTransfer);
  auto file = SpillFile::create({directory, 0});
  if (!file) return file.error();
  auto slot = (*file)->allocate(sample);
  if (!slot) return slot.error();
  const ProbeMemory memory;
  if (memory.address() == nullptr) return os_error(ErrorCode::kInternal, "mmap", memory.error());

  DiskProbe probe((*file)->fd(), memory);
  const DiskProbe::Part read_all{IoRequest::Kind::kRead, &*slot}, write_all{IoRequest::Kind::kWrite, &*slot};
  // Written before it is measured: the first writing of reserved space costs the file system its bookkeeping, and a
  // virtual machine's host as well, and a run writes the same slots again and again. What was never written would also
  // read as zeros without touching the disk.
  if (auto first = probe.run({write_all}); !first) return first.error();
  if (Status settled = probe.settle(*slot); !settled) return settled.error();
  auto write = probe.run({write_all});
  if (!write) return write.error();
  auto read = probe.run({read_all});
  if (!read) return read.error();
  auto mixed = measure_mixed(probe, *slot);
  if (!mixed) return mixed.error();
  Slot part = *slot;
  part.bytes = std::min(sample, kSingle);
  auto single_read = probe.run({{IoRequest::Kind::kRead, &part}}, 1);
  if (!single_read) return single_read.error();
  auto single_write = probe.run({{IoRequest::Kind::kWrite, &part}}, 1);
  if (!single_write) return single_write.error();
  DiskBandwidth speed;
  speed.sample = sample;
  speed.write = write.value()[0];
  speed.read = read.value()[0];
  speed.mixed_read = mixed->first;
  speed.mixed_write = mixed->second;
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
