#include "adapter/adoption.h"

#include <ATen/MapAllocator.h>
#include <c10/core/CPUAllocator.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "adapter/gate.h"
#include "core/base/types.h"
#include "platforms/host/runtime.h"

namespace outsize::adapter {
namespace {

std::atomic<c10::DeleterFnPtr> slice_deleter{nullptr};

// Storages that were refused. A direct-mapped memory: forgetting one only costs a second refusal.
class Refusals {
 public:
  bool contains(const c10::DataPtr& data, std::size_t bytes) const {
    return slot(data).load(std::memory_order_relaxed) == tag(data, bytes);
  }
  void add(const c10::DataPtr& data, std::size_t bytes) {
    slot(data).store(tag(data, bytes), std::memory_order_relaxed);
  }

 private:
  static std::uint64_t tag(const c10::DataPtr& data, std::size_t bytes) {
    return reinterpret_cast<std::uint64_t>(data.get()) * 0x9e3779b97f4a7c15ULL ^
           reinterpret_cast<std::uint64_t>(data.get_deleter()) ^ (bytes << 1) ^ 1;
  }
  std::atomic<std::uint64_t>& slot(const c10::DataPtr& data) const {
    const auto address = reinterpret_cast<std::uint64_t>(data.get());
    return slots_[(address * 0x9e3779b97f4a7c15ULL) >> (64 - 10)];
  }
  mutable std::array<std::atomic<std::uint64_t>, 1 << 10> slots_{};
};

Refusals& refusals() {
  static Refusals* const instance = new Refusals;
  return *instance;
}

c10::DeleterFnPtr default_deleter() {
  static const c10::DeleterFnPtr deleter = c10::GetDefaultCPUAllocator()->raw_deleter();
  return deleter;
}

bool is_file_mapping(const c10::DataPtr& data) {
  const auto* mapping = at::MapAllocator::fromDataPtr(data);
  if (mapping == nullptr) return false;
  return (mapping->flags() & (at::ALLOCATOR_MAPPED_SHARED | at::ALLOCATOR_MAPPED_SHAREDMEM)) == 0;
}

// The former owner, kept until the adopted bytes die.
void free_former_owner(void* context) { delete static_cast<c10::DataPtr*>(context); }

// Room in the budget for `bytes` that are about to be adopted, for as long as it takes.
class AdoptionRoom {
 public:
  explicit AdoptionRoom(std::size_t bytes) {
    if (bytes == 0 || gate_.runtime() == nullptr) return;
    runtime_ = gate_.runtime();
    runtime_->room_to_adopt(bytes);
  }
  ~AdoptionRoom() {
    if (runtime_ != nullptr) runtime_->end_adoption();
  }
  AdoptionRoom(const AdoptionRoom&) = delete;
  AdoptionRoom& operator=(const AdoptionRoom&) = delete;

 private:
  const GateEntry gate_;
  host::Runtime* runtime_ = nullptr;
};

bool take_over(c10::StorageImpl& storage, c10::DataPtr& data, std::size_t bytes) {
  const GateEntry gate;
  if (gate.runtime() == nullptr) return false;
  void* const address = data.mutable_get();
  auto former = std::make_unique<c10::DataPtr>();
  if (!gate.runtime()->adopt(address, bytes, &free_former_owner, former.get())) {
    refusals().add(data, bytes);
    return false;
  }
  *former = std::move(data);
  // Never a moment with a null pointer: other threads may be reading through this storage.
  data = c10::DataPtr(address, address, &delete_adopted, c10::Device(c10::DeviceType::CPU));
  // A later resize_ must come to the arena too.
  storage.set_allocator(c10::GetCPUAllocator());
  (void)former.release();  // free_former_owner has it now
  return true;
}

}  // namespace

bool adopt_storage(c10::StorageImpl& storage) {
  c10::DataPtr& data = storage._mutable_data_ptr_no_checks();
  if (data.get() == nullptr || !data.device().is_cpu()) return false;
  const c10::DeleterFnPtr deleter = data.get_deleter();
  if (deleter == &delete_adopted) return true;
  if (deleter == &delete_block && host::Runtime::owns(data.get())) return true;
  if (deleter != nullptr && deleter == slice_deleter.load(std::memory_order_relaxed)) {
    return adopt_storage(*static_cast<c10::StorageImpl*>(data.get_context()));
  }
  const std::size_t bytes = storage.nbytes();
  if (bytes < static_cast<std::size_t>(kLargeBytes) || refusals().contains(data, bytes)) return false;
  const bool plain = (deleter == default_deleter() || deleter == &delete_block) &&
                     data.get() == data.get_context();
  if (!plain && !is_file_mapping(data)) {
    refusals().add(data, bytes);
    return false;
  }
  // Before the lock: who waits for room must hold nothing that an op inside needs.
  const AdoptionRoom room(plain ? bytes : 0);  // a file mapping's bytes are on disk
  static std::mutex* const adopting = new std::mutex;
  const std::lock_guard lock(*adopting);
  // Another thread may have been faster.
  if (data.get_deleter() != deleter) return data.get_deleter() == &delete_adopted;
  return take_over(storage, data, bytes);
}

void set_slice_deleter(c10::DeleterFnPtr deleter) {
  slice_deleter.store(deleter, std::memory_order_relaxed);
}

}  // namespace outsize::adapter
