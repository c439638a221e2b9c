#include "platforms/host/uffd_open.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platforms/host/machine_error.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

namespace outsize::host {
namespace {

int raw_open(int flags) { return static_cast<int>(syscall(SYS_userfaultfd, flags)); }

// The device file grants what the system call refuses to ordinary users (Linux 6.1).
int device_open(int flags) {
  const int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (device < 0) return -1;
  const int fd = ioctl(device, USERFAULTFD_IOC_NEW, flags);
  const int error = errno;
  close(device);
  errno = error;
  return fd;
}

struct Opened {
  int fd = -1;
  bool kernel_faults = false;
  int error = 0;  // of the system call: the one worth telling
};

Opened open_any() {
  const int flags = O_CLOEXEC | O_NONBLOCK;
  int fd = raw_open(flags);
  const int error = errno;
  if (fd >= 0) return {fd, true, 0};
  fd = device_open(flags);
  if (fd >= 0) return {fd, true, 0};
  fd = raw_open(flags | UFFD_USER_MODE_ONLY);
  if (fd >= 0) return {fd, false, 0};
  return {-1, false, error};
}

int handshake(int fd, std::uint64_t& features) {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  if (ioctl(fd, UFFDIO_API, &api) != 0) return errno;
  features = api.features;
  return 0;
}

}  // namespace

Result<Uffd> open_uffd() {
  const Opened probe = open_any();
  if (probe.fd < 0) {
    return os_error(ErrorCode::kUnsupported, "userfaultfd", probe.error, {},
                    "The kernel or a seccomp filter forbids it; page protection is used instead.");
  }
  // Asking for an unknown feature fails for good on one descriptor, so ask what there is on one
  // and use another.
  std::uint64_t offered = 0;
  const int probe_error = handshake(probe.fd, offered);
  close(probe.fd);
  if (probe_error != 0) return os_error(ErrorCode::kUnsupported, "UFFDIO_API", probe_error);
  if ((offered & UFFD_FEATURE_PAGEFAULT_FLAG_WP) == 0) {
    return Error{ErrorCode::kUnsupported,
                 "userfaultfd of this kernel cannot write-protect pages (Linux 5.7 can).", {}, {}};
  }
  const Opened real = open_any();
  if (real.fd < 0) return os_error(ErrorCode::kUnsupported, "userfaultfd", real.error);
  Uffd uffd{real.fd, real.kernel_faults, (offered & kUffdFeatureMove) != 0};
  std::uint64_t wanted = UFFD_FEATURE_PAGEFAULT_FLAG_WP | (uffd.move ? kUffdFeatureMove : 0);
  if (const int error = handshake(uffd.fd, wanted); error != 0) {
    close(uffd.fd);
    return os_error(ErrorCode::kUnsupported, "UFFDIO_API", error);
  }
  return uffd;
}

}  // namespace outsize::host
