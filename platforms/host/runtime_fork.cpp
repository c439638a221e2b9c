// Fork. Before: transfers have ended, the service thread stands still, the pool is given back, the
// lock is held. In the child there are no threads of ours and no userfaultfd: interception is off,
// memory comes from malloc, and a touch of spilled bytes reads them from the inherited spill file.
#include <pthread.h>

#include "platforms/host/fork_child.h"
#include "platforms/host/module_slots.h"
#include "platforms/host/runtime_impl.h"

namespace outsize::host {
namespace {

// Runs in the child inside a signal handler: reads tables that no other thread changes any more.
bool fill_in_child(void* address) {
  Runtime::Impl& m = *the_impl();
  const ExtentId id = m.extent_at(address);
  if (id == kNoExtent) return false;
  const HostExtent& e = m.extents[id];
  const bool source = e.copy_is_source();
  if (!source && (!e.slot.valid() || !m.spill)) return false;
  const FileRun one{source ? e.source_offset : e.slot.offset, e.range.bytes};
  const std::span<const FileRun> pieces{e.slot.pieces};
  return child_fill(e.range.address, source ? e.source_fd : m.spill->fd(), pieces.empty() ? std::span{&one, 1} : pieces);
}

}  // namespace

void Runtime::Impl::before_fork() {
  if (in_child.load()) return;
  module_slots_before_fork();
  if (io) io->quiesce();
  lock.lock();
  // Pages shared with a child cannot be moved: those that nobody needs are not shared.
  pool->trim(0);
  mover->before_fork();  // its service thread may go on waiting for our lock meanwhile
  if (spill) spill->before_fork();
  if (log_file != nullptr) std::fflush(log_file);  // or the child's exit would write these lines as well
}

void Runtime::Impl::after_fork_parent() {
  if (in_child.load()) return;
  if (spill) spill->after_fork_parent();
  mover->after_fork_parent();
  lock.unlock();
  if (io) io->resume();
  module_slots_after_fork();
}

void Runtime::Impl::after_fork_child() {
  if (in_child.exchange(true)) return;
  module_slots_after_fork();
  std::vector<PageMover::Range> closed;
  for (ExtentId id = 0; id < extents.size(); ++id) {
    const HostExtent& e = extents[id];
    if (e.kind == HostExtent::Kind::kNone || e.range.address == nullptr) continue;
    const Where where = table[id].where;
    if (where == Where::kAbsent || where == Where::kFetching) {
      closed.push_back({e.range.address, e.range.bytes});
    }
  }
  mover->after_fork_child(closed.data(), closed.size(), fill_in_child);
  if (io) io->after_fork_child();
  if (spill) spill->after_fork_child();
  (void)recorder.release();  // its thread is missing here
  lock.reset();
}

}  // namespace outsize::host
