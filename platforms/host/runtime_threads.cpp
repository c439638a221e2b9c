// Threads as the runtime knows them: the slot that each has, how one waits, and what it is told when
// it waited in vain.
#include <algorithm>
#include <mutex>
#include <utility>

#include "platforms/host/runtime_impl.h"

namespace outsize::host {

constinit thread_local ThreadSlot* tls_slot = nullptr;

namespace {

WaitHooks wait_hooks_;

// A thread that ends leaves its slot to the next one that begins.
struct SlotLease {
  ThreadSlot* slot = nullptr;
  ~SlotLease() {
    tls_slot = nullptr;
    Runtime::Impl& m = *the_impl();
    if (slot == nullptr || m.in_child.load(std::memory_order_relaxed)) return;
    std::lock_guard guard(m.lock);
    if (slot->depth == 0) m.free_slots.push_back(slot);
  }
};

// Takes the lock again also where the interpreter's end unwinds the thread out of the hook.
class Unlocked {
 public:
  explicit Unlocked(RuntimeLock& lock) : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  RuntimeLock& lock_;
};

// What it waits for, as far as no other thread does. Not under the lock, and without Python's.
void read_meanwhile(IoPool& io, const ThreadSlot& waiting) {
  while (waiting.signal.load(std::memory_order_acquire) == 0) {
    if (!io.help(&waiting)) return;
  }
  io.give_up(&waiting);
}

}  // namespace

void Runtime::set_wait_hooks(WaitHooks hooks) noexcept { wait_hooks_ = hooks; }

ThreadSlot& Runtime::Impl::make_slot() {
  thread_local SlotLease lease;
  std::lock_guard guard(lock);
  if (free_slots.empty()) {
    auto made = std::make_unique<ThreadSlot>();
    made->id = static_cast<ThreadId>(threads.size());
    made->sites.reserve(64);
    free_slots.push_back(made.get());
    threads.push_back(std::move(made));
  }
  tls_slot = lease.slot = free_slots.back();
  free_slots.pop_back();
  return *tls_slot;
}

std::string Runtime::Impl::op_name(SiteId site, const char* otherwise) const {
  const auto name = names.find(site);
  return name == names.end() ? otherwise : name->second;
}

// All but those of running ops and of what a report names.
void Runtime::Impl::forget_names() {
  const SiteId needed = engine->stats().need_site;
  std::erase_if(names, [&](const auto& name) {
    const SiteId site = name.first;
    return site != needed && !untracked.names(site) && std::ranges::none_of(threads, [site](const auto& slot) {
      return std::ranges::find(slot->sites, site) != slot->sites.end();
    });
  });
}

Error Runtime::Impl::budget_error(Bytes needed, const char* doing, SiteId site) {
  ++refused_ops;
  if (site == 0 && needed >= engine->stats().need_peak) refused_birth = doing;
  const Bytes kept = pinned();
  const std::string needs = " needs " + mib(needed) + " of tensors in memory at once (operands, results and workspace), ";
  const std::string of_which = kept > 0 ? ", of which " + mib(kept) + " are pinned." : ".";
  if (options.process_budget > 0) {
    const Bytes fits = std::max<Bytes>(untracked.tensors_in(options.process_budget), 0);
    const std::string held = options.budget > fits + kMiB
                                 ? " (they keep " + mib(options.budget) + ", for the largest of them)" : "";
    return Error{ErrorCode::kOutOfBudget,
                 needs + "the budget of " + mib(options.process_budget) + " for the whole process leaves " +
                     mib(std::min(fits, options.budget)) + held + " beside " + mib(untracked.outside()) +
                     " that are no tensors, " + mib(untracked.coming()) + " for scratch and " +
                     mib(UntrackedLedger::margin(options.process_budget)) + " kept free" + of_which,
                 doing,
                 "Give a --budget-rss of at least " + std::to_string(untracked.whole_for(needed + kept) / kMiB) +
                     "MiB (other ops may need more), or make tensors smaller, for instance the batch.",
                 op_name(site, doing)};
  }
  return Error{ErrorCode::kOutOfBudget, needs + "the budget is " + mib(options.budget) + of_which, doing,
               "Give a budget of at least " + std::to_string(round_up(needed + kept, kMiB) / kMiB) +
               "MiB (other ops may need more), or make tensors smaller, for instance the batch.",
               op_name(site, doing)};
}

void Runtime::rename_refused(const std::string& who, const std::string& name) {
  Impl& m = *the_impl();
  std::lock_guard guard(m.lock);
  if (m.refused_birth == who) m.refused_birth = name;
}

Error Runtime::Impl::refusal_error(const ThreadSlot& waiting, const char* doing) {
  const SiteId site = waiting.sites.empty() ? 0 : waiting.sites.back();
  if (waiting.refusal == Refusal::kIo) return told_in_op(waiting.error, doing, site);
  return budget_error(waiting.needed, doing, site);
}

Error Runtime::Impl::told_in_op(Error error, const char* doing, SiteId site) {
  ++refused_ops;
  if (error.code == ErrorCode::kOutOfSpace) min_spill_file = std::max(min_spill_file, error.needs);
  error.who = op_name(site, doing);
  error.what = ": " + error.what;
  return error;
}

// Called with the lock held, after an input answered kWait; returns with it held.
Status Runtime::Impl::wait(ThreadSlot& waiting, trace::WaitCause cause, const char* doing, Nanos since) {
  if (waiting.signal.load(std::memory_order_relaxed) == 0) {
    if (timeline != nullptr) tell_wait(waiting, cause, since);
    const std::shared_ptr<IoPool> pool_of_threads = io;  // the session may end meanwhile
    const Unlocked unlocked(lock);
    void* const left = wait_hooks_.leave != nullptr ? wait_hooks_.leave() : nullptr;
    if (pool_of_threads) read_meanwhile(*pool_of_threads, waiting);
    waiting.signal.wait(0, std::memory_order_acquire);
    if (wait_hooks_.back != nullptr) wait_hooks_.back(left);
  } else if (io) {
    io->give_up(&waiting);
  }
  const Nanos now = monotonic_now();
  stall += now - since;
  waiting.mark = now;
  if (recorder != nullptr) recorder->wait(now, waiting.id, cause, now - since);
  if (waiting.refused) return refusal_error(waiting, doing);
  return {};
}

}  // namespace outsize::host
