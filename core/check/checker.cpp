// What the inputs do to the judge's picture, and the checks at the end of a step. What commands
// may do is in checker_commands.cpp.
#include "core/check/checker.h"

#include <algorithm>

namespace outsize::check {

Outcome Checker::observe(const Input& input, std::span<const Command> commands) {
  ++inputs_;
  outcome_ = Outcome::kGo;
  expected_ = {};
  seen_.clear();
  accept(input);
  for (const Command& command : commands) obey(command);
  finish(input);
  return outcome_;
}

std::string Checker::report() const {
  std::string text;
  for (const std::string& violation : violations_) text += violation + "\n";
  return text;
}

void Checker::violation(int invariant, const std::string& what) {
  constexpr std::size_t kEnough = 20;
  if (violations_.size() >= kEnough) return;
  violations_.push_back("input " + std::to_string(inputs_) + ": invariant " +
                        std::to_string(invariant) + ": " + what);
}

std::string Checker::name(ExtentId id) const {
  return id == kNoExtent ? "no extent" : "extent " + std::to_string(id);
}

Checker::Extent& Checker::extent(ExtentId id) {
  if (id >= extents_.size()) extents_.resize(id + 1);
  seen_.push_back(id);
  return extents_[id];
}

Checker::Thread& Checker::thread(ThreadId id) {
  if (id >= threads_.size()) threads_.resize(id + 1);
  return threads_[id];
}

void Checker::accept(const Input& input) {
  switch (input.kind) {
    case Input::Kind::kOpBegin: op_begin(input); break;
    case Input::Kind::kOpEnd: op_end(input); break;
    case Input::Kind::kAlloc: alloc(input); break;
    case Input::Kind::kTouch: touch(input); break;
    case Input::Kind::kAdopt: adopt(input); break;
    case Input::Kind::kDeath: death(input); break;
    case Input::Kind::kReadDone:
    case Input::Kind::kWriteDone: transfer_ended(input); break;
    case Input::Kind::kNoSlot: no_slot(input); break;
    case Input::Kind::kFault: fault(input); break;
    case Input::Kind::kExpose: extent(input.extent).exposed = true; break;
    case Input::Kind::kPin:
      if (extent(input.extent).state != State::kResident) {
        violation(3, name(input.extent) + " was pinned while not resident");
      }
      ++extent(input.extent).user_pins;
      break;
    case Input::Kind::kUnpin: --extent(input.extent).user_pins; break;
    case Input::Kind::kBudget: budget_ = input.bytes; break;
    case Input::Kind::kStep:
    case Input::Kind::kHint:  // entitles nobody to anything
    case Input::Kind::kSample:
    case Input::Kind::kPlan: break;
  }
}

// --- ops ------------------------------------------------------------------------------------

void Checker::op_begin(const Input& input) {
  Thread& t = thread(input.thread);
  if (t.waits != Waits::kNo) violation(11, "a waiting thread began an op");
  suspend(t);
  t.frames.emplace_back();
  bool ready = resident_ <= budget_;
  for (const OperandRef& operand : input.operands) {
    const Extent& e = extent(operand.extent);
    if (e.state == State::kFree || e.dead) {
      violation(2, name(operand.extent) + " is free and an operand");
    }
    Hold& hold = t.frames.back().holds[operand.extent];
    hold.order = ++order_;
    if (e.shared) ++t.frames.back().small;
    hold.write = hold.write || operand.access == Access::kWrite;
    ready = ready && e.state == State::kResident;
  }
  if (ready && claimed(t, 0, false) <= budget_) {
    hold_all(t);
    return;
  }
  outcome_ = Outcome::kWait;
  t.waits = Waits::kOp;
  t.io_failed = false;
}

void Checker::suspend(Thread& t) {
  if (t.frames.empty()) return;
  for (auto& [id, hold] : t.frames.back().holds) hold.held = false;
}

// The thread goes on: whatever its innermost op lists and is here is its own; what it may write is
// from now on what it writes.
void Checker::hold_all(Thread& t) {
  if (t.frames.empty()) return;
  for (auto& [id, hold] : t.frames.back().holds) {
    Extent& e = extent(id);
    hold.held = e.state == State::kResident && !(t.frames.back().crowded && e.shared);
    if (hold.held && hold.write) ++e.version;
  }
}

void Checker::op_end(const Input& input) {
  Thread& t = thread(input.thread);
  if (t.frames.empty() || t.waits != Waits::kNo) {
    violation(11, "an op ended that does not run");
    return;
  }
  pop_frame(t);
}

void Checker::pop_frame(Thread& t) {
  const Frame popped = std::move(t.frames.back());
  t.frames.pop_back();
  if (t.frames.empty()) return;
  t.frames.back().small += popped.small_born;
  t.frames.back().small_born += popped.small_born;
  t.frames.back().crowded = t.frames.back().crowded || popped.crowded;
  inherit(t.frames.back(), popped);
  hold_all(t);
}

// What was born inside stays with the caller, which may hold raw pointers to it; but no more than
// the latest kInheritedMax.
void Checker::inherit(Frame& caller, const Frame& popped) {
  std::map<std::uint64_t, ExtentId> born, inherited;  // by age
  for (const auto& [id, hold] : popped.holds) {
    if (hold.born) born[hold.order] = id;
  }
  for (const auto& [order, id] : born) {
    caller.holds.try_emplace(id, Hold{true, true, false, true, ++order_});
  }
  for (const auto& [id, hold] : caller.holds) {
    if (hold.inherited) inherited[hold.order] = id;
  }
  while (inherited.size() > kInheritedMax) {
    caller.holds.erase(inherited.begin()->second);
    inherited.erase(inherited.begin());
  }
}

void Checker::alloc(const Input& input) {
  Thread& t = thread(input.thread);
  if (t.waits != Waits::kNo) violation(11, "a waiting thread allocated");
  if (extent(input.extent).state != State::kFree || extent(input.extent).dead) {
    violation(2, name(input.extent) + " was born twice");
  }
  if (input.bytes <= budget_ - resident_ && claimed(t, input.bytes, input.flag) <= budget_) {
    birth(t, input.extent, input.bytes, input.flag);
    return;
  }
  outcome_ = Outcome::kWait;
  t.waits = Waits::kAlloc;
  t.alloc = input.bytes;
  t.alloc_shared = input.flag;
  t.alloc_extent = input.extent;
  t.io_failed = false;
}

void Checker::birth(Thread& t, ExtentId id, Bytes bytes, bool shared) {
  Extent& e = extent(id);
  e = Extent{};
  e.shared = shared;
  e.bytes = bytes;
  e.state = State::kResident;
  e.version = 1;
  charge(bytes);
  if (!t.frames.empty()) t.frames.back().holds[id] = Hold{true, true, true, false, ++order_};
}

void Checker::touch(const Input& input) {
  Thread& t = thread(input.thread);
  Extent& e = extent(input.extent);
  if (e.state != State::kResident || e.dead) {
    violation(3, name(input.extent) + " took a birth while not resident");
  }
  ++e.version;
  if (t.frames.empty()) return;
  Hold& hold = t.frames.back().holds[input.extent];
  const std::uint64_t order = hold.order > 0 ? hold.order : ++order_;
  hold = Hold{true, true, true, false, order};
  if (!e.shared) return;
  ++t.frames.back().small;
  ++t.frames.back().small_born;
  if (claimed(t, 0, false) <= budget_) return;
  outcome_ = Outcome::kWait;
  t.waits = Waits::kTouch;
}

void Checker::adopt(const Input& input) {
  Extent& e = extent(input.extent);
  if (e.state != State::kFree || e.dead) violation(2, name(input.extent) + " was adopted twice");
  e = Extent{};
  e.bytes = input.bytes;
  e.version = 1;
  e.state = input.flag ? State::kAbsent : State::kResident;
  if (input.flag) {
    e.copy = Copy::kValid;
    e.copy_version = e.version;
    return;
  }
  // Beyond the budget, if need be: the next op makes room.
  resident_ += e.bytes;
  resident_peak_ = std::max(resident_peak_, resident_);
}

void Checker::left_over(ExtentId id, Bytes bytes, bool shared, bool exposed, int user_pins) {
  Extent& e = extent(id);
  e.bytes = bytes;
  e.version = 1;
  e.state = State::kResident;
  e.shared = shared;
  e.exposed = exposed;
  e.user_pins = user_pins;
  resident_ += e.bytes;
  resident_peak_ = std::max(resident_peak_, resident_);
}

void Checker::death(const Input& input) {
  Extent& e = extent(input.extent);
  if (e.state == State::kFree || e.dead) violation(2, name(input.extent) + " died twice");
  e.dead = true;
  e.user_pins = 0;
  for (Thread& t : threads_) {
    for (Frame& frame : t.frames) frame.holds.erase(input.extent);
  }
  if (e.fault) --faults_;
  e.fault = false;
  if (e.state != State::kFetching && e.copy != Copy::kWriting) expected_.release = input.extent;
}

void Checker::charge(Bytes bytes) {
  resident_ += bytes;
  resident_peak_ = std::max(resident_peak_, resident_);
  if (resident_ > budget_) {
    violation(1, std::to_string(resident_) + " bytes resident and in flight, budget " +
                     std::to_string(budget_));
  }
}

// --- transfers and raw accesses ---------------------------------------------------------------

void Checker::transfer_ended(const Input& input) {
  Extent& e = extent(input.extent);
  const bool read = input.kind == Input::Kind::kReadDone;
  if (read ? e.state != State::kFetching : e.copy != Copy::kWriting) {
    violation(2, name(input.extent) + ": a transfer ended that had not begun");
    return;
  }
  --transfers_;
  if (input.flag) {
    for (Thread& t : threads_) t.io_failed = t.io_failed || t.waits != Waits::kNo;
    if (read) ++e.read_failures;
    if (!read) ++write_failures_;
  } else if (!read) {
    write_failures_ = 0;
  }
  if (e.dead) {
    expected_.release = input.extent;
    return;
  }
  if (read) {
    (input.flag ? expected_.abandon : expected_.install) = input.extent;
    return;
  }
  if (input.flag || e.copy_version != e.version) {
    expected_.forget = input.extent;
    if (input.flag && e.guarded) expected_.unguard = input.extent;
    return;
  }
  e.copy = Copy::kValid;
}

// The write it was commanded did not begin. A thread that waits may be told so.
void Checker::no_slot(const Input& input) {
  Extent& e = extent(input.extent);
  if (e.copy != Copy::kWriting) {
    violation(2, name(input.extent) + ": a write found no room that was not commanded");
    return;
  }
  --transfers_;
  below_full_ = true;
  for (Thread& t : threads_) t.io_failed = t.io_failed || t.waits != Waits::kNo;
  e.copy = Copy::kNone;
  e.guarded = false;
  if (e.dead) expected_.release = input.extent;
}

void Checker::fault(const Input& input) {
  Extent& e = extent(input.extent);
  if (e.state == State::kFree || e.dead) {
    violation(2, name(input.extent) + " is free and was touched raw");
    return;
  }
  e.exposed = true;
  if (e.state == State::kResident) {
    expected_.resume = input.extent;
    if (input.flag) {
      ++e.version;
      if (e.guarded) expected_.unguard = input.extent;
    }
    return;
  }
  e.fault_write = e.fault_write || input.flag;
  if (!e.fault) ++faults_;
  e.fault = true;
}

// A raw access must not wait for ops to end: while one waits, the pins of whoever runs may go.
void Checker::lend() {
  for (Thread& t : threads_) {
    if (!t.frames.empty()) t.frames.back().lent = true;
  }
}

// --- judgement --------------------------------------------------------------------------------

// What the innermost op lists, with what it asks for; small storages as if each lay apart, but no
// more than kSharedMax of them.
Bytes Checker::claimed(const Thread& t, Bytes alloc, bool shared) const {
  if (t.frames.empty()) return alloc;
  const Frame& frame = t.frames.back();
  Bytes apart = shared ? 0 : alloc;
  for (const auto& [id, hold] : frame.holds) apart += extents_[id].shared ? 0 : extents_[id].bytes;
  return apart + std::min(frame.small + (shared ? 1 : 0), kSharedMax) * kSharedBytes;
}

// Whether a waiting thread asks for more than fits, all its shared extents counted: then it goes on
// without these.
bool Checker::crowded(ThreadId id) const {
  const Thread& t = threads_[id];
  if (t.frames.empty()) return false;
  Bytes sum = t.waits == Waits::kAlloc ? t.alloc : 0;
  for (ExtentId other = 0; other < extents_.size(); ++other) {
    const Extent& e = extents_[other];
    if (e.user_pins > 0 || t.frames.back().holds.count(other) > 0) sum += e.bytes;
  }
  return sum > budget_;
}

Bytes Checker::needed(ThreadId id) const {
  const Thread& t = threads_[id];
  static const std::map<ExtentId, Hold> kNone;
  const auto& holds = t.frames.empty() ? kNone : t.frames.back().holds;
  Bytes sum = t.waits == Waits::kAlloc ? claimed(t, t.alloc, t.alloc_shared) : claimed(t, 0, false);
  for (ExtentId other = 0; other < extents_.size(); ++other) {
    const Extent& e = extents_[other];
    if (e.user_pins > 0 && holds.count(other) == 0) sum += e.bytes;
  }
  return sum;
}

// Who relies on `id` being resident: the innermost op of a thread that runs, unless a raw access
// had to wait meanwhile. Null if nobody.
const char* Checker::holder(ExtentId id, bool writers_only) const {
  if (extents_[id].user_pins > 0) return "a user's pin";
  if (faults_ > 0) return nullptr;  // a raw access waits: any pin may be lent to it
  for (const Thread& t : threads_) {
    if (t.waits != Waits::kNo || t.frames.empty() || t.frames.back().lent) continue;
    const auto at = t.frames.back().holds.find(id);
    if (at == t.frames.back().holds.end() || !at->second.held) continue;
    if (t.frames.back().crowded && extents_[id].shared) continue;
    if (at->second.write || !writers_only) return "a running op";
  }
  return nullptr;
}

bool Checker::somebody_runs(ThreadId but) const {
  for (ThreadId id = 0; id < threads_.size(); ++id) {
    if (id != but && threads_[id].waits == Waits::kNo && !threads_[id].frames.empty()) return true;
  }
  return false;
}

void Checker::finish(const Input& input) {
  if (expected_.install != kNoExtent) violation(2, name(expected_.install) + " was read and not installed");
  if (expected_.abandon != kNoExtent) violation(6, name(expected_.abandon) + ": a failed read was not abandoned");
  if (expected_.release != kNoExtent) violation(1, name(expected_.release) + " is dead and idle and was not released");
  if (expected_.resume != kNoExtent) violation(11, name(expected_.resume) + ": a raw access was not resumed");
  if (expected_.forget != kNoExtent) violation(4, name(expected_.forget) + ": a copy that is no copy was not forgotten");
  if (expected_.unguard != kNoExtent) violation(4, name(expected_.unguard) + " was not unguarded");
  std::sort(seen_.begin(), seen_.end());
  seen_.erase(std::unique(seen_.begin(), seen_.end()), seen_.end());
  for (ExtentId id : seen_) check_extent(id);
  check_progress();
  for (ThreadId id = 0; id < threads_.size(); ++id) {  // also if more room comes while it waits
    if (threads_[id].waits == Waits::kNo || threads_[id].frames.empty()) continue;
    Frame& frame = threads_[id].frames.back();
    frame.crowded = frame.crowded || crowded(id);
  }
  if (faults_ > 0) lend();
  if (input.kind == Input::Kind::kOpBegin && outcome_ == Outcome::kGo && resident_ > budget_) {
    violation(1, "an op went on while more than the budget is resident");
  }
}

void Checker::check_extent(ExtentId id) {
  const Extent& e = extents_[id];
  if (e.dead || e.state == State::kFree) return;
  if (e.state != State::kResident && e.copy != Copy::kValid) {
    violation(2, name(id) + " has no valid copy");
  }
  if (e.state == State::kResident && e.copy == Copy::kValid) {
    if (!e.guarded) violation(4, name(id) + " has a copy below and is not guarded");
    if (e.copy_version != e.version) violation(4, name(id) + ": a stale copy is believed");
  }
}

void Checker::check_progress() {
  if (fatal_ || transfers_ > 0) return;
  if (faults_ > 0) {
    violation(11, "a raw access waits for ever: no transfer is under way");
    return;
  }
  for (ThreadId id = 0; id < threads_.size(); ++id) {
    if (threads_[id].waits == Waits::kNo) continue;
    if (somebody_runs(id)) return;
    violation(11, "thread " + std::to_string(id) + " waits for ever: nothing moves, nobody runs");
    return;
  }
}

}  // namespace outsize::check
