// The clocks of this platform, in nanoseconds. Any thread.
#pragma once

#include <ctime>

#include "core/base/types.h"

namespace outsize::host {

inline Nanos time_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<Nanos>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// The one by which things are timed.
inline Nanos monotonic_now() { return time_of(CLOCK_MONOTONIC); }

// What this process has used of the processors, all threads together: stands while it is stopped. A system call.
inline Nanos processors_used() { return time_of(CLOCK_PROCESS_CPUTIME_ID); }

// What the calling thread has used of them. A system call.
inline Nanos thread_used() { return time_of(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace outsize::host
