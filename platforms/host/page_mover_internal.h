// What the two mechanisms share. Only page_mover.cpp and the mechanisms include this.
#pragma once

#include <memory>

#include "platforms/host/page_mover.h"
#include "platforms/host/page_mover_ranges.h"

namespace outsize::host {

// `force_copy`: do without UFFDIO_MOVE (Linux 6.8) or MREMAP_DONTUNMAP (Linux 5.7) though they are there.
Result<std::unique_ptr<PageMover>> make_uffd_mover(void* arena, Bytes bytes, bool force_copy,
                                                   PageMover::FaultHandler handler);
Result<std::unique_ptr<PageMover>> make_signal_mover(void* arena, Bytes bytes, bool force_copy,
                                                       PageMover::FaultHandler handler);

// Faults in private, writable pages, whose bytes stay as they are; before Linux 5.14 by touching them.
// Returns 0 or an errno. Only for memory that reports no faults.
int populate_pages(void* address, Bytes bytes);

// What it does there: an atomic write to each page that changes nothing.
void touch_pages(void* address, Bytes bytes);

// Whether address and bytes are page multiples and bytes is positive.
inline bool page_aligned(const void* address, Bytes bytes) {
  return bytes > 0 && bytes % kPageBytes == 0 && address_of(address) % kPageBytes == 0;
}
Error misaligned(const char* operation, const void* address, Bytes bytes);

// "0x7f12…+2097152"
std::string range_text(const void* address, Bytes bytes);

}  // namespace outsize::host
