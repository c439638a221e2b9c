// The clocks of this platform, in nanoseconds. Any thread.
#pragma once

#include <ctime>

#include "core/base/types.h"

namespace outsize::host {

// The one by which things are timed.
inline Nanos monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Nanos>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// What this process has used of the processors, all threads together: stands while it is stopped. A system call.
inline Nanos processors_used() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<Nanos>(used.tv_sec) * 1'000'000'000 + used.tv_nsec;
}

// What the calling thread has used of them. A system call.
inline Nanos thread_used() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<Nanos>(used.tv_sec) * 1'000'000'000 + used.tv_nsec;
}

}  // namespace outsize::host
