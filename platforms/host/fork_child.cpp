#include "platforms/host/fork_child.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <vector>

#include "platforms/host/signal_faults.h"

namespace outsize::host {
namespace {

// Set once in the child while it has a single thread; read by its signal handlers.
struct Child {
  const AreaTable* areas = nullptr;
  std::vector<PageMover::Range> closed;  // sorted
  PageMover::ChildFault fault = nullptr;
};
std::atomic<Child*> child{nullptr};
std::atomic_flag filling = ATOMIC_FLAG_INIT;

bool in_closed(const Child& state, Address address) noexcept {
  std::size_t low = 0;
  std::size_t high = state.closed.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const Address begin = address_of(state.closed[middle].address);
    if (address < begin) high = middle;
    else if (address >= begin + static_cast<Address>(state.closed[middle].bytes)) low = middle + 1;
    else return true;
  }
  return false;
}

}  // namespace

void enter_fork_child(const AreaTable& areas, const PageMover::Range* closed, std::size_t count,
                      PageMover::ChildFault fault) {
  if (child.load() != nullptr) return;
  auto* state = new Child;  // lives as long as the child
  state->areas = &areas;
  state->fault = fault;
  state->closed.assign(closed, closed + count);
  std::sort(state->closed.begin(), state->closed.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  child.store(state);
  const bool installed = install_fault_signal_handler().ok();
  for (const PageMover::Range& range : state->closed) {
    // If it cannot be closed it would read as zeros: better no child than wrong bytes.
    if (!installed || mprotect(range.address, static_cast<std::size_t>(range.bytes), PROT_NONE) != 0) {
      static const char text[] =
          "outsize: a forked child cannot protect spilled memory, so it stops here rather than read "
          "zeros.\n";
      (void)!write(2, text, sizeof text - 1);
      _exit(134);
    }
  }
}

bool readable(Address address) noexcept {
  // The kernel copies the mask from our memory before it looks at the (invalid) first argument:
  // EFAULT says that it could not. Changes nothing, needs no descriptor.
  address &= ~Address{7};
  return syscall(SYS_rt_sigprocmask, ~0U, address, nullptr, 8) == 0 || errno != EFAULT;
}

ChildAnswer serve_fork_child(Address address, bool write) noexcept {
  Child* state = child.load();
  if (state == nullptr) return ChildAnswer::kNotAChild;
  if (!state->areas->contains(address)) return ChildAnswer::kNotOurs;
  while (filling.test_and_set()) sched_yield();
  bool retry = readable(address);  // somebody filled it while we waited
  if (retry && write) {
    // Right after a fill the page is writable and this changes nothing; a page that was guarded
    // in the parent becomes plain memory here.
    retry = mprotect(pointer_to(address & ~static_cast<Address>(kPageBytes - 1)), kPageBytes,
                     PROT_READ | PROT_WRITE) == 0;
  } else if (!retry && in_closed(*state, address)) {
    retry = state->fault(pointer_to(address & ~static_cast<Address>(kPageBytes - 1)));
  }
  filling.clear();
  return retry ? ChildAnswer::kRetry : ChildAnswer::kNotOurs;
}

namespace {

bool read_run(char* to, int fd, const FileRun& run) noexcept {
  Bytes done = 0;
  while (done < run.bytes) {
    const ssize_t got = pread(fd, to + done, static_cast<std::size_t>(run.bytes - done), run.offset + done);
    if (got > 0) done += got;
    else if (got == 0 || (errno != EINTR && errno != EAGAIN)) return false;
  }
  return true;
}

}  // namespace

bool child_fill(void* address, int fd, std::span<const FileRun> runs) noexcept {
  std::size_t size = 0;
  for (const FileRun& run : runs) size += static_cast<std::size_t>(run.bytes);
  void* fresh = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return false;
  auto* to = static_cast<char*>(fresh);
  bool read = true;
  for (const FileRun& run : runs) {
    read = read && read_run(to, fd, run);
    to += run.bytes;
  }
  if (read &&
      mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, address) != MAP_FAILED) {
    return true;
  }
  munmap(fresh, size);
  return false;
}

}  // namespace outsize::host
