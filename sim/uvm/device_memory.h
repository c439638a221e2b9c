// What is where in unified memory: which blocks have memory on the device, which of their leaves are there, and in which
// order blocks were last migrated. No time passes here; the machine (machine.h) says when transfers have ended.
//
// A block has all of its 2 MiB on the device or nothing, as in NVIDIA's driver, and leaves as a whole.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/uvm/blocks.h"

namespace outsize::sim::uvm {

struct Block {
  Leaves device = 0, host = 0;  // valid bytes; a leaf is in one of them at most
  Leaves coming = 0;            // of `host`, under way to the device
  bool holds = false;           // memory on the device
  bool ahead = false;           // what comes was not waited for when it was asked for
  bool leaving = false;         // its leaves are on their way to the host; until then it holds
  std::uint64_t migrated = 0;   // which migration was its last
  std::uint64_t pinned = 0, expected = 0;  // when: the machine's and the foresight's to compare
  std::uint16_t alive[kLeaves] = {};       // pieces in use that lie in this leaf

  bool has(Leaves leaves) const { return holds && !leaving && (leaves & ~device) == 0; }
};

class DeviceMemory {
 public:
  explicit DeviceMemory(Bytes budget) : free_(budget / kBlockBytes), blocks_max_(free_) {}

  Block& operator[](BlockId id) {
    if (id >= blocks_.size()) blocks_.resize(id + 1);
    return blocks_[id];
  }
  // A piece of the allocator is handed out, or comes back.
  void use(Bytes begin, Bytes end);
  void unuse(Bytes begin, Bytes end);
  // Leaves of the block in which some piece is in use.
  Leaves live(BlockId id);

  // Gives it memory, of which there must be some.
  void hold(BlockId id);
  // Puts it at the end of the order: leaves of it came, or were made.
  void migrate(BlockId id);
  // It goes: out of the order, its memory is not free yet. The leaves that are to be written down.
  Leaves evict(BlockId id, bool drop_dead);
  // What was to be written down is on the host now.
  void left(BlockId id, Leaves written);

  // The longest ago migrated that `may` go; kNone if there is none.
  static constexpr BlockId kNone = 0xffffffffU;
  template <class May>
  BlockId victim(May may) const {
    for (const auto& [when, id] : order_) {
      if (may(blocks_[id])) return id;
    }
    return kNone;
  }

  std::int64_t free() const { return free_; }  // blocks
  std::int64_t most() const { return blocks_max_; }
  std::int64_t leaving() const { return leaving_; }
  Bytes held_bytes() const { return (blocks_max_ - free_) * kBlockBytes; }
  Bytes dropped() const { return dropped_; }

 private:
  std::int64_t free_, blocks_max_, leaving_ = 0;
  std::vector<Block> blocks_;
  std::map<std::uint64_t, BlockId> order_;  // by migration
  std::uint64_t migrations_ = 0;
  Bytes dropped_ = 0;
};

}  // namespace outsize::sim::uvm
