#include "platforms/host/chunk_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace outsize::host {

ChunkMemory::ChunkMemory(Bytes bytes) : mapped_(bytes + kChunkBytes) {
  void* const memory = mmap(nullptr, static_cast<std::size_t>(mapped_), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    error_ = errno;
    return;
  }
  mapping_ = memory;
  address_ = reinterpret_cast<char*>(round_up(reinterpret_cast<Bytes>(memory), kChunkBytes));
}

ChunkMemory::~ChunkMemory() {
  if (mapping_ != nullptr) munmap(mapping_, static_cast<std::size_t>(mapped_));
}

ChunkMemory& ChunkMemory::operator=(ChunkMemory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(address_, other.address_);
  std::swap(error_, other.error_);
  return *this;
}

}  // namespace outsize::host
