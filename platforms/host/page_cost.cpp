// What it takes to move and guard a small page on this machine, beside a thread that keeps another core busy
// in the same address space, as a kernel's threads do: every core's TLB has to be told. And, with no such
// thread, what fresh pages take.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "platforms/host/chunk_memory.h"
#include "platforms/host/clock.h"
#include "platforms/host/machine.h"
#include "platforms/host/machine_error.h"
#include "platforms/host/page_mover.h"
#include "platforms/host/runtime.h"

namespace outsize::host {
namespace {

constexpr Bytes kArena = 32 * kMiB;
constexpr Bytes kMoved = kMiB;  // half a chunk: never a huge page
constexpr int kRounds = 8, kBatches = 9;
// Not measured here, but of live runs (docs/notes/fresh-pages.md).
constexpr Bytes kCold = kGiB;

// There and back, and guarded once between: four times every page.
Status round(PageMover& mover, char* here, char* there) {
  if (Status status = mover.move_in(here, there, kMoved, false); !status) return status;
  if (Status status = mover.guard(there, kMoved); !status) return status;
  if (Status status = mover.unguard(there, kMoved); !status) return status;
  return mover.move_out(there, here, kMoved);
}

// Memory that was freed lately is handed out first, and the host of a virtual machine has not taken it back yet: a huge
// page of it comes in a twentieth of the time. A run's first huge pages are others, since what it frees is smaller.
Status use_up(PageMover& mover, char* arena, Bytes bytes) {
  for (Bytes at = 0; at < bytes; at += kArena) {
    if (Status status = mover.populate(arena + at, kArena); !status) return status;
  }
  return {};
}

// Nanoseconds a MiB of `bytes` in every chunk, in the middle of all.
Result<Nanos> fresh_in(PageMover& mover, char* arena, Bytes bytes) {
  std::array<Nanos, kArena / kChunkBytes> took{};
  for (std::size_t i = 0; i < took.size(); ++i) {
    const Nanos began = monotonic_now();
    if (Status status = mover.populate(arena + static_cast<Bytes>(i) * kChunkBytes, bytes); !status) return status.error();
    took[i] = monotonic_now() - began;
  }
  for (Bytes at = 0; at < kArena; at += kChunkBytes) {
    if (Status status = mover.discard(arena + at, bytes); !status) return status.error();
  }
  std::nth_element(took.begin(), took.begin() + took.size() / 2, took.end());
  return took[took.size() / 2] * kMiB / bytes;
}

Result<PageCost> cost_in(char* arena, Bytes lately_freed) {
  auto mover = make_page_mover(FaultMechanism::kUserfaultfd, arena, kArena + lately_freed, [](const Fault&) {});
  if (!mover) return mover.error();
  if (Status status = use_up(**mover, arena + kArena, lately_freed); !status) return status.error();
  auto huge = fresh_in(**mover, arena, kChunkBytes);
  if (!huge) return huge.error();
  auto warm_huge = fresh_in(**mover, arena, kChunkBytes);
  if (!warm_huge) return warm_huge.error();
  if (auto broken_up = fresh_in(**mover, arena, kMoved); !broken_up) return broken_up.error();
  auto fresh = fresh_in(**mover, arena, kMoved);  // small before, as where a run has no room for a huge one
  if (!fresh) return fresh.error();
  if (Status status = (*mover)->discard(arena + kArena, lately_freed); !status) return status.error();
  if (Status status = (*mover)->populate(arena, kMoved); !status) return status.error();
  for (Bytes at = 0; at < kMoved; at += kPageBytes) arena[at] = 1;
  std::atomic<bool> done{false};
  std::jthread busy([&done] { while (!done.load(std::memory_order_relaxed)) {} });
  std::array<Nanos, kBatches> took{};
  Status status;
  for (Nanos& batch : took) {
    const Nanos began = monotonic_now();
    for (int i = 0; i < kRounds && status.ok(); ++i) status = round(**mover, arena, arena + kArena / 2);
    batch = monotonic_now() - began;
  }
  done = true;
  if (!status) return status.error();
  std::nth_element(took.begin(), took.begin() + kBatches / 2, took.end());
  return PageCost{took[kBatches / 2] / (4 * kRounds * (kMoved / kPageBytes)), *fresh, *huge, *warm_huge, kCold};
}

}  // namespace

Result<PageCost> measure_page_cost(Bytes lately_freed) {
  lately_freed = lately_freed / kArena * kArena;
  const ChunkMemory memory(kArena + lately_freed);
  if (memory.address() == nullptr) return os_error(ErrorCode::kUnsupported, "mmap", memory.error());
  return cost_in(memory.address(), lately_freed);
}

}  // namespace outsize::host
