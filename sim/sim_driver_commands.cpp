// What the engine commands, and what the disk answers.
#include "sim/sim_driver.h"

#include <algorithm>

namespace outsize::sim {

void SimDriver::problem(const std::string& what) {
  constexpr std::size_t kEnough = 20;
  if (result_.problems.size() < kEnough) result_.problems.push_back(what);
}

Outcome SimDriver::feed(const Input& input) {
  commands_.clear();
  const Outcome outcome = engine_->step(input, commands_);
  if (options_.judge) {
    const bool judged = checker_.ok();
    const Outcome expected = checker_.observe(input, commands_);
    if (judged && expected != outcome) {
      problem(std::string("the engine and the judge differ on whether a thread waits: ") +
              to_string(input.kind));
    }
  }
  // Carrying out a command may feed the next input (a pin); this list is ours until then.
  const Commands commands = commands_;
  told_ = 0;
  for (const Command& command : commands) {
    if (command.kind == Command::Kind::kRefuse || command.kind == Command::Kind::kFatal) ++told_;
  }
  for (const Command& command : commands) obey(command);
  for (const bool write : {false, true}) {
    while (!unslotted_[write].empty()) {
      Input failed;
      failed.kind = write ? Input::Kind::kWriteDone : Input::Kind::kReadDone;
      failed.extent = unslotted_[write].front();
      failed.flag = true;
      unslotted_[write].erase(unslotted_[write].begin());
      if (timeline_) timeline_->ended(failed.extent, write, Timeline::End::kFailed, now_, now_);
      if (write) memory_.write_ends(failed.extent, true);
      feed(failed);
    }
  }
  while (!roomless_.empty()) {
    Input full;
    full.kind = Input::Kind::kNoSlot;
    full.extent = roomless_.front();
    roomless_.erase(roomless_.begin());
    if (timeline_) timeline_->ended(full.extent, true, Timeline::End::kFailed, now_, now_);
    memory_.write_ends(full.extent, true);
    memory_.unguarded(full.extent);
    feed(full);
  }
  if (timeline_) timeline_->resident(engine_->stats().resident, now_);
  return outcome;
}

void SimDriver::obey(const Command& command) {
  const ExtentId id = command.extent;
  switch (command.kind) {
    case Command::Kind::kGrant: granted(command.thread); break;
    case Command::Kind::kRefuse:
      if (command.refusal == Refusal::kIo) judge_full(wanted(command.thread));
      refused(command.thread, command.refusal);
      break;
    case Command::Kind::kEvict:
      memory_.evicted(id);
      work_.command();
      work_.handled(bytes_[id]);
      work_.put(bytes_[id]);
      break;
    case Command::Kind::kFetch:
    case Command::Kind::kWrite: {
      const bool write = command.kind == Command::Kind::kWrite;
      staged_[id] = !write;
      if (write) memory_.write_begins(id);
      else take_pages(id);
      if (timeline_) timeline_->asked(id, write, command.urgency, bytes_[id], now_);
      if (write && !take_slot(id)) {
        roomless_.push_back(id);
        break;
      }
      work_.command();
      if (write) work_.handled(bytes_[id]);
      if (random_.one_in(options_.no_slot_one_in)) {
        unslotted_[write].push_back(id);
      } else {
        link_.submit(id, write, command.urgency, bytes_[id], now_);
      }
      break;
    }
    case Command::Kind::kInstall:
      staged_[id] = false;
      memory_.installed(id, command.flag);
      wake_raw(id);
      break;
    case Command::Kind::kAbandon:
      staged_[id] = false;
      work_.put(bytes_[id]);
      break;
    case Command::Kind::kUnguard:
      memory_.unguarded(id);
      work_.handled(bytes_[id]);
      break;
    case Command::Kind::kForget:
      memory_.forgotten(id);
      if (memory_.cell(id).live) counts(id);
      give_slot(id);
      break;
    case Command::Kind::kRelease:
      give_slot(id);
      if (table_[id].guarded) work_.handled(bytes_[id]);
      if (table_[id].resident_at_death || staged_[id]) work_.put(bytes_[id]);
      staged_[id] = false;
      memory_.released(id);
      free_ids_.push_back(id);
      break;
    case Command::Kind::kResume: wake_raw(id); break;
    case Command::Kind::kPromote: link_.promote(id, command.urgency); break;
    case Command::Kind::kFatal:
      judge_full(bytes_[id]);
      judge_fatal(id);
      result_.fatal = true;
      break;
  }
}

void SimDriver::take_pages(ExtentId id) {
  work_.take(bytes_[id], engine_->free());
}

// Somebody is told that no room can be had for `missing` bytes. Where the next tier is all that ever
// failed, what could have been written must not have been enough.
void SimDriver::judge_full(Bytes missing) {
  if (told_ > 1) return;  // what the others let go of was not there yet
  if (mad()) return;      // names victims, or does not, as it likes
  if (options_.spill_limit == 0 || options_.link.fail_one_in > 0 || options_.no_slot_one_in > 0) return;
  std::vector<bool> asked(engine_->table().size());  // by what waits, or waited until now
  for (ThreadId id = 0; id < threads_.size(); ++id) {
    if (threads_[id].at >= program_.threads[id].size()) continue;
    for (const ObjectRef& ref : program_.threads[id][threads_[id].at].operands) {
      if (extent_of(ref.object) != kNoExtent) asked[extent_of(ref.object)] = true;
    }
  }
  Bytes room = engine_->free(), below = options_.spill_limit - spilled_;
  for (ExtentId id = 0; id < engine_->table().size(); ++id) {
    const Extent& e = engine_->table()[id];
    if (asked[id] || !may_leave(e) || e.below != Below::kNone || e.write_pins > 0 || e.bytes > below) continue;
    below -= e.bytes;
    room += e.bytes;
  }
  if (engine_->free() < missing && missing <= room) {
    problem("there was room for " + std::to_string(missing) + " bytes, and somebody was told otherwise");
  }
}

// The rule of the live driver (runtime_memory.cpp): who is born must fit, and so must the exchange of any
// extent for another when RAM is full and so is the next tier.
Bytes SimDriver::spare_below(Bytes bytes) const {
  return 2 * std::max(largest_, bytes);
}

bool SimDriver::room_below(Bytes bytes) const {
  const Bytes below = alive_ + bytes + (files_ > 0 ? largest_file_ : 0) - engine_->budget();
  if (options_.spill_limit == 0 || below <= 0 || bytes > engine_->budget()) return true;
  return below + spare_below(bytes) <= options_.spill_limit;
}

void SimDriver::counts_file(ExtentId id, bool is_one) {
  if (of_file_[id] == is_one) return;
  of_file_[id] = is_one;
  files_ += is_one ? 1 : -1;
  if (bytes_[id] <= options_.budget) largest_file_ = std::max(largest_file_, bytes_[id]);
}

void SimDriver::counts(ExtentId id) {
  counts_file(id, false);
  if (counted_[id]) return;
  counted_[id] = true;
  alive_ += bytes_[id];
  largest_ = std::max(largest_, bytes_[id]);
}

// A raw access cannot be told that there is no room. What that rule let be born must not need to be.
void SimDriver::judge_fatal(ExtentId id) {
  if (mad() || options_.link.fail_one_in > 0 || options_.no_slot_one_in > 0) return;
  if (bytes_[id] > engine_->budget() || !room_below(0)) return;
  for (const Object& object : objects_) {
    if (object.pins > 0) return;  // by the program: they never leave
  }
  problem("a raw access to extent " + std::to_string(id) + " cannot be served, though everything alive fits");
}

Bytes SimDriver::wanted(ThreadId id) const {
  const Action& action = program_.threads[id][threads_[id].at];
  if (action.kind == Action::Kind::kBirth) return action.bytes;
  Bytes absent = 0;
  for (const ObjectRef& ref : action.operands) {
    const ExtentId extent = extent_of(ref.object);
    if (extent != kNoExtent && engine_->table()[extent].where != Where::kResident) absent += bytes_[extent];
  }
  return absent;
}

bool SimDriver::take_slot(ExtentId id) {
  slots_.resize(std::max<std::size_t>(slots_.size(), id + 1));
  if (slots_[id] > 0 || options_.spill_limit == 0) return true;
  if (spilled_ + bytes_[id] > options_.spill_limit) return false;
  slots_[id] = bytes_[id];
  spilled_ += slots_[id];
  result_.spilled_peak = std::max(result_.spilled_peak, spilled_);
  return true;
}

void SimDriver::give_slot(ExtentId id) {
  if (id >= slots_.size()) return;
  spilled_ -= slots_[id];
  slots_[id] = 0;
}

void SimDriver::wake_raw(ExtentId id) {
  for (Thread& t : threads_) {
    if (t.state != State::kFaults || t.extent != id) continue;
    t.state = State::kReady;
    t.time = now_;
    result_.stall += now_ - t.since;
    if (timeline_) timeline_->goes_on(id_of(t), now_);
  }
}

void SimDriver::finish_transfer() {
  const Transfer transfer = link_.take();
  now_ = std::max(now_, transfer.ends);
  if (timeline_) tell_transfer(transfer);
  work_.transferred(transfer);
  if (transfer.write) memory_.write_ends(transfer.extent, transfer.fails);
  Input input;
  input.kind = transfer.write ? Input::Kind::kWriteDone : Input::Kind::kReadDone;
  input.extent = transfer.extent;
  input.flag = transfer.fails;
  input.now = transfer.ends - transfer.started;
  feed(input);
  last_plan_ = 0;
  plan();
}

// A predictor must not contradict itself: what comes, in the order in which it comes, at the place
// where next_use puts it. Planners weigh one against the other.
void SimDriver::judge_foresight() {
  Upcoming coming[32];
  const std::size_t count = predictor_->upcoming(coming);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string which = "extent " + std::to_string(coming[i].extent);
    const Position use = predictor_->next_use(coming[i].extent);
    const bool at_once = predictor_->wanted_at_once(coming[i].extent);
    if (at_once ? use > predictor_->position() : coming[i].position != use) {
      problem(which + " is foreseen at " + std::to_string(coming[i].position) + " and used next at " + std::to_string(use));
    }
    if (i > 0 && coming[i].position < coming[i - 1].position) problem(which + " is foreseen out of order");
    if (coming[i].in < 0) problem(which + " is foreseen in the past");
    const std::uint32_t gap = predictor_->gap_of(coming[i].extent);
    if (gap != kNoGap && gap != coming[i].gap) {
      problem(which + " is in gap " + std::to_string(gap) + " and foreseen in " + std::to_string(coming[i].gap));
    }
  }
}

// Nobody runs and nobody waits: no extent may be left with a right that nobody will give back.
void SimDriver::judge_rights() {
  for (const Thread& t : threads_) {
    if (t.state != State::kDone || !t.ops.empty()) return;
  }
  std::vector<int> pins(bytes_.size(), 0);
  for (const Object& object : objects_) {
    if (object.extent != kNoExtent) pins[object.extent] += object.pins;
  }
  for (const Object& object : objects_) {
    if (object.extent == kNoExtent) continue;
    const Extent& e = engine_->table()[object.extent];
    const std::string which = "extent " + std::to_string(object.extent);
    if (e.pins != static_cast<std::uint32_t>(pins[object.extent])) problem(which + " is left pinned");
    if (e.write_pins != 0) problem(which + " is left pinned for writing");
    if (e.soft != 0) problem(which + " is left to a suspended op");
    if (e.wanted && e.where != Where::kFetching) problem(which + " is still wanted by nobody");
  }
}

void SimDriver::plan() {
  if (!engine_->wants_plan() || (last_plan_ > 0 && now_ - last_plan_ < options_.plan_every)) return;
  last_plan_ = now_;
  if (options_.judge && !mad() && ++plans_ % 8 == 0) judge_foresight();
  Input input;
  input.kind = Input::Kind::kPlan;
  input.now = now_;
  feed(input);
}

}  // namespace outsize::sim
