#include "bench/gpu/native/storage_swap.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/version.h>

#include <chrono>

namespace outsize::probe {

namespace {

constexpr const char* kMessage = "outsize probe: these bytes are away";

using Clock = std::chrono::steady_clock;

std::int64_t since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

bool has_streams(const c10::Device& device) { return device.type() != c10::DeviceType::CPU; }

// The storage's bytes as a tensor of its own, without gradients or us in the way.
at::Tensor bytes_of(c10::StorageImpl* storage, const c10::Device& device) {
  const auto count = static_cast<std::int64_t>(storage->nbytes());
  at::Tensor bytes = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(device));
  const auto shared = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
  bytes.set_(c10::Storage(shared), 0, {count}, {1});
  return bytes;
}

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
// Before 2.13 the guard message cannot be taken back. An explicit instantiation may name private
// members: by it the flag is cleared. Only a probe may do so.
template <auto Flag, auto Refresh>
struct Opened {
  friend void clear_guard(c10::StorageImpl& storage) {
    storage.*Flag = false;
    (storage.*Refresh)();
  }
};
void clear_guard(c10::StorageImpl& storage);
template struct Opened<&c10::StorageImpl::throw_on_immutable_data_ptr_,
                       &c10::StorageImpl::refresh_has_data_ptr_check>;
#else
void clear_guard(c10::StorageImpl& storage) { storage.clear_data_ptr_access_error_msg_(); }
#endif

}  // namespace

void Fence::record(const c10::Stream& stream) {
  if (!has_streams(stream.device())) return;
  event_.emplace(stream.device_type());
  event_->record(stream);
}

void Fence::block(const c10::Stream& stream) const {
  if (event_) event_->block(stream);
}

void Fence::wait() const {
  if (event_) event_->synchronize();
}

bool Fence::passed() const { return !event_ || event_->query(); }

Swapper::Swapper(c10::Device device)
    : device_(device),
      streams_(device.type()),
      down_(has_streams(device) ? streams_.getStreamFromGlobalPool(device) : streams_.getStream(device)),
      up_(has_streams(device) ? streams_.getStreamFromGlobalPool(device) : streams_.getStream(device)) {}

bool Swapper::can_take(const c10::StorageImpl& storage) const {
  return storage.device() == device_ && storage.resizable() && storage.allocator() != nullptr &&
         storage.nbytes() > 0 && away_.count(const_cast<c10::StorageImpl*>(&storage)) == 0;
}

void Swapper::evict(c10::StorageImpl* storage, bool now) {
  const auto start = Clock::now();
  const at::AutoDispatchBelowAutograd no_grad;
  await(storage);
  const c10::Stream compute = streams_.getStream(device_);
  Fence used;
  used.record(compute);
  used.block(down_);
  Away away{c10::weak_intrusive_ptr<c10::StorageImpl>(
                c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage)), {}, {}, guarded};
  {
    const at::Tensor bytes = bytes_of(storage, device_);
    away.host = slab.defined() ? slab.narrow(0, 0, bytes.numel())
                               : at::empty({bytes.numel()}, at::TensorOptions().dtype(at::kByte).pinned_memory(
                                                                has_streams(device_)));
    const c10::StreamGuard guard(down_);
    away.host.copy_(bytes, /*non_blocking=*/true);
    away.copied.record(down_);
  }
  c10::DataPtr block = storage->set_data_ptr(c10::DataPtr(nullptr, device_));
  if (guarded) storage->release_data_and_set_meta_custom_data_ptr_error_msg_(kMessage);
  if (now) {
    away.copied.wait();
  } else if (release == Release::kHold) {
    Fence copied;
    copied.record(down_);
    held_.push_back({std::move(block), std::move(copied)});
  } else {
    streams_.recordDataPtrOnStream(block, down_);
  }
  block.clear();
  away_.emplace(storage, std::move(away));
  sweep();
  evict_nanos.push_back(since(start));
}

void Swapper::restore(c10::StorageImpl* storage) {
  if (away_.count(storage) == 0) return;
  const auto start = Clock::now();
  const at::AutoDispatchBelowAutograd no_grad;
  const c10::Stream compute = streams_.getStream(device_);
  c10::DataPtr block;  // a free-memory callback may evict others while this is sought
  if (pool == Pool::kCompute) {
    block = storage->allocator()->allocate(storage->nbytes());
    Fence queued;  // kernels that are queued may still use what this block was before
    queued.record(compute);
    queued.block(up_);
  } else {
    const c10::StreamGuard guard(up_);
    block = storage->allocator()->allocate(storage->nbytes());
  }
  // The stream that does not own the block must be on record before it can be freed.
  streams_.recordDataPtrOnStream(block, pool == Pool::kCompute ? up_ : compute);
  const Away away = std::move(away_.at(storage));
  away_.erase(storage);
  away.copied.block(up_);
  if (away.guarded) clear_guard(*storage);
  storage->set_data_ptr(std::move(block));
  Fence ready;
  {
    const at::Tensor bytes = bytes_of(storage, device_);
    const c10::StreamGuard guard(up_);
    bytes.copy_(away.host, /*non_blocking=*/true);
    ready.record(up_);
  }
  coming_.insert_or_assign(storage, Coming{away.storage, std::move(ready)});
  restore_nanos.push_back(since(start));
}

void Swapper::await(c10::StorageImpl* storage) {
  const auto found = coming_.find(storage);
  if (found == coming_.end()) return;
  found->second.ready.block(streams_.getStream(device_));
  coming_.erase(found);
}

void Swapper::sweep() {
  while (!held_.empty() && held_.front().copied.passed()) held_.pop_front();
  if (++evictions_ % 256 != 0) return;
  std::erase_if(away_, [](const auto& entry) { return entry.second.storage.expired(); });
  std::erase_if(coming_, [](const auto& entry) { return entry.second.storage.expired(); });
}

Swapper& swapper(std::optional<c10::Device> device) {
  static Swapper* const only = new Swapper(device.value());  // outlives every tensor
  return *only;
}

}  // namespace outsize::probe
