// Waiting for room and for bytes: the queue, admission, victims, and what happens when a transfer
// ends. See the essay in engine.h.
#include <algorithm>

#include "core/engine/engine.h"

namespace outsize {
namespace {

// Victims looked at in one go.
constexpr std::size_t kVictimBatch = 64;
// A raw access cannot be told of an error: a transfer it needs is tried this often before the run
// stops.
constexpr int kFaultAttempts = 8;
// Extents of the latest raw accesses that stay though callers' operands have to leave for it.
constexpr std::size_t kHotKept = 8;

// A planner names whom it likes.
bool leaves(const Extent& e) { return may_leave(e) && !e.hot; }

}  // namespace

void Engine::enqueue(ThreadId id, Thread& t) {
  t.waiting = true;
  full_for_ = 0;  // there may be room by now
  // Allocations inside running ops hold pins that others wait for: they go first.
  const bool inside = t.alloc > 0;
  auto at = queue_.begin();
  while (at != queue_.end() && (!inside || threads_[*at].alloc > 0)) ++at;
  queue_.insert(at, id);
}

// Admits whoever can be: raw accesses first (they hold up a thread in the middle of anything), then
// the head of the queue, then those behind it that need no room.
void Engine::service() {
  if (!fault_queue_.empty() && !serve_faults()) return;
  while (!queue_.empty()) {
    const ThreadId id = queue_.front();
    Thread& t = threads_[id];
    if (!try_admit(id, t)) break;
    if (!queue_.empty() && queue_.front() == id) queue_.erase(queue_.begin());
  }
  if (shrinking_ && queue_.empty()) make_room(0);
  shrinking_ = shrinking_ && free() < 0;
  admit_ready();
}

void Engine::admit_ready() {
  if (free() < 0) return;  // adopted beyond the budget: the head makes room for that first
  for (std::size_t i = 1; i < queue_.size();) {
    const ThreadId id = queue_[i];
    Thread& t = threads_[id];
    bool ready = t.alloc == 0;
    const std::size_t first = t.frames.empty() ? t.entries.size() : t.frames.back().first;
    for (std::size_t k = first; k < t.entries.size() && ready; ++k) {
      const ExtentId extent = t.entries[k].extent;
      ready = extent == kNoExtent || t.entries[k].loose || table_[extent].where == Where::kResident;
    }
    if (!ready) {
      ++i;
      continue;
    }
    for (std::size_t k = first; k < t.entries.size(); ++k) pin_entry(t.entries[k]);
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
    t.waiting = t.entering = false;
    emit(Command::Kind::kGrant, kNoExtent).thread = id;
  }
}

// True when the thread is no longer in the queue's way: granted or refused.
bool Engine::try_admit(ThreadId id, Thread& t) {
  const std::size_t first = t.frames.empty() ? t.entries.size() : t.frames.back().first;
  for (;;) {
    Bytes absent = 0;
    bool ready = true;
    for (std::size_t i = first; i < t.entries.size(); ++i) {
      Entry& entry = t.entries[i];
      if (entry.pinned || entry.loose || entry.extent == kNoExtent) continue;
      Extent& e = table_[entry.extent];
      if (e.where == Where::kResident) {
        pin_entry(entry);
        continue;
      }
      ready = false;
      if (e.where == Where::kAbsent) {
        e.wanted = true;
        if (e.bytes <= free() && !hold_transfers_) {
          fetch(entry.extent, Urgency::kDemand);
        } else {
          absent += e.bytes;
        }
      } else if (!e.wanted) {
        e.wanted = true;
        emit(Command::Kind::kPromote, entry.extent).urgency = Urgency::kDemand;
      }
    }
    if (ready && t.alloc <= free()) break;
    const Bytes need = absent + t.alloc;
    if (need <= free() && absent == 0) return false;  // only reads are missing
    const Bytes before = free();
    if (make_room(need)) continue;
    if (free() > before && absent > 0) continue;  // something can be fetched meanwhile
    if (reading_ > 0 || writing_ > 0) return false;
    if (lend_pins(id)) continue;
    if (others_run(id)) return false;
    if (full_for_ == 0 && loosen(t)) continue;
    refuse(id, t, full_for_ > 0 ? Refusal::kIo : Refusal::kBudget,
           alloc_need(t, t.alloc, t.alloc > 0 && t.alloc_shared));
    return true;
  }
  t.waiting = t.entering = false;
  if (t.alloc > 0) {
    const Bytes bytes = t.alloc;
    t.alloc = 0;
    born(t, t.alloc_extent, bytes, t.alloc_shared);
  }
  emit(Command::Kind::kGrant, kNoExtent).thread = id;
  return true;
}

// Evicts until `need` bytes are free. Where dirty victims are in the way their writes are started;
// false then means: wait. False with nothing in flight means that no more room can be had.
//
// What raw accesses just waited for leaves late, and the oldest of it first: an access that needs
// several extents at once (a load across the border of two) would else push out one for the other,
// for ever, while what ops need sooner stays.
bool Engine::make_room(Bytes need) {
  if (!watching_) start_watching();  // the planner knows no victims yet
  for (const bool last_choice : {false, true}) {
    do {
      const Room room = look_for_room(need, last_choice);
      if (room != Room::kNone) return room == Room::kMade;
    } while (cool_oldest(last_choice ? 0 : kHotKept));
  }
  return false;
}

Engine::Room Engine::look_for_room(Bytes need, bool last_choice) {
  bool progress = true;
  while (progress && free() < need) {
    progress = false;
    victims_.clear();
    // Where not every victim can be written, those that can may come late.
    planner_->victims(last_choice, full_for_ > 0 ? table_.size() : kVictimBatch, victims_);
    for (ExtentId id : victims_) {
      if (free() >= need) break;
      if (!clean(table_[id]) || !leaves(table_[id])) continue;
      if (!last_choice && needed_soon(id)) continue;
      evict(id);
      progress = true;
    }
    if (free() >= need) return Room::kMade;
    Bytes coming = 0;
    for (ExtentId id : victims_) {
      if (free() + coming >= need) break;
      if (!leaves(table_[id]) || needed_soon(id)) continue;
      coming += write_victim(id);
    }
    if (coming > 0) return Room::kComing;
    // All are needed soon: best first, or those behind would be written for nothing.
    for (ExtentId id : victims_) {
      if (free() + coming >= need) break;
      if (!leaves(table_[id])) continue;
      if (clean(table_[id])) {
        evict(id);
        progress = true;
      } else {
        coming += write_victim(id);
      }
    }
    if (free() < need && coming > 0) return Room::kComing;
  }
  return free() >= need ? Room::kMade : Room::kNone;
}

// Lets the extent go that became hot first, while there are more than `keep`.
bool Engine::cool_oldest(std::size_t keep) {
  if (hot_.size() <= keep) return false;
  table_[hot_.front()].hot = false;
  hot_.erase(hot_.begin());
  return true;
}

// Starts, or hurries, the write of a dirty victim; returns the bytes that will become free that way.
Bytes Engine::write_victim(ExtentId id) {
  const Extent& e = table_[id];
  if (e.where != Where::kResident || clean(e)) return 0;
  if (e.below == Below::kWriting) {
    emit(Command::Kind::kPromote, id).urgency = Urgency::kPressedWrite;
    return e.bytes;
  }
  if (e.write_pins != 0 || hold_transfers_ || !fits_below(e)) return 0;
  write(id, Urgency::kPressedWrite);
  return e.bytes;
}

// Unpins what other waiting threads hold: they cannot touch it until they are admitted, and then
// it is brought back. True if anything was lent.
bool Engine::lend_pins(ThreadId but) {
  bool lent = false;
  for (ThreadId id : queue_) {
    if (id == but) continue;
    Thread& t = threads_[id];
    const std::size_t first = t.frames.empty() ? t.entries.size() : t.frames.back().first;
    for (std::size_t i = first; i < t.entries.size(); ++i) {
      lent = lent || (t.entries[i].pinned && t.entries[i].extent != kNoExtent);
      if (t.entries[i].extent != kNoExtent) table_[t.entries[i].extent].wanted = false;
      unpin_entry(t.entries[i]);
    }
  }
  return lent;
}

// Lets go of the shared extents of the innermost op: small storages that lie in more of them than
// fit. It reads and writes those through raw accesses, a few at a time; what it bore goes last.
bool Engine::loosen(Thread& t) {
  const std::size_t first = t.frames.empty() ? t.entries.size() : t.frames.back().first;
  bool loosened = false;
  for (const bool born : {false, true}) {
    for (std::size_t i = first; i < t.entries.size(); ++i) {
      Entry& entry = t.entries[i];
      if (entry.loose || entry.born != born || entry.extent == kNoExtent) continue;
      if (!table_[entry.extent].shared) continue;
      unpin_entry(entry);
      table_[entry.extent].wanted = false;
      // It will be written to without a pin (Note [Exposed extents] in runtime_commands.cpp).
      if (entry.access == Access::kWrite) table_[entry.extent].exposed = true;
      entry.loose = loosened = true;
    }
    if (loosened) return true;
  }
  return false;
}

bool Engine::others_run(ThreadId but) const {
  for (ThreadId id = 0; id < threads_.size(); ++id) {
    if (id != but && !threads_[id].frames.empty() && !threads_[id].waiting) return true;
  }
  return false;
}

void Engine::refuse(ThreadId id, Thread& t, Refusal refusal, Bytes needed) {
  const std::size_t first = t.frames.empty() ? t.entries.size() : t.frames.back().first;
  for (std::size_t i = first; i < t.entries.size(); ++i) {
    if (t.entries[i].extent != kNoExtent) table_[t.entries[i].extent].wanted = false;
  }
  t.waiting = false;
  Command& command = emit(Command::Kind::kRefuse, t.alloc > 0 ? t.alloc_extent : kNoExtent);
  t.alloc = 0;
  command.thread = id;
  command.refusal = refusal;
  command.bytes = needed;
  std::erase(queue_, id);
  if (t.entering) {
    t.entering = false;
    pop_frame(t);
  } else {
    for (std::size_t i = first; i < t.entries.size(); ++i) {
      if (t.entries[i].extent == kNoExtent) continue;
      if (table_[t.entries[i].extent].where == Where::kResident) pin_entry(t.entries[i]);
    }
  }
}

Outcome Engine::pin(const Input& input) {
  // The driver pins inside an op frame that made the extent resident.
  ++table_[input.extent].pins;
  return Outcome::kGo;
}

// --- raw accesses -----------------------------------------------------------------------------

void Engine::fault(const Input& input) {
  Extent& e = table_[input.extent];
  ++stats_.faults;
  hold_transfers_ = false;
  e.exposed = true;
  close_prefetch(e, true);
  if (e.where == Where::kResident) {
    if (input.flag) mark_changed(input.extent);
    emit(Command::Kind::kResume, input.extent);
    return;
  }
  e.fault_write = e.fault_write || input.flag;
  if (e.fault_waiting) return;
  e.fault_waiting = true;
  if (e.where == Where::kFetching) {
    emit(Command::Kind::kPromote, input.extent).urgency = Urgency::kDemand;
    return;
  }
  fault_queue_.push_back(input.extent);
  full_for_ = 0;
  service();
}

// True when no raw access waits for room.
bool Engine::serve_faults() {
  while (!fault_queue_.empty()) {
    const ExtentId id = fault_queue_.front();
    Extent& e = table_[id];
    if (e.where != Where::kAbsent) {
      fault_queue_.erase(fault_queue_.begin());
      continue;
    }
    if (e.bytes > free() && !make_room(e.bytes)) {
      if (reading_ > 0 || writing_ > 0) return false;
      // A thread is blocked in the middle of an op. Addresses are stable, so even a running op's
      // operands may leave: it would wait for them as this access does.
      bool lent = lend_pins(~ThreadId{0});
      for (Thread& t : threads_) {
        for (Entry& entry : t.entries) {
          const bool holds = entry.pinned && entry.extent != kNoExtent;
          if (holds && entry.access == Access::kWrite) table_[entry.extent].exposed = true;
          lent = lent || holds;
          unpin_entry(entry);
        }
      }
      if (lent) continue;
      emit(Command::Kind::kFatal, id);
      return false;
    }
    fault_queue_.erase(fault_queue_.begin());
    fetch(id, Urgency::kDemand);
  }
  return true;
}

// --- transfers that ended ---------------------------------------------------------------------

void Engine::read_done(const Input& input) {
  const ExtentId id = input.extent;
  Extent& e = table_[id];
  reading_ -= e.bytes;
  if (e.dying) {
    credit(e.bytes);
    if (e.below == Below::kValid) stats_.below -= e.bytes;
    room_below();
    e.where = Where::kFree;
    emit(Command::Kind::kRelease, id);
    service();
    return;
  }
  if (input.flag) {
    read_failed(id);
    return;
  }
  ++stats_.reads;
  stats_.read += e.bytes;
  if (input.now > 0) {
    const auto rate = static_cast<std::uint64_t>(e.bytes) * 1'000'000 /
                      static_cast<std::uint64_t>(input.now / 1000 + 1);
    read_rate_ = read_rate_ == 0 ? rate : (read_rate_ * 7 + rate) / 8;
  }
  e.read_failures = 0;
  full_for_ = 0;  // its copy can be given up now
  e.where = Where::kResident;
  // A raw access that others compete with: clean, it could leave in this very step, and the access
  // would wait for ever. Changed, it stays while it is written.
  const bool contended = e.fault_waiting && (!queue_.empty() || !fault_queue_.empty());
  e.guarded = !e.fault_write && !contended;
  Command& install = emit(Command::Kind::kInstall, id);
  install.flag = e.guarded;
  install.at_once = e.guarded && e.exposed;
  if (!e.guarded) forget(id);
  if (e.fault_waiting) {
    e.fault_waiting = e.fault_write = false;
    if (e.hot) std::erase(hot_, id);
    e.hot = true;
    hot_.push_back(id);
  }
  if (watching_) refresh(id);
  service();
}

void Engine::read_failed(ExtentId id) {
  Extent& e = table_[id];
  e.where = Where::kAbsent;
  close_prefetch(e, false);
  credit(e.bytes);
  emit(Command::Kind::kAbandon, id);
  if (e.fault_waiting) {
    if (++e.read_failures >= kFaultAttempts) {
      emit(Command::Kind::kFatal, id);
      return;
    }
    fault_queue_.push_back(id);
  }
  hold_transfers_ = true;
  const std::vector<ThreadId> waiting = queue_;
  for (ThreadId thread_id : waiting) {
    Thread& t = threads_[thread_id];
    const std::size_t first = t.frames.empty() ? t.entries.size() : t.frames.back().first;
    const bool wants = std::any_of(t.entries.begin() + static_cast<std::ptrdiff_t>(first),
                                   t.entries.end(),
                                   [id](const Entry& entry) { return entry.extent == id; });
    if (wants) refuse(thread_id, t, Refusal::kIo, 0);
  }
  hold_transfers_ = !queue_.empty() || !fault_queue_.empty() ? false : hold_transfers_;
  service();
}

// It died while it was written, or before that began.
void Engine::write_dead(ExtentId id) {
  Extent& e = table_[id];
  credit(e.bytes);
  e.resident_at_death = true;
  e.where = Where::kFree;
  e.below = Below::kNone;
  emit(Command::Kind::kRelease, id);
  service();
}

void Engine::write_done(const Input& input) {
  const ExtentId id = input.extent;
  Extent& e = table_[id];
  writing_ -= e.bytes;
  full_for_ = 0;  // what was given up for several may be left in part
  if (e.dying) {
    room_below();
    write_dead(id);
    return;
  }
  if (input.flag) {
    forget(id);
    e.torn = false;
    if (e.guarded) {
      e.guarded = false;
      emit(Command::Kind::kUnguard, id);
    }
    hold_transfers_ = true;
    if (!fault_queue_.empty() && ++write_failures_ >= kFaultAttempts) {
      emit(Command::Kind::kFatal, fault_queue_.front());
      return;
    }
    if (!queue_.empty()) refuse(queue_.front(), threads_[queue_.front()], Refusal::kIo, 0);
    if (!queue_.empty() || !fault_queue_.empty()) hold_transfers_ = false;
    service();
    return;
  }
  write_failures_ = 0;
  ++stats_.writes;
  stats_.written += e.bytes;
  if (input.now > 0) {
    const auto rate = static_cast<std::uint64_t>(e.bytes) * 1'000'000 /
                      static_cast<std::uint64_t>(input.now / 1000 + 1);
    write_rate_ = write_rate_ == 0 ? rate : (write_rate_ * 7 + rate) / 8;
  }
  if (e.torn) {
    e.torn = false;
    forget(id);
  } else {
    e.below = Below::kValid;
    stats_.below += e.bytes;
  }
  service();
}

}  // namespace outsize
