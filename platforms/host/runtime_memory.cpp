// Births and deaths: the adapter's allocator ends here.
#include <cstdlib>
#include <mutex>
#include <utility>

#include "platforms/host/runtime_impl.h"

namespace outsize::host {

ExtentId Runtime::Impl::new_id() {
  if (free_ids.empty()) {
    extents.emplace_back();
    table.ensure(static_cast<ExtentId>(extents.size() - 1));
    return static_cast<ExtentId>(extents.size() - 1);
  }
  const ExtentId id = free_ids.back();
  free_ids.pop_back();
  return id;
}

// A new extent with pages. The lock is held before and after, not throughout. An extent is born into
// an op: outside any, one is made up.
Result<ExtentId> Runtime::Impl::new_extent(ThreadSlot& slot, Bytes bytes, HostExtent::Kind kind) {
  constexpr const char* kDoing = "allocation";
  return slot.depth > 0 ? new_extent_in_op(slot, bytes, kind, kDoing)
                        : new_extent_in_own_op(slot, bytes, kind, kDoing);
}

Status Runtime::Impl::begin_own_op(ThreadSlot& slot, const char* doing) {
  Input input;
  input.kind = Input::Kind::kOpBegin;
  input.thread = slot.id;
  input.now = engine->watching() ? monotonic_now() : 0;
  slot.signal.store(0, std::memory_order_relaxed);
  return feed(input) == Outcome::kWait ? wait(slot, trace::WaitCause::kRoom, doing, monotonic_now()) : Status{};
}

void Runtime::Impl::end_own_op(ThreadSlot& slot) {
  Input input;
  input.kind = Input::Kind::kOpEnd;
  input.thread = slot.id;
  feed(input);
}

Result<ExtentId> Runtime::Impl::new_extent_in_own_op(ThreadSlot& slot, Bytes bytes,
                                                     HostExtent::Kind kind, const char* doing) {
  if (Status status = begin_own_op(slot, doing); !status) return status.error();
  Result<ExtentId> id = new_extent_in_op(slot, bytes, kind, doing);
  end_own_op(slot);
  return id;
}

// Makes so much room, as far as that can be, for whoever takes it.
void Runtime::Impl::room_in_own_op(ThreadSlot& slot, Bytes bytes, const char* doing) {
  auto room = new_extent_in_own_op(slot, bytes, HostExtent::Kind::kNone, doing);
  if (room) bury(*room);
  else if (slot.refusal == Refusal::kIo) io_error_pending = true;  // the next op tells
}

// What RAM cannot hold the spill file must, before it is born: and beside it two of the largest, with
// which any extent can be brought back when both are full. A raw access needs that: it cannot be told.
// RAM holds less of them while a piece of the user's file may have to be in it.
Status Runtime::Impl::room_below(Bytes bytes) {
  if (!serving) return {};
  const Bytes piece_of_file = of_file > 0 && largest_of_file <= options.budget ? largest_of_file : 0;
  const Bytes below = alive_bytes + bytes + piece_of_file - engine->budget();
  if (below <= 0 || bytes > options.budget) return {};  // what RAM cannot hold at all is refused for that
  Status status = spill->hold(below, 2 * std::max(largest_extent, bytes));
  if (status) return {};
  Error error = status.error();
  error.what = "another " + mib(bytes) + " make " + mib(alive_bytes + bytes) + " of tensors, of which RAM may hold " +
               mib(options.budget) + ". " + error.what;
  return error;
}

// Bytes that are the user's file still need no room of ours.
void Runtime::Impl::counts(ExtentId id, bool is_alive) {
  const HostExtent& e = extents[id];
  if (e.kind == HostExtent::Kind::kNone) return;
  largest_extent = std::max(largest_extent, e.range.bytes);
  if (e.source_fd < 0) {
    alive_bytes += is_alive ? e.range.bytes : -e.range.bytes;
    return;
  }
  of_file += is_alive ? 1 : -1;
  largest_of_file = std::max(largest_of_file, e.range.bytes);
}

Result<ExtentId> Runtime::Impl::new_extent_in_op(ThreadSlot& slot, Bytes bytes,
                                                 HostExtent::Kind kind, const char* doing) {
  if (kind != HostExtent::Kind::kNone) {
    if (Status status = room_below(bytes); !status) {
      return told_in_op(status.error(), doing, slot.sites.empty() ? 0 : slot.sites.back());
    }
  }
  Input input;
  input.kind = Input::Kind::kAlloc;
  input.thread = slot.id;
  input.extent = slot.birth = new_id();
  input.bytes = slot.birth_bytes = bytes;
  slot.birth_kind = kind;
  input.flag = kind == HostExtent::Kind::kSmall;
  slot.signal.store(0, std::memory_order_relaxed);
  if (feed(input) == Outcome::kGo) {
    give_pages_and_record(slot);
  } else if (Status status = wait(slot, trace::WaitCause::kRoom, doing, monotonic_now()); !status) {
    slot.birth = kNoExtent;
    free_ids.push_back(input.extent);
    return status.error();
  }
  if (!slot.birth_status) return slot.birth_status.error();
  return input.extent;
}

// A trace is of the program's own time: pages that are fresh here are warm under a budget, or the other way round.
void Runtime::Impl::give_pages_and_record(ThreadSlot& slot) {
  if (recorder == nullptr) [[likely]] return give_pages(slot);
  const Bytes before = pool->made();
  const Nanos began = monotonic_now();
  give_pages(slot);
  if (pool->made() == before) return;
  const Nanos now = monotonic_now();
  recorder->wait(now, slot.id, trace::WaitCause::kPages, now - began);
}

Result<PageRange> Runtime::Impl::take_pages(Bytes bytes) {
  pool->look(engine->stats().ops, stall);
  return pool->take(bytes);
}

// The room is granted. An extent that cannot have its pages dies at once.
void Runtime::Impl::give_pages(ThreadSlot& slot) {
  const ExtentId id = std::exchange(slot.birth, kNoExtent);
  slot.birth_status = {};
  if (slot.birth_kind == HostExtent::Kind::kNone) {
    // It has no pages that could leave, and raw accesses may take even a running op's pins away.
    Input input;
    input.kind = Input::Kind::kPin;
    input.extent = id;
    feed(input);
    return;
  }
  Result<PageRange> range = take_pages(slot.birth_bytes);
  if (!range) {
    slot.birth_status = range.error();
    bury(id);
    return;
  }
  extents[id].kind = slot.birth_kind;
  extents[id].range = *range;
  const auto chunk = static_cast<std::size_t>((range->address - arena) / kChunkBytes);
  for (std::uint32_t i = 0; i < range->chunks; ++i) chunk_owner[chunk + i] = id;
  counts(id, true);
}

Result<void*> Runtime::Impl::allocate_large(ThreadSlot& slot, std::size_t bytes) {
  const Bytes asked = static_cast<Bytes>(bytes);
  Result<ExtentId> id = new_extent(slot, round_up(asked, kPageBytes), HostExtent::Kind::kLarge);
  if (!id) return id.error();
  extents[*id].asked = asked;
  large_live += asked;
  return static_cast<void*>(extents[*id].range.address);
}

Result<void*> Runtime::Impl::allocate_small(ThreadSlot& slot, std::size_t bytes) {
  const SiteId site = slot.sites.empty() ? 0 : slot.sites.back();
  for (;;) {
    ExtentId extent = kNoExtent;
    char* address = small->allocate(static_cast<Bytes>(bytes), site, extent);
    bury_emptied();
    if (address != nullptr) {
      Input input;
      input.kind = Input::Kind::kTouch;
      input.thread = slot.id;
      input.extent = extent;
      slot.signal.store(0, std::memory_order_relaxed);
      if (feed(input) == Outcome::kGo) return static_cast<void*>(address);
      // It has been refused already.
      Status refused = wait(slot, trace::WaitCause::kRoom, "allocation", monotonic_now());
      if (small->deallocate(extent, address)) bury(extent);
      return refused.error();
    }
    Result<ExtentId> id = new_extent(slot, kSharedBytes, HostExtent::Kind::kSmall);
    if (!id) return id.error();
    small->open(*id, extents[*id].range.address, site);
    bury_emptied();
  }
}

Result<void*> Runtime::allocate(std::size_t bytes) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  Impl& m = *the_impl();
  if (m.in_child.load(std::memory_order_relaxed)) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, bytes) != 0) {
      return Error{ErrorCode::kOutOfBudget, "out of memory in a forked child", "allocation", ""};
    }
    return memory;
  }
  ThreadSlot& slot = m.slot();
  std::lock_guard guard(m.lock);
  Result<void*> memory = static_cast<Bytes>(bytes) >= kLargeBytes ? m.allocate_large(slot, bytes)
                                                                  : m.allocate_small(slot, bytes);
  const Bytes live = m.large_live + m.small->live();
  if (live > m.tensor_peak) m.tensor_peak = live;
  if (m.recorder != nullptr && memory.ok()) [[unlikely]] {
    m.recorder->birth(m.recorder->latest(), slot.id, *memory, bytes);
  }
  return memory;
}

void Runtime::deallocate(void* address) noexcept {
  if (address == nullptr) return;
  if (!owns(address)) {
    std::free(address);  // born in a forked child
    return;
  }
  Impl& m = *the_impl();
  if (m.in_child.load(std::memory_order_relaxed)) return;  // the parent's
  std::lock_guard guard(m.lock);
  if (m.recorder != nullptr) [[unlikely]] m.recorder->death(m.recorder->latest(), Impl::thread_id(), address);
  const ExtentId id = m.extent_at(address);
  HostExtent& e = m.extents[id];
  if (e.kind == HostExtent::Kind::kSmall) {
    if (!m.small->deallocate(id, static_cast<char*>(address))) return;
  } else {
    m.large_live -= e.asked;
  }
  m.bury(id);
}

}  // namespace outsize::host
