#include "platforms/host/machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

#include "platforms/host/io_pool.h"
#include "platforms/host/machine_cgroup.h"
#include "platforms/host/machine_error.h"
#include "platforms/host/spill_file.h"
#include "platforms/host/uffd_open.h"

namespace outsize::host {
namespace {

constexpr Bytes kTransfer = 8 * kMiB;
constexpr int kThreads = 4;

// Runs transfers over a scratch file and waits for them.
class DiskProbe {
 public:
  explicit DiskProbe(int fd) : fd_(fd), pool_(IoPool::create(kThreads, [this](const IoResult& result) {
                                 const std::lock_guard lock(mutex_);
                                 if (!result.status && status_.ok()) status_ = result.status;
                                 --pending_;
                                 all_done_.notify_all();
                               })) {}

  struct Part {
    IoRequest::Kind kind;
    const Slot* slot;
    char* memory;  // kTransfer bytes, shared by all transfers: contents do not matter
  };
  // Bytes a second of every part. The parts take turns, so both directions are always under way.
  Status run(const std::vector<Part>& parts, std::vector<Bytes>* speeds);

 private:
  const int fd_;
  std::mutex mutex_;
  std::condition_variable all_done_;
  int pending_ = 0;
  Status status_;
  std::unique_ptr<IoPool> pool_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::max(1e-9, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

Status DiskProbe::run(const std::vector<Part>& parts, std::vector<Bytes>* speeds) {
  const Bytes each = parts.front().slot->bytes;
  {
    const std::lock_guard lock(mutex_);
    pending_ = static_cast<int>(each / kTransfer) * static_cast<int>(parts.size());
  }
  const auto start = std::chrono::steady_clock::now();
  for (Bytes at = 0; at < each; at += kTransfer) {
    for (const Part& part : parts) {
      IoRequest request;
      request.kind = part.kind;
      request.urgency = IoRequest::Urgency::kDemand;  // one queue for both kinds
      request.fd = fd_;
      request.offset = part.slot->offset + at;
      request.memory = part.memory;
      request.bytes = kTransfer;
      pool_->submit(request);
    }
  }
  std::unique_lock lock(mutex_);
  all_done_.wait(lock, [this] { return pending_ == 0; });
  speeds->assign(parts.size(), static_cast<Bytes>(static_cast<double>(each) / seconds_since(start)));
  return std::exchange(status_, Status{});
}

struct Memory {
  explicit Memory(Bytes size) : bytes(static_cast<std::size_t>(size)) {
    address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) return;
    // Not zeros: some disks and file systems are faster with those.
    std::uint64_t state = 0x9e3779b97f4a7c15ULL;
    for (auto* word = static_cast<std::uint64_t*>(address); word != end(); ++word) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      *word = state;
    }
  }
  ~Memory() {
    if (address != MAP_FAILED) munmap(address, bytes);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::uint64_t* end() const { return static_cast<std::uint64_t*>(address) + bytes / 8; }
  char* at(Bytes offset) const { return static_cast<char*>(address) + offset; }
  std::size_t bytes;
  void* address = MAP_FAILED;
};

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
  sample = round_up(std::max(sample, kTransfer), kTransfer);
  auto file = SpillFile::create({directory, 0});
  if (!file) return file.error();
  auto first = (*file)->allocate(sample);
  if (!first) return first.error();
  auto second = (*file)->allocate(sample);
  if (!second) return second.error();
  const Memory memory(2 * kTransfer);
  if (memory.address == MAP_FAILED) return os_error(ErrorCode::kInternal, "mmap", errno);

  DiskProbe probe((*file)->fd());
  DiskBandwidth speed;
  speed.sample = sample;
  const auto read = IoRequest::Kind::kRead;
  const auto write = IoRequest::Kind::kWrite;
  char* const low = memory.at(0);
  char* const high = memory.at(kTransfer);
  std::vector<Bytes> speeds;
  // The first writing of reserved space also costs the file system its bookkeeping, as it does in
  // a run; what was reserved and never written would read as zeros without touching the disk.
  if (Status status = probe.run({{write, &*first, low}}, &speeds); !status) return status.error();
  speed.write = speeds[0];
  if (Status status = probe.run({{read, &*first, high}}, &speeds); !status) return status.error();
  speed.read = speeds[0];
  if (Status status = probe.run({{read, &*first, high}, {write, &*second, low}}, &speeds); !status) {
    return status.error();
  }
  speed.mixed_read = speeds[0];
  speed.mixed_write = speeds[1];
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
