// Opens userfaultfd the best way this process may, and names the parts of its interface that the
// distribution's headers may be too old for.
#pragma once

#include <cstdint>
#include <sys/ioctl.h>

#include "core/base/result.h"

namespace outsize::host {

struct Uffd {
  int fd = -1;                // close-on-exec, non-blocking, handshake done
  bool kernel_faults = false; // false: touches inside system calls fail with EFAULT instead
  bool move = false;          // UFFDIO_MOVE (Linux 6.8)
};

// Needs write protection of anonymous memory (Linux 5.7); MOVE is taken when it is there.
Result<Uffd> open_uffd();

// Struct and numbers of UFFDIO_MOVE, from the kernel's user interface.
struct UffdMoveArgument {
  std::uint64_t destination, source, bytes, mode;
  std::int64_t moved;  // bytes moved, or a negated errno
};
inline constexpr std::uint64_t kUffdFeatureMove = 1ULL << 16;
inline constexpr std::uint64_t kUffdMoveDontWake = 1ULL << 0;
inline constexpr unsigned long kUffdIoctlMove = _IOWR(0xAA, 0x05, UffdMoveArgument);

}  // namespace outsize::host
