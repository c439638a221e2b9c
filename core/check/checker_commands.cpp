// What commands may do, and what they do to the judge's picture.
#include <algorithm>

#include "core/check/checker.h"

namespace outsize::check {
namespace {

// A command fulfils an expectation of the step it is in.
void meet(ExtentId& expected, ExtentId id) {
  if (expected == id) expected = kNoExtent;
}

}  // namespace

void Checker::obey(const Command& command) {
  switch (command.kind) {
    case Command::Kind::kGrant: grant(command); break;
    case Command::Kind::kRefuse: refuse(command); break;
    case Command::Kind::kEvict: evict(command); break;
    case Command::Kind::kFetch: fetch(command); break;
    case Command::Kind::kInstall: install(command); break;
    case Command::Kind::kAbandon: abandon(command); break;
    case Command::Kind::kWrite: write(command); break;
    case Command::Kind::kUnguard: unguard(command); break;
    case Command::Kind::kForget: forget(command); break;
    case Command::Kind::kRelease: release(command); break;
    case Command::Kind::kResume: resume(command); break;
    case Command::Kind::kPromote: promote(command); break;
    case Command::Kind::kFatal: fatal(command); break;
  }
}

// --- answers to threads -----------------------------------------------------------------------

void Checker::grant(const Command& command) {
  Thread& t = thread(command.thread);
  const std::string who = "thread " + std::to_string(command.thread);
  if (t.waits == Waits::kNo) {
    violation(11, who + " was granted what it does not wait for");
    return;
  }
  if (!t.frames.empty()) {
    Frame& frame = t.frames.back();
    frame.crowded = frame.crowded || crowded(command.thread);
    for (const auto& [id, hold] : frame.holds) {
      if (frame.crowded && extent(id).shared) continue;
      if (extent(id).state != State::kResident) {
        violation(3, who + " goes on without " + name(id));
      }
    }
  }
  hold_all(t);
  if (t.waits == Waits::kAlloc) {
    birth(t, t.alloc_extent, t.alloc, t.alloc_shared);
  } else if (resident_ > budget_) {
    violation(1, who + " goes on while more than the budget is resident");
  }
  t.waits = Waits::kNo;
}

void Checker::refuse(const Command& command) {
  Thread& t = thread(command.thread);
  const std::string who = "thread " + std::to_string(command.thread);
  ++refusals_;
  if (t.waits == Waits::kNo) {
    violation(11, who + " was refused what it does not wait for");
    return;
  }
  const bool op = t.waits == Waits::kOp;
  if (command.extent != (t.waits == Waits::kAlloc ? t.alloc_extent : kNoExtent)) {
    violation(11, who + ": the refusal names " + name(command.extent));
  }
  if (command.refusal == Refusal::kIo) {
    if (!t.io_failed) violation(6, who + " was told of a failed transfer; none failed");
  } else {
    const Bytes need = needed(command.thread);
    if (need <= budget_) {
      violation(11, who + " was refused " + std::to_string(need) + " bytes of a budget of " +
                        std::to_string(budget_));
    }
    if (command.bytes > need) {
      violation(1, who + " was told that it needs " + std::to_string(command.bytes) + " bytes; it needs " +
                       std::to_string(need));
    }
  }
  t.waits = Waits::kNo;
  if (op) {
    pop_frame(t);
  } else {
    hold_all(t);
  }
}

// --- residency --------------------------------------------------------------------------------

void Checker::evict(const Command& command) {
  Extent& e = extent(command.extent);
  const std::string what = name(command.extent);
  ++moves_;
  if (e.state != State::kResident || e.dead) {
    violation(2, what + " was evicted while not resident");
    return;
  }
  if (e.copy != Copy::kValid) violation(2, what + " was evicted without a valid copy below");
  if (e.copy == Copy::kValid && e.copy_version != e.version) {
    violation(4, what + " was evicted with a stale copy below");
  }
  if (const char* who = holder(command.extent, false)) {
    violation(3, what + " was evicted under " + who);
  }
  for (Thread& t : threads_) {
    if (t.frames.empty()) continue;
    const auto at = t.frames.back().holds.find(command.extent);
    if (at != t.frames.back().holds.end()) at->second.held = false;
  }
  e.state = State::kAbsent;
  e.guarded = false;
  resident_ -= e.bytes;
}

void Checker::fetch(const Command& command) {
  Extent& e = extent(command.extent);
  ++moves_;
  ++transfers_;
  if (e.state != State::kAbsent || e.dead) violation(2, name(command.extent) + " was fetched while not absent");
  if (e.copy != Copy::kValid) violation(2, name(command.extent) + " was fetched from no valid copy");
  e.state = State::kFetching;
  charge(e.bytes);
}

void Checker::install(const Command& command) {
  Extent& e = extent(command.extent);
  if (expected_.install != command.extent) violation(2, name(command.extent) + " was installed without a read");
  meet(expected_.install, command.extent);
  e.state = State::kResident;
  e.read_failures = 0;
  e.guarded = command.flag;
  if (command.flag && e.fault_write) {
    violation(4, name(command.extent) + " is waited for by a raw write and was not installed as changed");
  }
  if (command.flag && e.exposed && !command.at_once) {
    violation(4, name(command.extent) + " is exposed and could be written to before it was guarded");
  }
  if (!command.flag) ++e.version;
  if (e.fault) --faults_;
  e.fault = e.fault_write = false;
}

void Checker::abandon(const Command& command) {
  Extent& e = extent(command.extent);
  if (expected_.abandon != command.extent) violation(2, name(command.extent) + ": a read was abandoned that did not fail");
  meet(expected_.abandon, command.extent);
  e.state = State::kAbsent;
  resident_ -= e.bytes;
}

void Checker::write(const Command& command) {
  Extent& e = extent(command.extent);
  const std::string what = name(command.extent);
  ++moves_;
  ++transfers_;
  if (e.state != State::kResident || e.dead) violation(2, what + " was written below while not resident");
  if (e.copy != Copy::kNone) violation(2, what + " was written below twice");
  if (const char* who = holder(command.extent, true)) {
    violation(4, what + " was guarded and written below under " + who + " that writes");
  }
  e.copy = Copy::kWriting;
  e.copy_version = e.version;
  e.guarded = true;
}

// From here on nobody notices writes.
void Checker::unguard(const Command& command) {
  Extent& e = extent(command.extent);
  if (!e.guarded) violation(4, name(command.extent) + " was unguarded and had no guard");
  meet(expected_.unguard, command.extent);
  e.guarded = false;
  ++e.version;
}

void Checker::forget(const Command& command) {
  Extent& e = extent(command.extent);
  const bool ended = expected_.forget == command.extent;
  if (e.copy != Copy::kValid && !ended) violation(2, name(command.extent) + " has no copy to forget");
  if (e.copy == Copy::kWriting && !ended) violation(2, name(command.extent) + ": a copy was forgotten while being written");
  if (e.state != State::kResident) violation(2, name(command.extent) + ": the only copy was forgotten");
  meet(expected_.forget, command.extent);
  e.copy = Copy::kNone;
  below_full_ = false;
}

void Checker::release(const Command& command) {
  Extent& e = extent(command.extent);
  if (expected_.release != command.extent) {
    violation(2, name(command.extent) + " was released alive or in the middle of a transfer");
    return;
  }
  meet(expected_.release, command.extent);
  if (e.copy == Copy::kValid) below_full_ = false;
  if (e.state != State::kAbsent) resident_ -= e.bytes;
  e = Extent{};
}

// --- raw accesses -----------------------------------------------------------------------------

void Checker::resume(const Command& command) {
  if (extent(command.extent).state != State::kResident) {
    violation(3, name(command.extent) + ": a raw access was resumed without its bytes");
  }
  meet(expected_.resume, command.extent);
}

void Checker::promote(const Command& command) {
  const Extent& e = extent(command.extent);
  if (e.state != State::kFetching && e.copy != Copy::kWriting) {
    violation(11, name(command.extent) + ": there is no transfer to hurry");
  }
}

void Checker::fatal(const Command& command) {
  constexpr int kOftenEnough = 4;  // a transfer that failed less often deserves another try
  const Extent& e = extent(command.extent);
  fatal_ = true;
  Bytes pinned = 0;
  for (const Extent& other : extents_) pinned += other.user_pins > 0 ? other.bytes : 0;
  if (e.read_failures >= kOftenEnough || write_failures_ >= kOftenEnough || below_full_) return;
  if (e.bytes + pinned > budget_) return;
  violation(11, name(command.extent) + ": the run was stopped for a raw access that can be served");
}

}  // namespace outsize::check
