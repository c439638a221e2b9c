// DeepUM's part: what comes and what leaves ahead of need.
#include <algorithm>

#include "sim/uvm/machine.h"

namespace outsize::sim::uvm {
namespace {

// Transfers that are asked for ahead of each direction: the one that runs and the one behind it. What is demanded waits
// for no more than the first.
constexpr std::int64_t kAheadMost = 2;

}  // namespace

void Machine::foresee(const Action& action) {
  addresses_.clear();
  for (const ObjectRef& ref : action.operands) {
    if (objects_[ref.object].there) addresses_.push_back(objects_[ref.object].begin);
  }
  foresight_->begin(action.site, action.in_backward, addresses_);
  const auto expected = foresight_->expected(static_cast<std::size_t>(memory_.most()));
  queue_.assign(expected.begin(), expected.end());
  next_ahead_ = 0;
  ++expecting_;
  for (const BlockId id : queue_) memory_[id].expected = expecting_;
  ahead();
}

void Machine::ahead() {
  if (!foresight_) return;
  if (options_.model.pre_eviction) evict_ahead();
  fetch_ahead();
}

// Whole blocks, the soonest first, as far as there is room.
void Machine::fetch_ahead() {
  for (; next_ahead_ < queue_.size() && reading_ahead_ < kAheadMost; ++next_ahead_) {
    const BlockId id = queue_[next_ahead_];
    const Block& block = memory_[id];
    if (block.leaving) return;  // it comes back once it is gone
    const Leaves absent = ~(block.device | block.coming);
    if (absent == 0 || block.coming != 0) continue;
    if (!block.holds && memory_.free() == 0) {
      if (options_.model.pre_eviction || memory_.leaving() > 0) return;
      const BlockId victim = choose_victim(false);
      if (victim == DeviceMemory::kNone) return;
      evict(victim, Urgency::kPrefetch);
      if (memory_.free() == 0) return;
    }
    result_.stats.prefetched += bytes_of(absent & block.host);
    bring(id, absent, Urgency::kPrefetch);
  }
}

// Room for all that is still to come.
void Machine::evict_ahead() {
  std::int64_t wanted = 0;
  for (std::size_t i = next_ahead_; i < queue_.size(); ++i) wanted += memory_[queue_[i]].holds ? 0 : 1;
  while (memory_.leaving() < kAheadMost && memory_.free() + memory_.leaving() < wanted) {
    const BlockId victim = choose_victim(false);
    if (victim == DeviceMemory::kNone) return;
    evict(victim, Urgency::kPrefetch);
  }
}

}  // namespace outsize::sim::uvm
