#include "sim/uvm/device_memory.h"

namespace outsize::sim::uvm {

void DeviceMemory::use(Bytes begin, Bytes end) {
  for (Bytes at = begin / kLeafBytes; at * kLeafBytes < end; ++at) {
    ++(*this)[block_of(at * kLeafBytes)].alive[at % kLeaves];
  }
}

void DeviceMemory::unuse(Bytes begin, Bytes end) {
  for (Bytes at = begin / kLeafBytes; at * kLeafBytes < end; ++at) {
    --(*this)[block_of(at * kLeafBytes)].alive[at % kLeaves];
  }
}

Leaves DeviceMemory::live(BlockId id) {
  Leaves live = 0;
  for (int leaf = 0; leaf < kLeaves; ++leaf) live |= Leaves{(*this)[id].alive[leaf] > 0} << leaf;
  return live;
}

void DeviceMemory::hold(BlockId id) {
  (*this)[id].holds = true;
  --free_;
}

void DeviceMemory::migrate(BlockId id) {
  Block& block = (*this)[id];
  order_.erase(block.migrated);
  block.migrated = ++migrations_;
  order_.emplace_hint(order_.end(), block.migrated, id);
}

Leaves DeviceMemory::evict(BlockId id, bool drop_dead) {
  Block& block = (*this)[id];
  order_.erase(block.migrated);
  block.leaving = true;
  ++leaving_;
  const Leaves written = drop_dead ? block.device & live(id) : block.device;
  dropped_ += bytes_of(block.device & ~written);
  block.device = 0;
  return written;
}

void DeviceMemory::left(BlockId id, Leaves written) {
  Block& block = (*this)[id];
  block.host |= written;
  block.holds = block.leaving = false;
  --leaving_;
  ++free_;
}

}  // namespace outsize::sim::uvm
