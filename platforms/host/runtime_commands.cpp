// Commands become page moves and transfers; completions become inputs.
//
// Note [Exposed extents]. On userfaultfd, pages cannot be moved into place and write-protected in
// one step: between the two, a thread that never faulted could write unnoticed. Only raw pointers
// can do that, so an extent that a raw pointer is known to reach (it faulted, or Python handed out
// its address) is copied into place, which can be done so that it arrives guarded. See ADR 0004.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "platforms/host/runtime_impl.h"

namespace outsize::host {
namespace {

IoRequest::Urgency io_urgency(Urgency urgency) {
  switch (urgency) {
    case Urgency::kDemand: return IoRequest::Urgency::kDemand;
    case Urgency::kPrefetch: return IoRequest::Urgency::kPrefetch;
    case Urgency::kPressedWrite: return IoRequest::Urgency::kPressedWrite;
    case Urgency::kWriteAhead: return IoRequest::Urgency::kWriteAhead;
  }
  return IoRequest::Urgency::kDemand;
}

[[noreturn]] void die(const std::string& message) {
  std::fprintf(stderr, "outsize: %s\n", message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace

Outcome Runtime::Impl::feed(const Input& input) {
  const Outcome outcome = engine->step(input, commands);
  if (!commands.empty() && !running_commands) run_commands();
  if (timeline != nullptr) [[unlikely]] timeline->resident(pool->present(), on_timeline(monotonic_now()));
  return outcome;
}

// Commands may lead to inputs (a slot that cannot be had) and so to more commands: one flat loop.
void Runtime::Impl::run_commands() {
  running_commands = true;
  while (next_command < commands.size()) {
    const Command command = commands[next_command++];
    run(command);
  }
  commands.clear();
  next_command = 0;
  running_commands = false;
  trim_to_budget();
}

// Pages that were adopted and then left, or left because the budget fell, have no place in it.
void Runtime::Impl::trim_to_budget() {
  const Bytes excess = pool->present() - options.budget;
  if (excess > 0 && pool->bytes() > 0) pool->trim(std::max<Bytes>(pool->bytes() - excess, 0));
}

void Runtime::Impl::run(const Command& command) {
  HostExtent* e = command.extent < extents.size() ? &extents[command.extent] : nullptr;
  switch (command.kind) {
    case Command::Kind::kGrant:
    case Command::Kind::kRefuse: {
      ThreadSlot& waiting = *threads[command.thread];
      waiting.refused = command.kind == Command::Kind::kRefuse;
      if (timeline != nullptr) timeline->goes_on(command.thread, on_timeline(monotonic_now()));
      if (waiting.refused) {
        waiting.refusal = command.refusal;
        waiting.needed = command.bytes;
        if (command.refusal == Refusal::kIo) {
          waiting.error = last_failure();
          if (spill) spill->ask_again();  // whoever is told may make room
          if (!no_room) io_error_pending = false;
        }
      } else if (waiting.birth != kNoExtent) {
        give_pages(waiting);
      }
      waiting.signal.store(1, std::memory_order_release);
      waiting.signal.notify_one();
      break;
    }
    case Command::Kind::kEvict: evict(command.extent); break;
    case Command::Kind::kFetch: start_fetch(command); break;
    case Command::Kind::kInstall: install(command); break;
    case Command::Kind::kAbandon:
      if (e->staging.address != nullptr) pool->put(e->staging);  // it was refused its pages otherwise
      e->staging = {};
      break;
    case Command::Kind::kWrite: start_write(command); break;
    case Command::Kind::kUnguard:
      if (Status status = mover->unguard(e->range.address, e->range.bytes); !status) {
        die(status.error().message());
      }
      if (!faulted.empty()) record_resumed(command.extent);
      break;
    case Command::Kind::kForget: forget(command.extent); break;
    case Command::Kind::kRelease: release(command.extent); break;
    case Command::Kind::kResume:
      mover->resume(e->range.address, e->range.bytes);
      if (!faulted.empty()) record_resumed(command.extent);
      break;
    case Command::Kind::kPromote:
      io->promote(command.extent, io_urgency(command.urgency), reader_of(command.urgency));
      break;
    case Command::Kind::kFatal:
      die("a raw access (NumPy view, memoryview or pointer) to a spilled tensor cannot be served: " +
          (last_failure().what.empty() ? std::string("no room can be made for it") : last_failure().message()) +
          " The run stops rather than go on with wrong bytes. Try a larger " +
          (options.process_budget > 0 ? "--budget-rss" : "--budget") + " or another --spill-dir.");
  }
}

void Runtime::Impl::evict(ExtentId id) {
  HostExtent& e = extents[id];
  if (e.kind == HostExtent::Kind::kSmall) small->on_evict(id);
  auto to = pool->addresses(e.range.bytes);
  if (!to) die("the address space reserved for tensors is exhausted");
  if (Status status = mover->move_out(e.range.address, to->address, e.range.bytes); !status) {
    die(status.error().message());
  }
  pool->put(*to);
  bury_emptied();
}

void Runtime::Impl::bury(ExtentId id) {
  counts(id, false);
  Input input;
  input.kind = Input::Kind::kDeath;
  input.extent = id;
  feed(input);
}

// Extents of small storages that emptied while they took births and now take no more.
void Runtime::Impl::bury_emptied() {
  for (ExtentId id = small->take_emptied(); id != kNoExtent; id = small->take_emptied()) bury(id);
}

void Runtime::Impl::start_fetch(const Command& command) {
  HostExtent& e = extents[command.extent];
  Result<PageRange> staging = take_pages(e.range.bytes);
  if (!staging) {
    io_failed(command.extent, false, staging.error());
    return;
  }
  e.staging = *staging;
  const bool source = e.copy_is_source();
  IoRequest request;
  request.kind = IoRequest::Kind::kRead;
  request.urgency = io_urgency(command.urgency);
  request.fd = source ? e.source_fd : spill->fd();
  request.offset = source ? e.source_offset : e.slot.offset;
  request.pieces = e.slot.pieces;
  request.memory = e.staging.address;
  request.bytes = e.staging.bytes;
  request.token = command.extent;
  request.helper = reader_of(command.urgency);
  if (timeline != nullptr) tell_asked(command.extent, false, command.urgency);
  io->submit(request);
}

void Runtime::Impl::install(const Command& command) {
  HostExtent& e = extents[command.extent];
  Status status = mover->move_in(e.staging.address, e.range.address, e.range.bytes, command.flag, command.at_once);
  if (!status) die(status.error().message());
  pool->give_back(e.staging);
  e.staging = {};
  if (!faulted.empty()) record_resumed(command.extent);
}

void Runtime::Impl::start_write(const Command& command) {
  HostExtent& e = extents[command.extent];
  if (!e.slot.valid()) {
    Result<Slot> reserved = spill->allocate(e.range.bytes);
    if (!reserved) {
      no_slot(command.extent, reserved.error());
      return;
    }
    e.slot = *reserved;
  }
  no_room.reset();
  if (Status status = mover->guard(e.range.address, e.range.bytes); !status) {
    // Some of its pages may be guarded, and nobody would open them again.
    if (Status undone = mover->unguard(e.range.address, e.range.bytes); !undone) {
      die(undone.error().message());
    }
    table[command.extent].guarded = false;
    io_failed(command.extent, true, status.error());
    return;
  }
  IoRequest request;
  request.kind = IoRequest::Kind::kWrite;
  request.urgency = io_urgency(command.urgency);
  request.fd = spill->fd();
  request.offset = e.slot.offset;
  request.pieces = e.slot.pieces;
  request.memory = e.range.address;
  request.bytes = e.range.bytes;
  request.token = command.extent;
  if (timeline != nullptr) tell_asked(command.extent, true, command.urgency);
  io->submit(request);
}

// Where there is no room the engine may make some; any other failure is one of the transfer.
void Runtime::Impl::no_slot(ExtentId id, const Error& error) {
  if (error.code != ErrorCode::kOutOfSpace) {
    table[id].guarded = false;
    io_failed(id, true, error);
    return;
  }
  no_room = error;  // for whoever is refused because of it
  Input input;
  input.kind = Input::Kind::kNoSlot;
  input.extent = id;
  feed(input);
}

// What was the user's file still is so no longer, and needs room of ours.
void Runtime::Impl::forget(ExtentId id) {
  forget_copy(id);
  HostExtent& e = extents[id];
  if (e.source_fd < 0) return;
  const bool alive_still = !table[id].dying;
  if (alive_still) counts(id, false);
  e.source_fd = -1;
  if (alive_still) counts(id, true);
}

void Runtime::Impl::forget_copy(ExtentId id) {
  HostExtent& e = extents[id];
  if (!e.slot.valid()) return;
  spill->release(e.slot);
  e.slot = {};
}

void Runtime::Impl::release(ExtentId id) {
  HostExtent& e = extents[id];
  if (!faulted.empty()) faulted.erase(id);
  forget_copy(id);
  if (e.staging.address != nullptr) {
    pool->put(e.staging);
    e.staging = {};
  }
  Extent& record = table[id];
  if (record.guarded) {
    record.guarded = false;
    if (Status status = mover->unguard(e.range.address, e.range.bytes); !status) {
      die(status.error().message());
    }
  }
  if (e.kind == HostExtent::Kind::kAdopted) {
    release_adopted(id);
    return;
  }
  if (e.kind == HostExtent::Kind::kSmall) small->forget(id);
  const auto chunk = e.range.address == nullptr
                         ? std::size_t{0}
                         : static_cast<std::size_t>((e.range.address - arena) / kChunkBytes);
  for (std::uint32_t i = 0; i < e.range.chunks; ++i) chunk_owner[chunk + i] = kNoExtent;
  if (e.range.address == nullptr) {
    // It was refused its pages: there is nothing to give back.
  } else if (record.resident_at_death) {
    pool->put(e.range);
    if (!serving) pool->trim(0);
  } else {
    pool->give_back(e.range);
  }
  e = HostExtent{};
  free_ids.push_back(id);
}

// Feeds a transfer that never began as one that failed.
void Runtime::Impl::io_failed(ExtentId id, bool write, Error error) {
  no_room.reset();
  io_error = std::move(error);
  if (io_error.where.empty()) {
    io_error.where = extents[id].copy_is_source() ? "file whose mapping was adopted"
                                                  : "spill file in " + options.spill_dir;
  }
  io_error_pending = true;  // the next op is told, unless somebody who waits is
  Input input;
  input.kind = write ? Input::Kind::kWriteDone : Input::Kind::kReadDone;
  input.extent = id;
  input.flag = true;
  engine->step(input, commands);
  if (!running_commands) run_commands();
}

// On an I/O thread, without the lock: hashing takes as long as a page move takes many times over.
// What changes while it is hashed is torn, and its copy forgotten.
Status Runtime::Impl::verified(ExtentId id, bool write) {
  PageRange bytes;
  {
    std::lock_guard guard(lock);
    const HostExtent& e = extents[id];
    if (!e.slot.valid()) return {};  // its copy is a file of the user's
    bytes = write ? e.range : e.staging;
  }
  const Nanos before = monotonic_now();
  const std::uint64_t sum = XXH3_64bits(bytes.address, static_cast<std::size_t>(bytes.bytes));
  const Nanos took = monotonic_now() - before;
  std::lock_guard guard(lock);
  verified_bytes += bytes.bytes;
  verify += took;
  HostExtent& e = extents[id];
  if (write) {
    e.checksum = sum;
  } else if (sum != e.checksum) {
    return Error{ErrorCode::kIo, "spilled bytes came back different from what was written (checksum " +
                 std::to_string(sum) + " instead of " + std::to_string(e.checksum) + ", " +
                 std::to_string(bytes.bytes) + " bytes at offset " + std::to_string(e.slot.offset) + ")",
                 "spill file in " + options.spill_dir,
                 "The disk, its driver or another program damages data: use another --spill-dir."};
  }
  return {};
}

void Runtime::Impl::io_done(const IoResult& result) {
  const auto id = static_cast<ExtentId>(result.token);
  std::unique_lock guard(lock);
  const bool write = table[id].where != Where::kFetching;
  Status status = result.status;
  if (options.verify && status.ok()) {
    guard.unlock();
    status = verified(id, write);
    guard.lock();
  }
  if (timeline != nullptr) tell_ended(id, write, !status.ok(), result.nanos);
  if (!status.ok()) {
    io_failed(id, write, status.error());
    return;
  }
  Input input;
  input.kind = write ? Input::Kind::kWriteDone : Input::Kind::kReadDone;
  input.extent = id;
  input.now = result.nanos;
  feed(input);
  last_plan = 0;
  plan_if_useful(monotonic_now());
}

void Runtime::Impl::plan_if_useful(Nanos now) {
  if (!engine->wants_plan() || now - last_plan < kPlanEvery) return;
  last_plan = now;
  Input input;
  input.kind = Input::Kind::kPlan;
  input.now = now;
  feed(input);
}

// A fault may be heard after what it waited for is over: of several threads that touched one extent
// the last may be heard when the others have used it and let it die. Whoever still waits faults
// again, so only an access that keeps coming back is a wild one.
bool Runtime::Impl::is_stray(const char* address) {
  constexpr int kStraysMax = 1000;
  strays = address == stray ? strays + 1 : 0;
  stray = address;
  return strays > kStraysMax;
}

void Runtime::Impl::on_fault(const Fault& fault) {
  std::lock_guard guard(lock);
  const ExtentId id = extent_at(fault.address);
  const char* p = static_cast<const char*>(fault.address);
  if (id == kNoExtent || p >= extents[id].range.address + extents[id].range.bytes) {
    if (is_stray(p)) {
      die(id == kNoExtent ? "a raw pointer was used after its tensor died"
                          : "a raw pointer was used beyond the end of its tensor");
    }
    mover->resume(fault.address, kPageBytes);
    return;
  }
  if (recorder != nullptr) record_fault(id, fault);
  Input input;
  input.kind = Input::Kind::kFault;
  input.extent = id;
  input.flag = fault.write;
  feed(input);
}

}  // namespace outsize::host
