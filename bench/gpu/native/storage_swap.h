// Takes the bytes of a storage away from an accelerator and brings them back, through the
// device-neutral interfaces of c10 alone. On the CPU it works without streams, for dry runs.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

namespace outsize::probe {

// A point in a stream that others wait for. Nothing where the device has no streams.
class Fence {
 public:
  void record(const c10::Stream& stream);
  void block(const c10::Stream& stream) const;
  void wait() const;
  bool passed() const;

 private:
  std::optional<c10::Event> event_;
};

// What becomes of the block on the device while the copy still reads it: held by us until the copy
// has passed, or given to the allocator at once with the copy's stream on record.
enum class Release { kHold, kRecord };

// Which stream owns the block that a restored storage gets: the one that computes, so that the copy has to wait for
// all that is queued there, or the one that copies.
enum class Pool { kCompute, kCopy };

class Swapper {
 public:
  explicit Swapper(c10::Device device);

  // Whether `storage` is one whose bytes can be taken: the allocator's own, on this device, here.
  bool can_take(const c10::StorageImpl& storage) const;
  std::size_t count_away() const { return away_.size(); }

  // Copies the bytes out behind what the current stream has queued, and gives the block back.
  // `now`: waits for the copy, and gives the block back then, whatever `release` says. A block that came back by
  // `restore` has a second stream on record either way: the allocator frees it when that has passed, too.
  void evict(c10::StorageImpl* storage, bool now = false);
  // Brings the bytes back; whoever uses them calls `await` first, on the stream of the use.
  // Throws what the allocator throws, with the storage still away.
  void restore(c10::StorageImpl* storage);
  void await(c10::StorageImpl* storage);
  // Lets go of blocks whose copies have passed, which they do in the order of their evictions; and now and then
  // forgets the storages that died.
  void sweep();

  Release release = Release::kRecord;
  Pool pool = Pool::kCompute;
  // Where the host's copy goes, instead of PyTorch's host allocator: for one storage at a time.
  at::Tensor slab;
  bool guarded = true;  // an access to an evicted storage is to raise, with our message
  std::vector<std::int64_t> evict_nanos, restore_nanos;

 private:
  struct Away {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    at::Tensor host;
    Fence copied;
    bool guarded = false;
  };
  struct Coming {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    Fence ready;
  };
  struct Held {
    c10::DataPtr block;
    Fence copied;
  };

  c10::Device device_;
  c10::impl::VirtualGuardImpl streams_;
  c10::Stream down_, up_;
  std::unordered_map<c10::StorageImpl*, Away> away_;
  std::unordered_map<c10::StorageImpl*, Coming> coming_;
  std::deque<Held> held_;
  std::size_t evictions_ = 0;
};

// The one of this process; made for `device` at the first call.
Swapper& swapper(std::optional<c10::Device> device = std::nullopt);

}  // namespace outsize::probe
