#include "platforms/host/disk_probe.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "platforms/host/io_bounce.h"
#include "platforms/host/machine.h"
#include "platforms/host/machine_error.h"

namespace outsize::host {
namespace {

constexpr int kThreads = 4;

}  // namespace

DiskProbe::DiskProbe(int fd, const ProbeMemory& memory)
    : fd_(fd), memory_(memory), pool_(IoPool::create(kThreads, [this](const IoResult& result) { next(result); })) {}

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
  // The piece that was used longest ago: a run's transfers hardly ever find theirs in the processors' caches.
  request.memory = memory_.address() + next_piece_;
  next_piece_ = (next_piece_ + kTransfer) % ProbeMemory::kBytes;
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
  status_ = {};
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

Status DiskProbe::settle(const Slot& written) {
  constexpr Bytes kEnough = 2 * BounceChoice::kDuel * kTransfer;
  constexpr int kPasses = 4;  // a small sample is for a look, not for figures
  Slot part = written;
  part.bytes = std::min(written.bytes, kEnough);
  for (const auto kind : {IoRequest::Kind::kWrite, IoRequest::Kind::kRead}) {
    for (int pass = 0; pass < kPasses && pass * part.bytes < kEnough; ++pass) {
      if (auto rates = run({{kind, &part}}); !rates) return rates.error();
    }
  }
  pool_->keep_ways();
  return {};
}

ProbeMemory::ProbeMemory() : ChunkMemory(kBytes) {
  if (address() == nullptr) return;
  (void)madvise(address(), kBytes, fault_support().move ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  std::uint64_t state = 0x9e3779b97f4a7c15ULL;
  auto* const words = reinterpret_cast<std::uint64_t*>(address());
  for (std::uint64_t* word = words; word != words + kBytes / 8; ++word) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    *word = state;
  }
}

Result<std::unique_ptr<DiskLoad>> DiskLoad::create(const std::string& directory, Bytes bytes) {
  auto file = SpillFile::create({directory, 0});
  if (!file) return file.error();
  auto slot = (*file)->allocate(round_up(std::max(bytes, kLeast), kLeast));
  if (!slot) return slot.error();
  std::unique_ptr<DiskLoad> load(new DiskLoad(std::move(*file)));
  if (load->memory_.address() == nullptr) return os_error(ErrorCode::kInternal, "mmap", load->memory_.error());
  load->slot_ = std::move(*slot);
  if (Status written = load->move(IoRequest::Kind::kWrite); !written) return written.error();
  if (Status settled = load->probe_.settle(load->slot_); !settled) return settled.error();
  return load;
}

Status DiskLoad::move(IoRequest::Kind kind) {
  auto rates = probe_.run({{kind, &slot_}});
  if (!rates) return rates.error();
  return {};
}

}  // namespace outsize::host
