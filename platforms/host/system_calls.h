// System calls on managed memory where the kernel's own page faults cannot be answered (the signal
// path, and userfaultfd for user-mode faults only): read, send and their like fail with EFAULT, or stop
// half-way, when the bytes they are given are spilled or guarded. gloo's sockets, NumPy's files and
// Python's own do this. So the functions of libc that move bytes are replaced, in every loaded module
// but our own, by ones that touch the memory where the kernel could not, and ask again.
//
// How: each module calls libc through slots that the dynamic linker fills (its global offset table);
// the slots of those functions are filled anew. Static calls inside libc stay as they are, which is
// why fread and fwrite are covered beside read and write. Nothing is undone: where no managed memory
// is concerned the replacements only pass on.
//
// Left, with the error that the kernel gives: receiving a message (a datagram, a packet), whose bytes
// are gone once it failed; sendfile, splice, recvmmsg, sendmmsg, process_vm_readv, io_submit; system
// calls past libc, functions found by dlsym or kept in tables; statically linked programs; modules
// without sealed slots (PT_GNU_RELRO), of which nobody can say when the linker is done with them.
// Threads that block SIGSEGV are killed where they touch spilled memory, here as elsewhere.
#pragma once

#include <atomic>

#include "platforms/host/page_mover_ranges.h"

namespace outsize::host {

// For its lifetime, touches of `areas` are worth trying. At most four at a time; more are not covered.
class CoveredAreas {
 public:
  explicit CoveredAreas(const AreaTable& areas);
  ~CoveredAreas();
  CoveredAreas(const CoveredAreas&) = delete;
  CoveredAreas& operator=(const CoveredAreas&) = delete;

 private:
  std::atomic<const AreaTable*>* mine_ = nullptr;
};

// Replaces the functions in all modules that are loaded and relocated by now; quick where none was
// loaded since the last time. Any thread, but without a lock that a library's constructor could wait
// for. Modules that the linker loads later are covered by a later call.
void cover_system_calls();

}  // namespace outsize::host
