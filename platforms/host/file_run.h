// A stretch of a file. A transfer may take several: see IoRequest and Slot.
#pragma once

#include <cstdint>

#include "core/base/types.h"

namespace outsize::host {

struct FileRun {
  std::int64_t offset = -1;  // multiple of kPageBytes
  Bytes bytes = 0;           // multiple of kPageBytes
  bool operator==(const FileRun&) const = default;
};

}  // namespace outsize::host
