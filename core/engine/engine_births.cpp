// Births and deaths of extents, and what an op needs at once.
#include <algorithm>

#include "core/engine/engine.h"

namespace outsize {

Outcome Engine::alloc(const Input& input) {
  Thread& t = thread(input.thread);
  hold_transfers_ = false;
  if (input.now != 0) now_ = input.now;
  table_.ensure(input.extent);
  const Bytes needed = alloc_need(t, input.bytes, input.flag);
  note_need(needed, t.frames.empty() ? 0 : t.frames.back().site);
  if (input.bytes <= free() && needed <= options_.budget) {
    born(t, input.extent, input.bytes, input.flag);
    return Outcome::kGo;
  }
  t.alloc = input.bytes;
  t.alloc_shared = input.flag;
  t.alloc_extent = input.extent;
  if (needed > options_.budget) {
    refuse(input.thread, t, Refusal::kBudget, needed);
    return Outcome::kWait;
  }
  enqueue(input.thread, t);
  service();
  return Outcome::kWait;
}

// The bytes that `frame` needs in RAM at once, with what is about to be added to it. Shared extents
// beyond those can be loosened.
Bytes Engine::need(const Frame& frame, Bytes bytes, Bytes shared, std::uint32_t small) {
  const Bytes apart = kSharedBytes * std::min(frame.small + small, kSharedMax);
  return frame.bytes + bytes - frame.shared - shared + apart;
}

Bytes Engine::alloc_need(const Thread& t, Bytes bytes, bool shared) {
  if (t.frames.empty()) return bytes;
  return need(t.frames.back(), bytes, shared ? bytes : 0, shared ? 1 : 0);
}

void Engine::born(Thread& t, ExtentId extent, Bytes bytes, bool shared) {
  Extent& e = table_[extent];
  e = Extent{};
  e.bytes = bytes;
  e.shared = shared;
  e.where = Where::kResident;
  e.born = e.last_use = clock_;
  charge(bytes);
  if (!t.frames.empty()) {
    add_entry(t, extent, Access::kWrite, true);
    pin_entry(t.entries.back());
  }
  if (watching_) {
    predictor_->on_birth(extent, bytes);
    refresh(extent);
  }
}

Outcome Engine::touch(const Input& input) {
  Thread& t = thread(input.thread);
  Extent& e = table_[input.extent];
  e.last_use = clock_;
  if (e.below != Below::kNone || e.guarded) mark_changed(input.extent);
  if (watching_ && predictor_->on_share(input.extent)) refresh(input.extent);
  if (t.frames.empty()) return Outcome::kGo;
  add_entry(t, input.extent, Access::kWrite, true);
  Entry& last = t.entries.back();
  if (last.extent == input.extent) pin_entry(last);
  Frame& frame = t.frames.back();
  if (e.shared) {
    ++frame.small;
    ++frame.small_born;
  }
  const Bytes needed = need(frame, 0, 0, 0);
  note_need(needed, frame.site);
  if (!e.shared || needed <= options_.budget) return Outcome::kGo;
  refuse(input.thread, t, Refusal::kBudget, needed);
  return Outcome::kWait;
}

void Engine::adopt(const Input& input) {
  table_.ensure(input.extent);
  Extent& e = table_[input.extent];
  e = Extent{};
  e.bytes = input.bytes;
  e.born = e.last_use = clock_;
  e.exposed = !input.flag;
  e.where = input.flag ? Where::kAbsent : Where::kResident;
  e.below = input.flag ? Below::kValid : Below::kNone;
  e.of_file = input.flag;
  if (watching_) predictor_->on_adopt(input.extent, e.bytes);
  if (input.flag) {
    stats_.below += e.bytes;
    return;
  }
  charge(e.bytes);
  if (watching_) refresh(input.extent);
}

void Engine::death(ExtentId id) {
  Extent& e = table_[id];
  // Whether pinned or not: an entry whose pin was lent, or that could not be restored, is as stale.
  for (Thread& t : threads_) {
    std::size_t frame = t.frames.size();
    for (std::size_t i = t.entries.size(); i-- > 0;) {
      while (i < t.frames[frame - 1].first) --frame;
      if (t.entries[i].extent != id) continue;
      t.entries[i].extent = kNoExtent;
      t.frames[frame - 1].bytes -= e.bytes;
      if (e.shared) t.frames[frame - 1].shared -= e.bytes;
      if (t.entries[i].inherited) --t.frames[frame - 1].inherited;
      ++t.frames[frame - 1].dead;
      t.entries[i].inherited = false;
    }
  }
  e.pins = e.write_pins = e.soft = 0;
  if (e.hot) std::erase(hot_, id);
  e.hot = false;
  close_prefetch(e, false);
  if (watching_) {
    predictor_->on_death(id, e.bytes);
    planner_->on_gone(id);
  }
  if (e.where == Where::kFetching || e.below == Below::kWriting) {
    e.dying = true;
    return;
  }
  e.resident_at_death = e.where == Where::kResident;
  if (e.resident_at_death) credit(e.bytes);
  if (e.below == Below::kValid) {
    stats_.below -= e.bytes;
    room_below();
  }
  e.where = Where::kFree;
  emit(Command::Kind::kRelease, id);
  if (!queue_.empty() || !fault_queue_.empty() || shrinking_) service();
}

}  // namespace outsize
