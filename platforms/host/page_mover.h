// Moves physical pages between fixed addresses, and tells us when somebody touches a page that is
// not there. Two mechanisms of equal rank: userfaultfd (MOVE, or COPY before Linux 6.8) and, where
// that is forbidden, page protection with SIGSEGV and mremap.
//
// A page range is in one of three states:
//   closed   no pages; any touch is reported to the FaultHandler and blocks until answered
//   open     pages present, read and write
//   guarded  pages present; a write is reported to the FaultHandler and blocks until answered
// Addresses and lengths are multiples of kPageBytes. Transitions are atomic as seen by other
// threads: nobody ever reads zeros or half-moved bytes; a raced touch is reported and retried.
//
// Threading: calls for one range are serialised by the caller (the runtime's lock). The handler runs
// on the mover's own service thread; the faulting thread is blocked until resume() is called for
// its address, so the handler may take locks and do I/O, and must not touch a closed range itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/result.h"
#include "core/base/types.h"

namespace outsize::host {

struct Fault {
  void* address = nullptr;  // page aligned
  bool write = false;
};

class PageMover {
 public:
  enum class Kind : std::uint8_t { kUserfaultfdMove, kUserfaultfdCopy, kSignal };
  // Called on the service thread for each report; must lead, now or later and on any thread, to
  // resume(address). Called again if the touch faults again.
  using FaultHandler = std::function<void(const Fault&)>;

  virtual ~PageMover() = default;
  virtual Kind kind() const = 0;
  virtual const char* name() const = 0;  // "userfaultfd+move" and so on
  // Whether the kernel's own touches of closed and guarded pages wait like the program's. Where not,
  // system calls on them fail with EFAULT: see system_calls.h.
  virtual bool serves_kernel() const = 0;

  // closed -> open, with fresh pages (zeros). Huge pages where the range allows it.
  virtual Status populate(void* address, Bytes bytes) = 0;
  // src open -> closed, dst closed -> open (or guarded): the pages, contents included, change
  // address. Blocked readers of dst wake. With `guarded`, no write to dst can slip in unnoticed
  // after this returns; on userfaultfd a write by a thread that had not faulted can slip in
  // *during* the call, unless it is guarded `at_once`, which costs a copy there: see Note [Exposed
  // extents] in runtime_commands.cpp.
  virtual Status move_in(void* src, void* dst, Bytes bytes, bool guarded, bool at_once = false) = 0;
  // src open or guarded -> closed, dst closed -> open: the pages leave; dst's contents are
  // unspecified afterwards. Where the pages cannot move (EBUSY after a fork) they are given back
  // and dst gets fresh ones.
  virtual Status move_out(void* src, void* dst, Bytes bytes) = 0;
  // open or guarded -> closed, pages given back to the system.
  virtual Status discard(void* address, Bytes bytes) = 0;
  // `address`, closed, has held small pages: what the system keeps of them is forgotten, so that huge
  // pages can come there whole; what pages it still has are gone. Needs Linux 6.14; without effect elsewhere.
  virtual void forget_small_pages(void* address, Bytes bytes) { (void)address, (void)bytes; }
  // Parts of this chunk will move by themselves: its contents are unspecified afterwards. Keeps pages that lie together
  // together, where the system would take some of them away. All of its pages are present and nobody's, none is guarded: they
  // are written, and a fault here might wait for the caller.
  virtual void before_split(void* chunk) { (void)chunk; }
  // From now on `forget_small_pages` is done for every chunk before pages move there that fill it, or it is done no more (as at first).
  virtual void keep_whole(bool on) { (void)on; }
  // open -> guarded; guarded -> open (wakes blocked writers).
  virtual Status guard(void* address, Bytes bytes) = 0;
  virtual Status unguard(void* address, Bytes bytes) = 0;
  // Lets threads blocked on this range try again.
  virtual void resume(void* address, Bytes bytes) = 0;

  // Brings a range outside the arena (private anonymous memory, fully present) under the same
  // rules, state open; detach gives it back, state open or closed (then it reads as zeros).
  virtual Status attach(void* address, Bytes bytes) = 0;
  virtual Status detach(void* address, Bytes bytes) = 0;

  // Fork protocol, called by the runtime's pthread_atfork handlers with its lock held. In the child
  // the service thread is gone: child_fault is called from the faulting thread, in a signal
  // handler (async-signal-safe code only), for touches of ranges that `closed_ranges` lists.
  struct Range { void* address; Bytes bytes; };
  using ChildFault = bool (*)(void* address);  // true: retry; false: not ours, die as without us
  virtual void before_fork() = 0;
  virtual void after_fork_parent() = 0;
  virtual void after_fork_child(const Range* closed_ranges, std::size_t count, ChildFault fault) = 0;
};

// `arena` is one private anonymous mapping, whole range closed on success. `wanted` kAuto tries
// userfaultfd first. Errors name the mechanism and the errno.
enum class FaultMechanism : std::uint8_t;
Result<std::unique_ptr<PageMover>> make_page_mover(FaultMechanism wanted, void* arena, Bytes bytes,
                                                   PageMover::FaultHandler handler);

}  // namespace outsize::host
