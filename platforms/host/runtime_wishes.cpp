// What the program itself says of its bytes: that raw pointers to them are about, that they must stay,
// that they are used soon or not soon.
#include <mutex>

#include "platforms/host/runtime_impl.h"

namespace outsize::host {

void Runtime::expose(const void* address, std::size_t bytes) {
  Impl& m = *the_impl();
  if (m.in_child.load(std::memory_order_relaxed)) return;
  m.cover_modules();  // a module that will pass these bytes to the kernel may just have been loaded
  std::lock_guard guard(m.lock);
  if (m.recorder != nullptr) m.recorder->expose(monotonic_now(), Impl::thread_id(), address, bytes);
  const Operand operand{address, bytes, Access::kRead};
  m.resolve({&operand, 1});
  for (const OperandRef& ref : m.refs) {
    Input input;
    input.kind = Input::Kind::kExpose;
    input.extent = ref.extent;
    m.feed(input);
  }
}

// --- pins -------------------------------------------------------------------------------------

Bytes Runtime::Impl::pinned() const {
  Bytes sum = 0;
  for (const auto& [id, entry] : held) {
    if (alive(id, entry.born)) sum += table[id].bytes;
  }
  return sum;
}

// False where a raw access of another thread took a part of them away again.
bool Runtime::Impl::try_pin(const Operand& operand, Pins& pins) {
  resolve({&operand, 1});
  for (const OperandRef& ref : refs) {
    if (table[ref.extent].where != Where::kResident) return false;
  }
  for (const OperandRef& ref : refs) {
    Input input;
    input.kind = Input::Kind::kPin;
    input.extent = ref.extent;
    feed(input);
    Held& entry = held[ref.extent];
    const std::uint64_t born = table[ref.extent].born;
    if (entry.born != born) entry = Held{born, 0};
    ++entry.pins;
    pins.push_back({ref.extent, born, nullptr, 0});
  }
  return true;
}

Result<Pins> Runtime::pin(const void* address, std::size_t bytes) {
  Impl& m = *the_impl();
  Pins pins;
  if (m.in_child.load(std::memory_order_relaxed)) return pins;
  const Operand operand{address, bytes, Access::kRead};
  ThreadSlot& slot = m.slot();
  std::lock_guard guard(m.lock);
  for (bool done = false; !done;) {
    if (Status status = m.begin_op(slot, 0, {&operand, 1}, false, 0); !status) return status.error();
    done = m.try_pin(operand, pins);
    m.end_op(slot);
  }
  if (pins.empty()) return pins;
  pins.front().address = address;
  pins.front().bytes = bytes;
  if (m.recorder != nullptr) m.recorder->pin(monotonic_now(), slot.id, address, bytes);
  return pins;
}

void Runtime::unpin(const Pins& pins) noexcept {
  Impl* const m = the_impl();
  if (m == nullptr || m->in_child.load(std::memory_order_relaxed)) return;
  std::lock_guard guard(m->lock);
  for (const Pinned& pin : pins) {
    const auto at = m->held.find(pin.extent);
    if (at == m->held.end() || at->second.born != pin.born) continue;  // another lives there now
    if (m->alive(pin.extent, pin.born)) {
      if (m->recorder != nullptr) m->recorder->unpin(monotonic_now(), Impl::thread_id(), pin.address, pin.bytes);
      Input input;
      input.kind = Input::Kind::kUnpin;
      input.extent = pin.extent;
      m->feed(input);
    }
    if (--at->second.pins == 0) m->held.erase(at);
  }
}

// --- hints ------------------------------------------------------------------------------------

void Runtime::hint(const void* address, std::size_t bytes, bool soon) {
  Impl& m = *the_impl();
  if (m.in_child.load(std::memory_order_relaxed)) return;
  std::lock_guard guard(m.lock);
  if (m.recorder != nullptr) m.recorder->hint(monotonic_now(), Impl::thread_id(), address, bytes, soon);
  const Operand operand{address, bytes, Access::kRead};
  m.resolve({&operand, 1});
  const std::vector<OperandRef> extents = m.refs;
  for (const OperandRef& ref : extents) {
    Input input;
    input.kind = Input::Kind::kHint;
    input.extent = ref.extent;
    input.flag = soon;
    m.feed(input);
  }
  if (!soon) return;
  m.last_plan = 0;  // no op or transfer may follow for a while
  m.plan_if_useful(monotonic_now());
}

}  // namespace outsize::host
