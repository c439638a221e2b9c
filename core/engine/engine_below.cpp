// The next tier is full: the spill limit is reached, or somebody else filled the disk. Copies of what
// is in RAM as well are then given up for what has to leave.
//
// Only those of pinned extents: one that is free to leave had better leave itself, and to give up the
// copy of one that is needed soon for one that is written ahead would go on to and fro.
//
// What found no room is not tried again before something changes: a transfer ends, a copy goes, an
// extent dies, a step ends, or somebody else begins to wait.
#include <utility>

#include "core/engine/engine.h"

namespace outsize {

void Engine::no_slot(ExtentId id) {
  Extent& e = table_[id];
  writing_ -= e.bytes;
  if (e.dying) {
    write_dead(id);
    return;
  }
  e.below = Below::kNone;
  e.torn = e.guarded = false;  // the driver found no slot before it guarded anything
  const bool pressed = !queue_.empty() || !fault_queue_.empty() || shrinking_;
  // Copies that went after the write was asked for may have made the room that it did not find.
  const bool freed = std::exchange(freed_below_, false);
  if (give_up_copies(e.bytes) == 0 && !freed) full_for_ = e.bytes;  // smaller ones are tried still
  if (pressed) service();
}

// Gives up copies worth `wanted` bytes, or all there are if that is less; returns their bytes.
Bytes Engine::give_up_copies(Bytes wanted) {
  Bytes given = 0;
  const ExtentId size = table_.size(), from = copies_from_;
  for (ExtentId i = 0; i < size && given < wanted; ++i) {
    const ExtentId id = (from + i) % size;
    const Extent& e = table_[id];
    if (e.where != Where::kResident || e.pins == 0 || !clean(e) || e.of_file || e.dying) continue;
    given += e.bytes;
    mark_changed(id);
    copies_from_ = id + 1;
  }
  return given;
}

}  // namespace outsize
