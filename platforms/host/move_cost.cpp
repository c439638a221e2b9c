// What it takes this machine's processors to move an extent between RAM and the spill file, the disk's own time
// apart: measured on a runtime of its own that has room for half of what its one program uses in turn.
#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "platforms/host/clock.h"
#include "platforms/host/machine.h"
#include "platforms/host/runtime.h"

namespace outsize::host {
namespace {

constexpr int kRoundsMax = 33, kPairs = 5;
constexpr Bytes kTiny = 256 * kKiB, kPart = kChunkBytes / 2;  // of small pages: one call of the system each
constexpr Bytes kRoom = 2 * kChunkBytes;  // in both sizes, so that their pages lie in memory alike

// A pool of extents, twice as many as there is room for, that one program uses in turn: each time one has to come,
// another one leaves. If they are only read it leaves for nothing, and who waits reads itself; if they are written, I/O
// threads write the one and then read the other.
class Turns {
 public:
  static Result<std::unique_ptr<Turns>> begin(const std::string& directory, Bytes bytes, Access access) {
    RuntimeOptions options;
    options.budget = kRoom;
    options.policy = "ondemand";
    options.spill_dir = directory;
    auto runtime = Runtime::create(options);
    if (!runtime) return runtime.error();
    std::unique_ptr<Turns> turns(new Turns(std::move(*runtime), static_cast<std::size_t>(bytes), access));
    for (Bytes i = 0; i < 2 * kRoom / bytes; ++i) {
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
      const Operand operand{extent, bytes_, access_};
      if (Status status = runtime_->op_begin(1, {&operand, 1}, 0); !status) return status;
      runtime_->op_end();
    }
    return {};
  }
  Stats stats() const { return runtime_->stats(); }

 private:
  Turns(std::unique_ptr<Runtime> runtime, std::size_t bytes, Access access)
      : runtime_(std::move(runtime)), bytes_(bytes), access_(access) {}
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
  Access access_;
  std::vector<void*> extents_;
};

// Processor time that a command took the op's thread, and a transfer the others; and how long the op waited for it.
struct Spent {
  Nanos command = 0, transfer = 0, wait = 0;
};

Nanos median(std::vector<Nanos>& all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

// Of several rounds the one in the middle: a virtual machine's host now and then takes its part in one.
Result<Spent> spend(const std::string& directory, Bytes bytes, Access access, Bytes sample, int rounds_max = kRoundsMax) {
  auto turns = Turns::begin(directory, bytes, access);
  if (!turns) return turns.error();
  if (Status status = (*turns)->once(); !status) return status.error();
  std::vector<Nanos> commands, transfers, waits;
  const Bytes rounds = std::clamp<Bytes>(sample / (2 * kRoom), 1, rounds_max);
  while (static_cast<Bytes>(commands.size()) < rounds) {
    const Stats before = (*turns)->stats();
    const Nanos began = monotonic_now(), op = thread_used(), all = processors_used();
    if (Status status = (*turns)->once(); !status) return status.error();
    const Nanos took = monotonic_now() - began;
    const Nanos of_op = thread_used() - op;
    const Nanos of_others = processors_used() - all - of_op;
    const Stats after = (*turns)->stats();
    const std::int64_t moved = std::max<std::int64_t>(after.reads + after.writes - before.reads - before.writes, 1);
    commands.push_back(of_op / (moved + after.evictions - before.evictions));
    transfers.push_back(of_others / moved);
    waits.push_back((took - of_op) / moved);
  }
  return Spent{median(commands), median(transfers), median(waits)};
}

// Where a line through what two sizes take begins.
Nanos at_no_bytes(Nanos tiny, Nanos part) {
  return std::max<Nanos>(tiny - (part - tiny) * kTiny / (kPart - kTiny), 0);
}

// What reads cost, their bytes apart. By turns in both sizes: a disk's pace drifts, and what is left of two times of
// different minutes is the drift. The middle one of several pairs.
Status measure_reads(const std::string& directory, Bytes sample, MoveCost& cost) {
  std::vector<Nanos> commands, waits;
  for (int i = 0; i < kPairs; ++i) {
    auto tiny = spend(directory, kTiny, Access::kRead, sample / kPairs, kRoundsMax / kPairs);
    if (!tiny) return tiny.error();
    auto part = spend(directory, kPart, Access::kRead, sample / kPairs, kRoundsMax / kPairs);
    if (!part) return part.error();
    commands.push_back(at_no_bytes(tiny->command, part->command));
    waits.push_back(at_no_bytes(tiny->wait, part->wait));
  }
  cost.command = median(commands);
  cost.wait = median(waits);
  return {};
}

}  // namespace

Result<MoveCost> measure_move_cost(const std::string& directory, Bytes sample) {
  MoveCost cost;
  if (Status status = measure_reads(directory, sample, cost); !status) return status.error();
  auto tiny = spend(directory, kTiny, Access::kWrite, sample);
  if (!tiny) return tiny.error();
  auto part = spend(directory, kPart, Access::kWrite, sample);
  if (!part) return part.error();
  cost.transfer = at_no_bytes(tiny->transfer, part->transfer);
  return cost;
}

}  // namespace outsize::host
