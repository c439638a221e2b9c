// The modelled bytes: one number per extent on each tier, moved by commands as pages would be, and
// torn where a transfer and a write overlap. Beside them the number that plain PyTorch would have
// there; whenever they differ an op sees wrong bytes (invariant 4).
#pragma once

#include <string>
#include <vector>

#include "core/engine/input.h"

namespace outsize::sim {

class SimMemory {
 public:
  struct Cell {
    bool live = false, resident = false, guarded = false, writing = false;
    std::uint64_t ram = 0, below = 0, truth = 0;
    std::uint64_t snapshot = 0;  // RAM when the write began
    std::uint64_t changes = 0, changes_at_write = 0;
  };

  Cell& cell(ExtentId id) {
    if (id >= cells_.size()) cells_.resize(id + 1);
    return cells_[id];
  }
  void born(ExtentId id, bool absent) {
    Cell& c = cell(id);
    c = Cell{};
    c.live = true;
    c.resident = !absent;
    c.truth = c.ram = c.below = mix(++counter_);
    if (absent) c.ram = kPoison;
  }
  // Whether an access goes through without a fault.
  bool reachable(ExtentId id, bool write) { return cell(id).resident && !(write && cell(id).guarded); }
  void change(ExtentId id) {
    Cell& c = cell(id);
    c.ram = c.truth = mix(++counter_);
    ++c.changes;
  }
  // Null, or what is wrong with the bytes as an op would read them.
  const char* wrong(ExtentId id) {
    const Cell& c = cell(id);
    if (!c.resident) return "its bytes are not in RAM";
    if (c.ram != c.truth) return "its bytes are not what was last written";
    return nullptr;
  }

  void write_begins(ExtentId id) {
    Cell& c = cell(id);
    c.writing = c.guarded = true;
    c.snapshot = c.ram;
    c.changes_at_write = c.changes;
  }
  void write_ends(ExtentId id, bool failed) {
    Cell& c = cell(id);
    c.writing = false;
    const bool torn = failed || c.changes != c.changes_at_write;
    c.below = torn ? mix(++counter_) : c.snapshot;
  }
  void installed(ExtentId id, bool guarded) {
    Cell& c = cell(id);
    c.resident = true;
    c.guarded = guarded;
    c.ram = c.below;
  }
  void evicted(ExtentId id) {
    Cell& c = cell(id);
    c.resident = c.guarded = false;
    c.ram = kPoison;
  }
  void unguarded(ExtentId id) { cell(id).guarded = false; }
  void forgotten(ExtentId id) { cell(id).below = kPoison; }
  void released(ExtentId id) { cell(id) = Cell{}; }

 private:
  static constexpr std::uint64_t kPoison = 0xdeaddeaddeaddeadULL;
  static std::uint64_t mix(std::uint64_t value) { return value * 0x9e3779b97f4a7c15ULL | 1U; }

  std::vector<Cell> cells_;
  std::uint64_t counter_ = 0;
};

}  // namespace outsize::sim
