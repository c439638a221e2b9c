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
#include <vector>

#include "platforms/host/io_pool.h"
#include "platforms/host/machine_cgroup.h"
#include "platforms/host/machine_error.h"
#include "platforms/host/spill_file.h"
#include "platforms/host/uffd_open.h"

namespace outsize::host {
namespace {

constexpr Bytes kTransfer = 4 * kMiB;
constexpr int kThreads = 4;
constexpr std::size_t kLanes = 4;  // transfers of one part under way at once
constexpr Bytes kSingle = 256 * kMiB;  // enough for one lane
constexpr std::size_t kMaxParts = 2;

// Moves whole slots through a pool of threads and measures how long that takes.
class DiskProbe {
 public:
  struct Part {
    IoRequest::Kind kind;
    const Slot* slot;
  };
  // `memory`: kTransfer bytes for every lane of every part.
  DiskProbe(int fd, char* memory)
      : fd_(fd), memory_(memory),
        pool_(IoPool::create(kThreads, [this](const IoResult& result) { next(result); })) {}
  // Bytes a second of every part, all of them under way together until the first ends.
  Result<std::vector<Bytes>> run(const std::vector<Part>& parts, std::size_t lanes = kLanes);

 private:
  void submit(std::size_t lane);
  void next(const IoResult& result);

  const int fd_;
  char* const memory_;
  std::mutex mutex_;
  std::condition_variable all_done_;
  std::vector<Part> parts_;
  std::vector<Bytes> asked_, moved_;  // of each part
  bool ending_ = false;
  std::size_t busy_ = 0;              // lanes
  Status status_;
  std::unique_ptr<IoPool> pool_;      // last: its threads use the rest
};

// Lane n works for part n % parts. Under the mutex.
void DiskProbe::submit(std::size_t lane) {
  const std::size_t index = lane % parts_.size();
  const Part& part = parts_[index];
  if (ending_ || asked_[index] >= part.slot->bytes) {
    // The first part to run out ends the measurement: what the others did alone would not count.
    ending_ = true;
    --busy_;
    all_done_.notify_all();
    return;
  }
  IoRequest request;
  request.kind = part.kind;
  request.urgency = IoRequest::Urgency::kDemand;  // one queue for both kinds
  request.fd = fd_;
  request.offset = part.slot->offset + asked_[index];
  request.memory = memory_ + static_cast<Bytes>(lane) * kTransfer;
  request.bytes = kTransfer;
  request.token = lane;
  asked_[index] += kTransfer;
  pool_->submit(request);
}

void DiskProbe::next(const IoResult& result) {
  const std::lock_guard lock(mutex_);
  if (result.status) {
    moved_[result.token % parts_.size()] += kTransfer;
  } else {
    if (status_) status_ = result.status;
    ending_ = true;
  }
  submit(result.token);
}

Result<std::vector<Bytes>> DiskProbe::run(const std::vector<Part>& parts, std::size_t lanes) {
  std::unique_lock lock(mutex_);
  parts_ = parts;
  asked_.assign(parts.size(), 0);
  moved_.assign(parts.size(), 0);
  ending_ = false;
  busy_ = parts.size() * lanes;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t lane = 0; lane < parts.size() * lanes; ++lane) submit(lane);
  all_done_.wait(lock, [this] { return busy_ == 0; });
  if (!status_) return status_.error();
  const double seconds =
      std::max(1e-9, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  std::vector<Bytes> speeds;
  for (const Bytes moved : moved_) speeds.push_back(static_cast<Bytes>(static_cast<double>(moved) / seconds));
  return speeds;
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
  // Every lane has something to do.
  sample = round_up(std::max(sample, static_cast<Bytes>(kLanes) * kTransfer), kTransfer);
  auto file = SpillFile::create({directory, 0});
  if (!file) return file.error();
  auto first = (*file)->allocate(sample);
  if (!first) return first.error();
  auto second = (*file)->allocate(sample);
  if (!second) return second.error();
  const Memory memory(static_cast<Bytes>(kLanes * kMaxParts) * kTransfer);
  if (memory.address == MAP_FAILED) return os_error(ErrorCode::kInternal, "mmap", errno);

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
