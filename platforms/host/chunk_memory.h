// Private memory of one's own that begins where a chunk does, so that the system can make huge pages of it. No pages at first.
#pragma once

#include "core/base/types.h"

namespace outsize::host {

class ChunkMemory {
 public:
  ChunkMemory() = default;  // none
  explicit ChunkMemory(Bytes bytes);
  ~ChunkMemory();
  ChunkMemory(ChunkMemory&& other) noexcept { *this = static_cast<ChunkMemory&&>(other); }
  ChunkMemory& operator=(ChunkMemory&& other) noexcept;
  char* address() const { return address_; }  // null where there is none, and then
  int error() const { return error_; }        // errno

 private:
  void* mapping_ = nullptr;
  Bytes mapped_ = 0;
  char* address_ = nullptr;
  int error_ = 0;
};

}  // namespace outsize::host
