#include "platforms/host/system_calls.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>

#include "core/base/types.h"
#include "platforms/host/module_slots.h"

namespace outsize::host {
namespace {

// --- what is managed ------------------------------------------------------------------------------

struct Covered {
  std::atomic<const AreaTable*> areas{nullptr};
  std::atomic<int> inside{0};  // threads between reading `areas` and their last use of it
};
std::array<Covered, 4> covered;

bool managed(Address address) noexcept {
  for (Covered& entry : covered) {
    entry.inside.fetch_add(1);
    const AreaTable* areas = entry.areas.load();
    const bool found = areas != nullptr && areas->contains(address);
    entry.inside.fetch_sub(1);
    if (found) return true;
  }
  return false;
}

// More than this is not touched for one call: it may do less than it is asked for, and a buffer may be
// larger than the budget.
constexpr std::size_t kTouched = 1 << 20;
// Somebody else may need the room just touched; but who asks that often will never be served.
constexpr int kPatience = 100'000;

// Makes the first pages of a buffer present, and writable where the kernel will write. False where
// none of it is managed. Backwards: what the kernel needs first comes last, so it is not pushed out.
bool touch(const void* buffer, std::size_t bytes, bool write) noexcept {
  const Address begin = address_of(buffer);
  const Address end = begin + std::min(bytes, kTouched);
  constexpr Address kPage = static_cast<Address>(kPageBytes);
  bool any = false;
  for (Address at = end; at > begin;) {
    at = std::max(begin, (at - 1) / kPage * kPage);
    if (!managed(at)) continue;
    any = true;
    auto* byte = static_cast<unsigned char*>(pointer_to(at));
    if (write) __atomic_fetch_or(byte, 0, __ATOMIC_RELAXED);
    else (void)__atomic_load_n(byte, __ATOMIC_RELAXED);
  }
  return any;
}

using Rest = std::array<iovec, 16>;

// What is left of the buffers of a call after `done` bytes, as far as it fits: its number of parts.
int left_of(const iovec* parts, int count, std::size_t done, Rest& rest) noexcept {
  std::size_t filled = 0;
  for (int i = 0; i < count && filled < rest.size(); ++i) {
    const std::size_t skipped = std::min(done, parts[i].iov_len);
    done -= skipped;
    if (skipped == parts[i].iov_len) continue;
    rest[filled++] = {static_cast<char*>(parts[i].iov_base) + skipped, parts[i].iov_len - skipped};
  }
  return static_cast<int>(filled);
}

bool touch(const Rest& rest, int count, bool write) noexcept {
  bool any = false;
  for (std::size_t i = std::min<std::size_t>(static_cast<std::size_t>(count), 4); i-- > 0;) {
    any |= touch(rest[i].iov_base, rest[i].iov_len, write);
  }
  return any;
}

enum class Way : std::uint8_t { kRead, kWrite };

// A message that could not be delivered is gone: another try would take the next one, or wait for it.
bool is_message_socket(int fd) noexcept {
  int type = 0;
  socklen_t length = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type != SOCK_STREAM;
}

// Whether what is left of a call that did a part would have been done at once: all of a write, and of a
// read of a file.
bool goes_on(int fd, Way way) noexcept {
  if (way == Way::kWrite) return true;
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

// `call(parts, count, done)` moves the bytes of these buffers, `done` bytes after the first one's begin.
template <class Call>
ssize_t with_parts(int fd, Way way, const iovec* parts, int count, const Call& call) {
  ssize_t got = call(parts, count, 0);
  std::size_t done = 0;
  const auto result = [&] { return done > 0 ? static_cast<ssize_t>(done) : got; };
  for (int tries = 0;;) {
    if (got == 0 || (got < 0 && errno != EFAULT)) return result();
    if (got > 0) {
      tries = 0;
      done += static_cast<std::size_t>(got);
    }
    Rest rest;
    const int left = left_of(parts, count, done, rest);
    const bool reads = way == Way::kRead;
    const bool again = got > 0 ? left > 0 && managed(address_of(rest[0].iov_base)) && goes_on(fd, way)
                               : !(reads && is_message_socket(fd)) && ++tries <= kPatience && touch(rest, left, reads);
    if (!again) {
      if (got < 0) errno = EFAULT;
      return result();
    }
    if (tries > 8) sched_yield();
    got = call(rest.data(), left, done);
  }
}

template <class Call>
ssize_t with_bytes(int fd, Way way, const void* buffer, std::size_t bytes, const Call& call) {
  const iovec whole{const_cast<void*>(buffer), bytes};
  return with_parts(fd, way, &whole, 1, [&](const iovec* part, int, std::size_t done) {
    return call(part->iov_base, part->iov_len, done);
  });
}

// --- the replacements -----------------------------------------------------------------------------

ssize_t our_read(int fd, void* to, std::size_t bytes) {
  return with_bytes(fd, Way::kRead, to, bytes,
                    [&](void* at, std::size_t left, std::size_t) { return ::read(fd, at, left); });
}
ssize_t our_write(int fd, const void* from, std::size_t bytes) {
  return with_bytes(fd, Way::kWrite, from, bytes,
                    [&](void* at, std::size_t left, std::size_t) { return ::write(fd, at, left); });
}
ssize_t our_pread(int fd, void* to, std::size_t bytes, off_t offset) {
  return with_bytes(fd, Way::kRead, to, bytes,
                    [&](void* at, std::size_t left, std::size_t done) {
                      return ::pread(fd, at, left, offset + static_cast<off_t>(done));
                    });
}
ssize_t our_pwrite(int fd, const void* from, std::size_t bytes, off_t offset) {
  return with_bytes(fd, Way::kWrite, from, bytes,
                    [&](void* at, std::size_t left, std::size_t done) {
                      return ::pwrite(fd, at, left, offset + static_cast<off_t>(done));
                    });
}
ssize_t our_recv(int fd, void* to, std::size_t bytes, int flags) {
  return with_bytes(fd, Way::kRead, to, bytes,
                    [&](void* at, std::size_t left, std::size_t) { return ::recv(fd, at, left, flags); });
}
ssize_t our_send(int fd, const void* from, std::size_t bytes, int flags) {
  return with_bytes(fd, Way::kWrite, from, bytes,
                    [&](void* at, std::size_t left, std::size_t) { return ::send(fd, at, left, flags); });
}
ssize_t our_recvfrom(int fd, void* to, std::size_t bytes, int flags, sockaddr* peer, socklen_t* length) {
  return with_bytes(fd, Way::kRead, to, bytes,
                    [&](void* at, std::size_t left, std::size_t) {
                      return ::recvfrom(fd, at, left, flags, peer, length);
                    });
}
ssize_t our_sendto(int fd, const void* from, std::size_t bytes, int flags, const sockaddr* peer,
                   socklen_t length) {
  return with_bytes(fd, Way::kWrite, from, bytes,
                    [&](void* at, std::size_t left, std::size_t) {
                      return ::sendto(fd, at, left, flags, peer, length);
                    });
}

ssize_t our_readv(int fd, const iovec* to, int count) {
  return with_parts(fd, Way::kRead, to, count,
                    [&](const iovec* rest, int left, std::size_t) { return ::readv(fd, rest, left); });
}
ssize_t our_writev(int fd, const iovec* from, int count) {
  return with_parts(fd, Way::kWrite, from, count,
                    [&](const iovec* rest, int left, std::size_t) { return ::writev(fd, rest, left); });
}
ssize_t our_preadv(int fd, const iovec* to, int count, off_t offset) {
  return with_parts(fd, Way::kRead, to, count,
                    [&](const iovec* rest, int left, std::size_t done) {
                      return ::preadv(fd, rest, left, offset + static_cast<off_t>(done));
                    });
}
ssize_t our_pwritev(int fd, const iovec* from, int count, off_t offset) {
  return with_parts(fd, Way::kWrite, from, count,
                    [&](const iovec* rest, int left, std::size_t done) {
                      return ::pwritev(fd, rest, left, offset + static_cast<off_t>(done));
                    });
}
// An offset of -1 means the file's own position, which the kernel moves.
off_t further(off_t offset, std::size_t done) {
  return offset == -1 ? offset : offset + static_cast<off_t>(done);
}
ssize_t our_preadv2(int fd, const iovec* to, int count, off_t offset, int flags) {
  return with_parts(fd, Way::kRead, to, count,
                    [&](const iovec* rest, int left, std::size_t done) {
                      return ::preadv2(fd, rest, left, further(offset, done), flags);
                    });
}
ssize_t our_pwritev2(int fd, const iovec* from, int count, off_t offset, int flags) {
  return with_parts(fd, Way::kWrite, from, count,
                    [&](const iovec* rest, int left, std::size_t done) {
                      return ::pwritev2(fd, rest, left, further(offset, done), flags);
                    });
}
// The kernel refuses more than 1024.
int count_of(const msghdr& message) {
  return static_cast<int>(std::min<std::size_t>(message.msg_iovlen, std::numeric_limits<int>::max()));
}

ssize_t our_recvmsg(int fd, msghdr* message, int flags) {
  const msghdr wanted = *message;
  return with_parts(fd, Way::kRead, wanted.msg_iov, count_of(wanted),
                    [&](const iovec* parts, int count, std::size_t) {
                      *message = wanted;
                      message->msg_iov = const_cast<iovec*>(parts);
                      message->msg_iovlen = static_cast<std::size_t>(count);
                      const ssize_t got = ::recvmsg(fd, message, flags);
                      message->msg_iov = wanted.msg_iov, message->msg_iovlen = wanted.msg_iovlen;
                      return got;
                    });
}
ssize_t our_sendmsg(int fd, const msghdr* message, int flags) {
  return with_parts(fd, Way::kWrite, message->msg_iov, count_of(*message),
                    [&](const iovec* parts, int count, std::size_t done) {
                      msghdr part = *message;
                      part.msg_iov = const_cast<iovec*>(parts);
                      part.msg_iovlen = static_cast<std::size_t>(count);
                      if (done > 0) part.msg_control = nullptr, part.msg_controllen = 0;  // went with the first
                      return ::sendmsg(fd, &part, flags);
                    });
}

// libc's own calls are inside it: where one failed for want of bytes, piece by piece from there on.
// `call(at, bytes)` on a locked file. Who had an error before is told of it as ever.
template <class Call>
std::size_t with_file(char* buffer, std::size_t size, std::size_t count, FILE* file, bool write,
                      const Call& call) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(size, count, &bytes) || bytes == 0) return 0;
  flockfile(file);
  const bool failed_before = ferror_unlocked(file) != 0;
  const int before = errno;
  errno = 0;
  std::size_t done = call(buffer, bytes);
  for (int tries = 0; done < bytes && !failed_before && ferror_unlocked(file) != 0 && errno == EFAULT;) {
    if (++tries > kPatience) break;
    const std::size_t piece = std::min(bytes - done, kTouched);
    if (!touch(buffer + done, piece, write)) break;
    clearerr_unlocked(file);
    errno = 0;
    const std::size_t got = call(buffer + done, piece);
    if (got > 0) done += got, tries = 0;
    // Short without an error: the end of the file.
    if (got < piece && ferror_unlocked(file) == 0) break;
    if (got == piece && done < bytes) {
      const std::size_t more = call(buffer + done, bytes - done);
      done += more;
    }
  }
  if (errno == 0) errno = before;
  funlockfile(file);
  return done / size;
}

std::size_t our_fread(void* to, std::size_t size, std::size_t count, FILE* file) {
  return with_file(static_cast<char*>(to), size, count, file, true, [&](char* at, std::size_t bytes) {
    return std::fread(at, 1, bytes, file);
  });
}
std::size_t our_fwrite(const void* from, std::size_t size, std::size_t count, FILE* file) {
  auto* buffer = const_cast<char*>(static_cast<const char*>(from));  // only read
  return with_file(buffer, size, count, file, false, [&](char* at, std::size_t bytes) {
    return std::fwrite(at, 1, bytes, file);
  });
}

template <class Function>
void* slot_value(Function* function) { return reinterpret_cast<void*>(function); }

const Replacement kReplacements[] = {
    {"read", slot_value(our_read)},           {"write", slot_value(our_write)},
    {"pread", slot_value(our_pread)},         {"pread64", slot_value(our_pread)},
    {"pwrite", slot_value(our_pwrite)},       {"pwrite64", slot_value(our_pwrite)},
    {"readv", slot_value(our_readv)},         {"writev", slot_value(our_writev)},
    {"preadv", slot_value(our_preadv)},       {"preadv64", slot_value(our_preadv)},
    {"pwritev", slot_value(our_pwritev)},     {"pwritev64", slot_value(our_pwritev)},
    {"preadv2", slot_value(our_preadv2)},     {"preadv64v2", slot_value(our_preadv2)},
    {"pwritev2", slot_value(our_pwritev2)},   {"pwritev64v2", slot_value(our_pwritev2)},
    {"recv", slot_value(our_recv)},           {"send", slot_value(our_send)},
    {"recvfrom", slot_value(our_recvfrom)},   {"sendto", slot_value(our_sendto)},
    {"recvmsg", slot_value(our_recvmsg)},     {"sendmsg", slot_value(our_sendmsg)},
    {"fread", slot_value(our_fread)},         {"fwrite", slot_value(our_fwrite)},
};
static_assert(sizeof(off_t) == 8);  // pread and pread64 are one function

}  // namespace

CoveredAreas::CoveredAreas(const AreaTable& areas) {
  for (Covered& entry : covered) {
    const AreaTable* expected = nullptr;
    if (entry.areas.compare_exchange_strong(expected, &areas)) {
      mine_ = &entry.areas;
      return;
    }
  }
}

CoveredAreas::~CoveredAreas() {
  for (Covered& entry : covered) {
    if (&entry.areas != mine_) continue;
    entry.areas.store(nullptr);
    while (entry.inside.load() != 0) sched_yield();
  }
}

void cover_system_calls() { replace_in_modules(kReplacements, slot_value(our_read)); }

}  // namespace outsize::host
