// What it takes this machine's processors to move an extent between RAM and the spill file, the disk's own time
// apart: measured on a runtime of its own that has room for half of what its one program uses in turn.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "platforms/host/machine.h"
#include "platforms/host/runtime.h"

namespace outsize::host {
namespace {

constexpr int kExtents = 8;  // twice as many as there is room for: every op waits for a read
constexpr int kRoundsMax = 9;
constexpr Bytes kSmall = kChunkBytes, kLarge = 4 * kChunkBytes;  // no small pages: page_cost.cpp has those

Nanos time_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<Nanos>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// A thread that keeps a core busy in this address space, as a kernel's threads do: its TLB has to be told of
// what moves.
class BusyThread {
 public:
  BusyThread() : thread_([this] { while (!done_.load(std::memory_order_relaxed)) {} }) {}
  ~BusyThread() { done_ = true; }
  BusyThread(const BusyThread&) = delete;
  BusyThread& operator=(const BusyThread&) = delete;
  Nanos spent() {
    clockid_t clock{};
    return pthread_getcpuclockid(thread_.native_handle(), &clock) == 0 ? time_of(clock) : 0;
  }

 private:
  std::atomic<bool> done_{false};
  std::jthread thread_;  // last: it uses the flag
};

// A pool of extents that one program uses in turn.
class Turns {
 public:
  static Result<std::unique_ptr<Turns>> begin(const std::string& directory, Bytes bytes) {
    RuntimeOptions options;
    options.budget = kExtents / 2 * bytes;
    options.policy = "ondemand";
    options.spill_dir = directory;
    auto runtime = Runtime::create(options);
    if (!runtime) return runtime.error();
    std::unique_ptr<Turns> turns(new Turns(std::move(*runtime), static_cast<std::size_t>(bytes)));
    for (int i = 0; i < kExtents; ++i) {
      if (Status status = turns->birth(static_cast<char>(i + 1)); !status) return status.error();
    }
    return turns;
  }
  ~Turns() {
    for (void* const extent : extents_) Runtime::deallocate(extent);
  }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  Status once() {
    for (void* const extent : extents_) {
      const Operand operand{extent, bytes_, Access::kWrite};
      if (Status status = runtime_->op_begin(1, {&operand, 1}, 0); !status) return status;
      runtime_->op_end();
    }
    return {};
  }
  Stats stats() const { return runtime_->stats(); }

 private:
  Turns(std::unique_ptr<Runtime> runtime, std::size_t bytes) : runtime_(std::move(runtime)), bytes_(bytes) {}
  Status birth(char value) {
    if (Status status = runtime_->op_begin(0, {}, 0); !status) return status;
    auto memory = runtime_->allocate(bytes_);
    if (memory) std::fill_n(static_cast<char*>(*memory), bytes_, value);
    runtime_->op_end();
    if (!memory) return memory.error();
    extents_.push_back(*memory);
    return {};
  }

  std::unique_ptr<Runtime> runtime_;
  std::size_t bytes_;
  std::vector<void*> extents_;
};

// Processor time that a command took the op's thread, and a transfer the others.
struct Spent {
  Nanos command = 0, transfer = 0;
};

Nanos median(std::vector<Nanos>& all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

// Of several rounds the one in the middle: a virtual machine's host now and then takes its part in one.
Result<Spent> spend(const std::string& directory, Bytes bytes, Bytes sample) {
  auto turns = Turns::begin(directory, bytes);
  if (!turns) return turns.error();
  if (Status status = (*turns)->once(); !status) return status.error();
  BusyThread busy;
  std::vector<Nanos> commands, transfers;
  const Bytes rounds = std::clamp<Bytes>(sample / (kExtents * bytes), 1, kRoundsMax);
  while (static_cast<Bytes>(commands.size()) < rounds) {
    const Stats before = (*turns)->stats();
    const Nanos op = time_of(CLOCK_THREAD_CPUTIME_ID), all = time_of(CLOCK_PROCESS_CPUTIME_ID) - busy.spent();
    if (Status status = (*turns)->once(); !status) return status.error();
    const Nanos of_op = time_of(CLOCK_THREAD_CPUTIME_ID) - op;
    const Nanos of_others = time_of(CLOCK_PROCESS_CPUTIME_ID) - busy.spent() - all - of_op;
    const Stats after = (*turns)->stats();
    const std::int64_t moved = std::max<std::int64_t>(after.reads + after.writes - before.reads - before.writes, 1);
    commands.push_back(of_op / (moved + after.evictions - before.evictions));
    transfers.push_back(of_others / moved);
  }
  return Spent{median(commands), median(transfers)};
}

}  // namespace

Result<MoveCost> measure_move_cost(const std::string& directory, Bytes sample) {
  auto small = spend(directory, kSmall, sample);
  if (!small) return small.error();
  auto large = spend(directory, kLarge, sample);
  if (!large) return large.error();
  // Two sizes: what a transfer takes, and what its bytes take.
  MoveCost cost;
  cost.command = std::min(small->command, large->command);
  cost.mebibyte = std::max<Nanos>(large->transfer - small->transfer, 0) * kMiB / (kLarge - kSmall);
  cost.transfer = std::max<Nanos>(small->transfer - cost.mebibyte * kSmall / kMiB, 0);
  return cost;
}

}  // namespace outsize::host
