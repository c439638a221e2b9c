// Page faults in a forked child, where the service thread and userfaultfd's registration are gone.
//
// Ranges that were closed in the parent are made inaccessible, so that a touch raises SIGSEGV, and
// the handler asks the runtime's ChildFault, one thread at a time, to fill them from the inherited
// spill file. A child may also just exec: all this costs it one mprotect per closed range.
//
// Everything but enter_fork_child is async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/types.h"
#include "platforms/host/file_run.h"
#include "platforms/host/page_mover.h"
#include "platforms/host/page_mover_ranges.h"

namespace outsize::host {

// Called once, in the child, by the mover. Closes `closed` and installs the SIGSEGV handler.
// Writes to an address of `areas` that lies in no closed range make its page writable again.
// In a child of a child it does nothing: the first call's work was inherited.
void enter_fork_child(const AreaTable& areas, const PageMover::Range* closed, std::size_t count,
                      PageMover::ChildFault fault);

enum class ChildAnswer : std::uint8_t { kNotAChild, kRetry, kNotOurs };
ChildAnswer serve_fork_child(Address address, bool write) noexcept;

// For ChildFault: puts the bytes of `runs`, read from `fd`, under `address`, readable and writable,
// all at once as other threads see it. False where memory or the read fails; the range then stays
// inaccessible. Address and runs are multiples of kPageBytes; fd may be O_DIRECT.
bool child_fill(void* address, int fd, std::span<const FileRun> runs) noexcept;

// Whether a byte can be read without a fault.
bool readable(Address address) noexcept;

}  // namespace outsize::host
