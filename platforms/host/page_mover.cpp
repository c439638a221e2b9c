#include "platforms/host/page_mover.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platforms/host/machine_error.h"
#include "platforms/host/page_mover_internal.h"
#include "platforms/host/runtime.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace outsize::host {

void touch_pages(void* address, Bytes bytes) {
  auto* const byte = static_cast<char*>(address);
  for (Bytes at = 0; at < bytes; at += kPageBytes) (void)__atomic_fetch_or(byte + at, 0, __ATOMIC_RELAXED);
}

int populate_pages(void* address, Bytes bytes) {
  // Before Linux 5.14 there is no such advice. (For a page that may not be written EINVAL also comes.)
  static const bool known = madvise(nullptr, 0, MADV_POPULATE_WRITE) == 0;
  if (!known) {
    touch_pages(address, bytes);
    return 0;
  }
  while (madvise(address, static_cast<std::size_t>(bytes), MADV_POPULATE_WRITE) != 0) {
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  return 0;
}

std::string range_text(const void* address, Bytes bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%p+%lld", address, static_cast<long long>(bytes));
  return text;
}

Error misaligned(const char* operation, const void* address, Bytes bytes) {
  return Error{ErrorCode::kInvalidArgument,
               std::string(operation) + " was asked for a range that is not made of whole pages.",
               range_text(address, bytes), "This is a defect of outsize: please report it."};
}

Result<std::unique_ptr<PageMover>> make_page_mover(FaultMechanism wanted, void* arena, Bytes bytes,
                                                   PageMover::FaultHandler handler) {
  if (!page_aligned(arena, bytes)) return misaligned("make_page_mover", arena, bytes);
  // For tests: what older kernels have, on any kernel.
  const char* forced = std::getenv("OUTSIZE_MOVER");
  const bool force_copy = forced != nullptr && std::strcmp(forced, "copy") == 0;
  if (wanted == FaultMechanism::kSignal) return make_signal_mover(arena, bytes, force_copy, std::move(handler));
  auto mover = make_uffd_mover(arena, bytes, force_copy, handler);
  if (mover.ok() || wanted == FaultMechanism::kUserfaultfd) return mover;
  auto fallback = make_signal_mover(arena, bytes, force_copy, std::move(handler));
  if (fallback.ok()) return fallback;
  Error error = fallback.error();
  error.what = mover.error().what + " " + error.what;
  return error;
}

}  // namespace outsize::host
