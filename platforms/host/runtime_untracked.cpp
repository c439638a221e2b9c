// What the process holds beside tensors: looked at, reported by op site, and, where the budget is for
// the whole process, made room for.
#include <algorithm>
#include <mutex>

#include "platforms/host/runtime_impl.h"

namespace outsize::host {
namespace {

// What a small program takes beside what the process holds before its first op: libraries that load
// then, and some tensors.
constexpr Bytes kStart = 192 * kMiB;

}  // namespace

// The budget to begin with, where there is one for the whole process.
Status Runtime::Impl::derive_budget() {
  if (options.process_budget == 0) return {};
  if (resident_size.read() == 0) {
    return Error{ErrorCode::kUnsupported, "the process's size cannot be read from /proc/self/statm, so a budget for "
                 "all of it cannot be kept", "budget-rss", "Give --budget, which is for tensors."};
  }
  const Bytes held = resident_size.read() - pool->present();
  options.budget = options.process_budget - UntrackedLedger::margin(options.process_budget) - held;
  if (options.budget < kBudgetMin) {
    return Error{ErrorCode::kInvalidArgument, "the process holds " + mib(held) +
                 " already (tensors made before outsize was switched on are among them), which leaves nothing of a "
                 "budget of " + mib(options.process_budget) + " for all of it", "budget-rss",
                 "Give at least " + mib(held + held / 32 + kStart) + ", of which " + mib(kStart) +
                     " are for libraries that load later and some tensors."};
  }
  return {};
}

// On the watch's thread. Under the lock no page of ours comes or goes, so that what is seen and what we
// know of it fit together.
void Runtime::Impl::look_at_memory() {
  std::lock_guard guard(lock);
  look();
}

void Runtime::Impl::look() {
  const Bytes resident = resident_size.read();
  if (!serving || resident == 0) return;
  running_ops.clear();
  for (const auto& slot : threads) {
    if (slot->depth > 0) running_ops.push_back({slot->id, slot->sites.back(), slot->ops});
  }
  untracked.look(resident - pool->present(), running_ops);
  process_peak = std::max(process_peak, resident);
  follow_process_budget();
}

// Tensors have what the rest of the process leaves of its budget: less of it at once, more of it only
// when that is worth the while.
void Runtime::Impl::follow_process_budget() {
  if (options.process_budget == 0) return;
  const Bytes fits = untracked.tensors_in(options.process_budget) / kMiB * kMiB;
  const Bytes wanted = fits < options.budget ? std::max(fits, least_budget()) : fits;
  if (wanted < options.budget || wanted > options.budget + options.process_budget / 64) {
    change_budget(wanted);
  }
}

// A raw access cannot be refused: below this one to the largest extent would end the process.
Bytes Runtime::Impl::least_budget() const {
  Bytes largest = 0;
  for (ExtentId id = 0; id < extents.size(); ++id) {
    if (extents[id].kind != HostExtent::Kind::kNone) largest = std::max(largest, table[id].bytes);
  }
  return std::max(kBudgetMin, round_up(pinned() + largest, kMiB));
}

void Runtime::Impl::change_budget(Bytes bytes) {
  options.budget = bytes;
  pool->set_limit(bytes);
  Input input;
  input.kind = Input::Kind::kBudget;
  input.bytes = bytes;
  feed(input);
  trim_to_budget();
  room_below(0).ok();  // while there is room to reserve; who is born is told
}

// Called before the op's operands are pinned: others make way while that is possible. With the lock held.
Status Runtime::Impl::expect_untracked(ThreadSlot& slot, Bytes bytes, const std::string& op) {
  if (bytes < UntrackedLedger::kNoise || (slot.expects && bytes <= slot.expected)) return {};
  if (!slot.expects) slot.expects_at = slot.depth;  // the op that will begin there, and what it calls
  slot.expects = true;
  slot.expected = bytes;
  untracked.expect(slot.id, bytes);
  const Bytes missing = least_budget() - untracked.tensors_in(options.process_budget);
  if (missing > 0) {
    const Bytes enough = untracked.whole_for(least_budget());
    scratch_is_back(slot);
    return Error{ErrorCode::kOutOfBudget,
                 op + " takes about " + mib(bytes) + " of scratch that is no tensor, and beside " +
                     mib(untracked.outside()) + " that are held the budget of " + mib(options.process_budget) +
                     " for the whole process has no room for it.",
                 "workspace",
                 "Give a --budget-rss of at least " +
                     std::to_string(enough / kMiB) +
                     "MiB (other ops may need more), or make tensors smaller, for instance the batch."};
  }
  follow_process_budget();
  // Room for a page is room that everything beyond the new budget has left.
  room_in_own_op(slot, kPageBytes, "workspace");
  return {};
}

// The op that ends was the outermost that took scratch.
void Runtime::Impl::scratch_is_back(ThreadSlot& slot) {
  slot.expects = false;
  untracked.ended(slot.id);
  follow_process_budget();
}

bool Runtime::has_process_budget() const noexcept { return the_impl()->options.process_budget > 0; }

Status Runtime::expect_untracked(std::size_t bytes, const std::string& op) {
  Impl& m = *the_impl();
  if (m.in_child.load(std::memory_order_relaxed)) return {};
  ThreadSlot& slot = m.slot();
  std::lock_guard guard(m.lock);
  if (m.options.process_budget == 0) return {};
  return m.expect_untracked(slot, static_cast<Bytes>(bytes), op);
}

}  // namespace outsize::host
