// The one clock of this platform: CLOCK_MONOTONIC, in nanoseconds. Any thread.
#pragma once

#include <ctime>

#include "core/base/types.h"

namespace outsize::host {

inline Nanos monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Nanos>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace outsize::host
