// The next tier is full: the spill limit is reached, or somebody else filled the disk. Copies of what
// is in RAM as well are then given up for what has to leave.
//
// For a victim that somebody waits for, only the copies of pinned extents: one that is free to leave
// had better leave itself. What is written ahead may also cost the copies of what is needed soon.
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
  below_full_ = give_up_copies(e.bytes, pressed) == 0;
  if (pressed) service();
}

// Gives up copies worth `wanted` bytes, or all there are if that is less; returns their bytes.
Bytes Engine::give_up_copies(Bytes wanted, bool pinned_only) {
  Bytes given = 0;
  const ExtentId size = table_.size(), from = copies_from_;
  for (ExtentId i = 0; i < size && given < wanted; ++i) {
    const ExtentId id = (from + i) % size;
    const Extent& e = table_[id];
    if (e.where != Where::kResident || !clean(e) || e.of_file || e.dying) continue;
    if (e.pins == 0 && (pinned_only || !needed_soon(id))) continue;
    given += e.bytes;
    mark_changed(id);
    copies_from_ = id + 1;
  }
  return given;
}

}  // namespace outsize
