#include "core/engine/engine.h"

#include <algorithm>
#include <utility>

namespace outsize {

Engine::Engine(const EngineOptions& options, std::unique_ptr<Predictor> predictor,
               std::unique_ptr<Planner> planner, ExtentTable& table)
    : options_(options), predictor_(std::move(predictor)), planner_(std::move(planner)),
      table_(table) {
  victims_.reserve(256);
  op_extents_.reserve(256);
  op_accesses_.reserve(256);
  decisions_.reserve(256);
  for (ExtentId id = 0; id < table_.size(); ++id) {  // where a session is replayed that others preceded
    const Extent& e = table_[id];
    if (e.where == Where::kResident) charge(e.bytes);
    clock_ = std::max({clock_, e.last_use, e.born});
  }
  if (!watching_ && predictor_->from_start()) start_watching();
}

void Engine::restart(const EngineOptions& options, std::unique_ptr<Predictor> predictor,
                     std::unique_ptr<Planner> planner) {
  planner_ = std::move(planner);  // before the predictor it reads
  predictor_ = std::move(predictor);
  options_ = options;
  const Bytes resident = stats_.resident, below = stats_.below;
  stats_ = EngineStats{};
  stats_.resident = stats_.resident_peak = resident;
  stats_.below = below;
  foreseen_ = PrefetchAccount{};
  watching_ = hold_transfers_ = shrinking_ = freed_below_ = false;
  full_for_ = 0;
  read_rate_ = write_rate_ = 0;
  write_failures_ = 0;
  copies_from_ = 0;
  for (ExtentId id : hot_) table_[id].hot = false;
  hot_.clear();
  hints_.clear();
  for (ExtentId id = 0; id < table_.size(); ++id) {
    table_[id].hint = Hint::kNone;
    table_[id].prefetched = Prefetched::kNo;
  }
  charge(0);
  if (!watching_ && predictor_->from_start()) start_watching();
}

Outcome Engine::step(const Input& input, Commands& commands) {
  out_ = &commands;
  const std::size_t before = commands.size();
  if (log_ != nullptr) log_->input(input);
  ++clock_;
  const Outcome outcome = dispatch(input);
  if (log_ != nullptr) {
    for (std::size_t i = before; i < commands.size(); ++i) log_->command(commands[i]);
  }
  return outcome;
}

Outcome Engine::dispatch(const Input& input) {
  switch (input.kind) {
    case Input::Kind::kOpBegin: return op_begin(input);
    case Input::Kind::kOpEnd: return op_end(input);
    case Input::Kind::kAlloc: return alloc(input);
    case Input::Kind::kTouch: return touch(input);
    case Input::Kind::kAdopt: adopt(input); break;
    case Input::Kind::kDeath: death(input.extent); break;
    case Input::Kind::kReadDone: read_done(input); break;
    case Input::Kind::kWriteDone: write_done(input); break;
    case Input::Kind::kFault: fault(input); break;
    case Input::Kind::kExpose: expose(input.extent); break;
    case Input::Kind::kPin: return pin(input);
    case Input::Kind::kUnpin:
      --table_[input.extent].pins;
      service();
      break;
    case Input::Kind::kStep:
      ++stats_.steps;
      full_for_ = 0;
      expire_hints();
      if (watching_) {
        predictor_->on_step(input.now);
        if (predictor_->take_rekeyed()) planner_->on_rekey();
      }
      break;
    case Input::Kind::kPlan: plan(input); break;
    case Input::Kind::kBudget: set_budget(input.bytes); break;
    case Input::Kind::kHint: hint(input); break;
    case Input::Kind::kNoSlot: no_slot(input.extent); break;
    case Input::Kind::kSample:
      if (watching_) {
        predictor_->on_sample(input.sample);
        if (predictor_->take_rekeyed()) planner_->on_rekey();
      }
      break;
  }
  return Outcome::kGo;
}

Command& Engine::emit(Command::Kind kind, ExtentId id) {
  Command& command = out_->emplace_back();
  command.kind = kind;
  command.extent = id;
  return command;
}

Engine::Thread& Engine::thread(ThreadId id) {
  if (id >= threads_.size()) threads_.resize(id + 1);
  return threads_[id];
}

// --- ops ------------------------------------------------------------------------------------

Outcome Engine::op_begin(const Input& input) {
  Thread& t = thread(input.thread);
  ++stats_.ops;
  hold_transfers_ = false;
  now_ = input.now;
  for (ExtentId id : hot_) table_[id].hot = false;
  hot_.clear();
  suspend(t);
  Frame& frame = t.frames.emplace_back();
  frame.first = t.entries.size();
  frame.serial = ++serial_;
  frame.site = input.site;
  op_extents_.clear();
  bool ready = true;
  for (const OperandRef& operand : input.operands) {
    Extent& e = table_[operand.extent];
    if (e.frame != serial_) {
      op_extents_.push_back(operand.extent);
      e.last_use = clock_;
      e.hint = Hint::kNone;
    }
    if (e.shared) ++frame.small;
    add_entry(t, operand.extent, operand.access, false);
    ready = ready && e.where == Where::kResident;
  }
  if (watching_) {
    op_accesses_.clear();
    for (std::size_t i = frame.first; i < t.entries.size(); ++i) op_accesses_.push_back(t.entries[i].access);
    predictor_->on_op({input.site, op_extents_, input.in_backward, input.now, op_accesses_, input.graph, input.operands});
    if (predictor_->take_rekeyed()) planner_->on_rekey();
    for (ExtentId id : op_extents_) refresh(id);
  }
  const Bytes needed = need(frame, 0, 0, 0);
  note_need(needed, input.site);
  if (ready && free() >= 0 && needed <= options_.budget) {
    for (std::size_t i = frame.first; i < t.entries.size(); ++i) pin_entry(t.entries[i]);
    return Outcome::kGo;
  }
  t.entering = true;
  if (needed > options_.budget) {
    refuse(input.thread, t, Refusal::kBudget, needed);
    service();
    return Outcome::kWait;
  }
  enqueue(input.thread, t);
  service();
  return Outcome::kWait;
}

void Engine::add_entry(Thread& t, ExtentId id, Access access, bool born) {
  Frame& frame = t.frames.back();
  Extent& e = table_[id];
  // `frame` tells at once, unless another thread's op listed the extent since.
  const bool crowded = born && threads_.size() > 1;
  if (e.frame == frame.serial || (crowded && lists(t, t.entries.size(), id))) {  // only the access may grow
    if (access == Access::kRead && !born) return;
    for (std::size_t i = frame.first; i < t.entries.size(); ++i) {
      Entry& entry = t.entries[i];
      if (entry.extent != id) continue;
      if (entry.pinned && entry.access == Access::kRead) ++e.write_pins;
      if (access == Access::kWrite) entry.access = Access::kWrite;
      entry.born = entry.born || born;
      if (entry.inherited) --frame.inherited;  // now it is the frame's own
      entry.inherited = false;
      return;
    }
  }
  if (born) tidy(t);
  t.entries.push_back({id, e.frame, access, false, born, false, false});
  e.frame = frame.serial;
  frame.bytes += e.bytes;
  if (e.shared) frame.shared += e.bytes;
}

// Whether the innermost frame lists `id` among the entries before `end`.
bool Engine::lists(const Thread& t, std::size_t end, ExtentId id) {
  for (std::size_t i = t.frames.back().first; i < end; ++i) {
    if (t.entries[i].extent == id) return true;
  }
  return false;
}

void Engine::pin_entry(Entry& entry) {
  if (entry.pinned || entry.loose || entry.extent == kNoExtent) return;
  Extent& e = table_[entry.extent];
  entry.pinned = true;
  ++e.pins;
  e.wanted = false;
  close_prefetch(e, true);
  if (entry.access == Access::kWrite) {
    ++e.write_pins;
    if (e.below != Below::kNone || e.guarded) mark_changed(entry.extent);
  }
}

void Engine::unpin_entry(Entry& entry) {
  if (!entry.pinned || entry.extent == kNoExtent) return;
  Extent& e = table_[entry.extent];
  entry.pinned = false;
  --e.pins;
  if (entry.access == Access::kWrite) --e.write_pins;
}

void Engine::suspend(Thread& t) {
  if (t.frames.empty()) return;
  for (std::size_t i = t.frames.back().first; i < t.entries.size(); ++i) {
    Entry& entry = t.entries[i];
    if (entry.extent == kNoExtent) continue;
    unpin_entry(entry);
    ++table_[entry.extent].soft;
  }
}

// The caller's frame is innermost again: what is still here is pinned again; what left meanwhile
// comes back through a raw access, should the kernel touch it once more.
void Engine::restore(Thread& t) {
  if (t.frames.empty()) return;
  for (std::size_t i = t.frames.back().first; i < t.entries.size(); ++i) {
    Entry& entry = t.entries[i];
    if (entry.extent == kNoExtent) continue;
    Extent& e = table_[entry.extent];
    --e.soft;
    if (e.where == Where::kResident) {
      pin_entry(entry);
    } else if (entry.access == Access::kWrite) {
      e.exposed = true;  // it may be written to without a pin
    }
  }
}

Outcome Engine::op_end(const Input& input) {
  Thread& t = thread(input.thread);
  pop_frame(t);
  if (!queue_.empty() || !fault_queue_.empty() || shrinking_) service();
  return Outcome::kGo;
}

void Engine::pop_frame(Thread& t) {
  const Frame frame = t.frames.back();
  const std::size_t end = t.entries.size();
  for (std::size_t i = frame.first; i < end; ++i) {
    unpin_entry(t.entries[i]);
    if (t.entries[i].extent == kNoExtent) continue;
    Extent& e = table_[t.entries[i].extent];
    if (e.frame == frame.serial) e.frame = t.entries[i].listed;
  }
  t.frames.pop_back();
  if (t.frames.empty()) {
    for (const Kept& kept : t.kept) {
      Extent& e = table_[kept.extent];
      if (e.born == kept.born && e.where != Where::kFree && !e.dying) --e.soft;
    }
    t.kept.clear();
    t.entries.resize(frame.first);
    return;
  }
  t.frames.back().small += frame.small_born;
  t.frames.back().small_born += frame.small_born;
  inherit(t, frame.first, end);
  tidy(t);
  restore(t);
}

// The innermost frame takes over what was born in the inner op whose entries are [first, end).
void Engine::inherit(Thread& t, std::size_t first, std::size_t end) {
  Frame& frame = t.frames.back();
  std::size_t keep = first;
  for (std::size_t i = first; i < end; ++i) {
    Entry entry = t.entries[i];
    if (entry.extent == kNoExtent || !entry.born) continue;
    Extent& e = table_[entry.extent];
    // Where another thread's op listed it as well, `frame` may name an op that no longer does.
    if (threads_.size() > 1 ? lists(t, keep, entry.extent) : e.frame == frame.serial) continue;
    entry.listed = e.frame;
    entry.inherited = true;
    e.frame = frame.serial;
    ++frame.inherited;
    frame.bytes += e.bytes;
    if (e.shared) frame.shared += e.bytes;
    ++e.soft;
    t.entries[keep++] = entry;
  }
  t.entries.resize(keep);
}

// Drops entries of the innermost frame that are dead or inherited too long ago, once they are many:
// a composite op may have any number of them.
void Engine::tidy(Thread& t) {
  constexpr std::uint32_t kDeadMax = 16;
  Frame& frame = t.frames.back();
  if (frame.inherited <= kInheritedMax && frame.dead <= kDeadMax) return;
  frame.dead = 0;
  std::size_t keep = frame.first;
  for (std::size_t i = frame.first; i < t.entries.size(); ++i) {
    const Entry entry = t.entries[i];
    if (entry.extent == kNoExtent) continue;
    if (!entry.inherited || frame.inherited <= kInheritedMax) {
      t.entries[keep++] = entry;
      continue;
    }
    Extent& e = table_[entry.extent];
    if (e.frame == frame.serial) e.frame = entry.listed;
    frame.bytes -= e.bytes;
    if (e.shared) frame.shared -= e.bytes;
    --frame.inherited;
    t.kept.push_back({entry.extent, e.born});
  }
  t.entries.resize(keep);
}

// --- counting ---------------------------------------------------------------------------------

void Engine::charge(Bytes bytes) {
  stats_.resident += bytes;
  stats_.resident_peak = std::max(stats_.resident_peak, stats_.resident);
  if (!watching_ && stats_.resident > options_.budget / 2) start_watching();
}

// Everything fits easily until here: nothing was predicted or planned. From now on it is.
void Engine::start_watching() {
  watching_ = true;
  for (ExtentId id = 0; id < table_.size(); ++id) {
    const Extent& e = table_[id];
    if (e.where == Where::kResident && !e.dying) refresh(id);
  }
}

void Engine::refresh(ExtentId id) {
  const Extent& e = table_[id];
  if (e.where == Where::kResident && !e.dying) planner_->on_resident(id);
}

void Engine::note_need(Bytes bytes, SiteId site) {
  if (bytes <= stats_.need_peak) return;
  stats_.need_peak = bytes;
  stats_.need_site = site;
}

// --- residency --------------------------------------------------------------------------------

void Engine::evict(ExtentId id) {
  Extent& e = table_[id];
  e.where = Where::kAbsent;
  e.guarded = false;
  close_prefetch(e, false);
  credit(e.bytes);
  ++stats_.evictions;
  stats_.dropped += e.bytes;
  planner_->on_gone(id);
  emit(Command::Kind::kEvict, id);
}

// What came, or should have come, ahead of need is used, or goes. A raw access counts where it faults: one that
// reads what is here is not seen, and what came for it alone seems to have come for nothing.
void Engine::close_prefetch(Extent& e, bool used) {
  if (e.prefetched == Prefetched::kNo) return;
  const bool foreseen = std::exchange(e.prefetched, Prefetched::kNo) == Prefetched::kForeseen;
  if (foreseen) foreseen_.open -= e.bytes;
  (used ? stats_.prefetch_hit : stats_.prefetch_missed) += e.bytes;
  if (foreseen) (used ? foreseen_.hit : foreseen_.missed) += e.bytes;
}

void Engine::fetch(ExtentId id, Urgency urgency, Prefetched why) {
  Extent& e = table_[id];
  e.where = Where::kFetching;
  charge(e.bytes);
  reading_ += e.bytes;
  e.prefetched = why;
  (why == Prefetched::kNo ? stats_.demanded : stats_.prefetched) += e.bytes;
  if (why == Prefetched::kForeseen) foreseen_.open += e.bytes;
  emit(Command::Kind::kFetch, id).urgency = urgency;
}

void Engine::write(ExtentId id, Urgency urgency) {
  Extent& e = table_[id];
  e.below = Below::kWriting;
  e.torn = false;
  e.guarded = true;
  writing_ += e.bytes;
  emit(Command::Kind::kWrite, id).urgency = urgency;
}

// Its bytes are about to differ from the copy below, or already do.
void Engine::mark_changed(ExtentId id) {
  Extent& e = table_[id];
  if (e.below == Below::kWriting) e.torn = true;
  if (e.below == Below::kValid) forget(id);
  if (e.guarded) {
    e.guarded = false;
    emit(Command::Kind::kUnguard, id);
  }
}

void Engine::forget(ExtentId id) {
  Extent& e = table_[id];
  if (e.below == Below::kValid) stats_.below -= e.bytes;
  e.below = Below::kNone;
  e.of_file = false;
  room_below();
  emit(Command::Kind::kForget, id);
}

void Engine::expose(ExtentId id) {
  Extent& e = table_[id];
  e.exposed = true;
}

void Engine::plan(const Input& input) {
  now_ = input.now;
  if (!watching_ || hold_transfers_) return;
  // Raw accesses go on without ops, and what is foreseen are ops: its room is theirs for now.
  if (!hot_.empty()) return;
  serve_hints();
  decisions_.clear();
  PlanState state;
  state.budget = options_.budget;
  state.free = queue_.empty() && fault_queue_.empty() ? free() : 0;
  state.reading = reading_;
  state.writing = writing_;
  state.reading_max = options_.reading_max;
  state.writing_max = options_.writing_max;
  state.read_rate = read_rate_;
  state.write_rate = write_rate_;
  state.demanded = stats_.demanded;
  state.foreseen = foreseen_;
  planner_->plan(state, decisions_);
  for (const Decision& decision : decisions_) {
    const Extent& e = table_[decision.extent];
    switch (decision.kind) {  // a decision that the state does not allow is not carried out
      case Decision::Kind::kPrefetch:
        if (e.where == Where::kAbsent && !e.dying && !e.wanted && e.bytes <= free()) {
          fetch(decision.extent, Urgency::kPrefetch, Prefetched::kForeseen);
        }
        break;
      case Decision::Kind::kClean:
        if (may_leave(e) && e.below == Below::kNone && e.write_pins == 0 && fits_below(e)) {
          write(decision.extent, Urgency::kWriteAhead);
        }
        break;
      case Decision::Kind::kEvict:
        if (evictable(e) && clean(e)) evict(decision.extent);
        break;
    }
  }
}

void Engine::set_budget(Bytes bytes) {
  options_.budget = bytes;
  shrinking_ = free() < 0;
  service();
}

}  // namespace outsize
