// The ops of a program pass here by way of a dispatch key: they are counted by thread, their operands are restored
// before they run, storages are evicted by chance after, and an op that ran out of memory runs again.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "bench/gpu/native/storage_swap.h"

namespace outsize::probe {

namespace {

constexpr auto kKey = c10::DispatchKey::DeferredInit;

// Two threads run ops here, but never at the same time: one waits for the other's backward pass.
struct Mode {
  std::int64_t chance = 0;  // evictions in a thousand ops
  std::int64_t min_bytes = 512;
  bool retry = false;
  std::uint64_t random = 88172645463325252ull;
  std::unordered_map<std::thread::id, std::int64_t> ops;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> known;
  std::unordered_set<c10::StorageImpl*> known_keys;
  std::int64_t room = 0;  // bytes that go at once where memory ran out; 0: one storage
  std::int64_t retries = 0;
};

Mode& mode() {
  static Mode* const only = new Mode;
  return *only;
}

thread_local int depth = 0;

std::uint64_t draw() {  // xorshift64, after Marsaglia, "Xorshift RNGs", 2003
  std::uint64_t& x = mode().random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

template <typename Visit>
void for_each_storage(const c10::IValue* first, std::size_t count, Visit visit) {
  const auto one = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.has_storage()) visit(tensor.storage().unsafeGetStorageImpl());
  };
  for (std::size_t i = 0; i < count; ++i) {
    const c10::IValue& value = first[i];
    if (value.isTensor()) one(value.toTensor());
    if (!value.isList()) continue;
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor()) one(item.toTensor());
    }
  }
}

void know(c10::StorageImpl* storage) {
  Mode& m = mode();
  if (static_cast<std::int64_t>(storage->nbytes()) < m.min_bytes || m.known_keys.count(storage)) return;
  if (!swapper().can_take(*storage)) return;
  m.known_keys.insert(storage);
  m.known.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
}

// Evicts `known[index]` unless it is dead or away. The dead are forgotten.
bool evict_known(std::size_t index, bool now) {
  Mode& m = mode();
  const auto storage = m.known[index].lock();
  if (!storage) {
    m.known_keys.erase(m.known[index]._unsafe_get_target());
    m.known[index] = std::move(m.known.back());
    m.known.pop_back();
    return false;
  }
  if (!swapper().can_take(*storage)) return false;
  swapper().evict(storage.get(), now);
  return true;
}

void evict_all() {
  for (std::size_t i = mode().known.size(); i-- > 0;) evict_known(i, /*now=*/true);
}

std::unordered_set<c10::StorageImpl*> storages_of(const std::vector<c10::IValue>& operands) {
  std::unordered_set<c10::StorageImpl*> found;
  for_each_storage(operands.data(), operands.size(), [&](c10::StorageImpl* storage) { found.insert(storage); });
  return found;
}

void restore_operands(const std::vector<c10::IValue>& operands) {
  for_each_storage(operands.data(), operands.size(), [](c10::StorageImpl* storage) {
    swapper().restore(storage);
    swapper().await(storage);
  });
}

// Makes room where there was not enough: one storage after the other goes, by chance, until
// `room` bytes have gone.
void make_room(const std::unordered_set<c10::StorageImpl*>& keep) {
  Mode& m = mode();
  ++m.retries;
  std::int64_t freed = 0;
  const c10::impl::ExcludeDispatchKeyGuard out(kKey);
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> candidates;
  for (const auto& weak : m.known) {
    auto storage = weak.lock();
    if (storage && !keep.count(storage.get()) && swapper().can_take(*storage)) candidates.push_back(std::move(storage));
  }
  TORCH_CHECK_WITH(OutOfMemoryError, !candidates.empty(), "outsize probe: nothing is left to evict");
  do {
    auto& chosen = candidates[draw() % candidates.size()];
    freed += static_cast<std::int64_t>(chosen->nbytes());
    swapper().evict(chosen.get(), /*now=*/true);
    std::swap(chosen, candidates.back());
    candidates.pop_back();
  } while (!candidates.empty() && freed < m.room);
}

// Runs `work`; where memory runs out and that is wanted, makes room and runs it again.
template <typename Work>
void with_room(const std::unordered_set<c10::StorageImpl*>& keep, Work work) {
  for (;;) {
    try {
      return work();
    } catch (const c10::OutOfMemoryError&) {
      if (!mode().retry) throw;
    }
    make_room(keep);
  }
}

void know_results(std::size_t count, const torch::jit::Stack& stack) {
  for_each_storage(stack.data() + (stack.size() - count), count, know);
}

void run_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
  Mode& m = mode();
  ++m.ops[std::this_thread::get_id()];
  const auto& schema = op.schema();
  const std::size_t count = schema.arguments().size();
  if (depth > 0 || schema.name().rfind("outsize_probe::", 0) == 0) {
    if (depth > 0) {
      const c10::impl::ExcludeDispatchKeyGuard out(kKey);
      restore_operands({stack->end() - static_cast<std::ptrdiff_t>(count), stack->end()});
    }
    op.redispatchBoxed(below, stack);
    if (depth > 0) know_results(schema.returns().size(), *stack);
    return;
  }
  struct Depth {
    Depth() { ++depth; }
    ~Depth() { --depth; }
  } const nested;
  const std::size_t base = stack->size() - count;
  const std::vector<c10::IValue> operands(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const auto keep = storages_of(operands);
  {
    const c10::impl::ExcludeDispatchKeyGuard out(kKey);
    with_room(keep, [&] { restore_operands(operands); });
    for (c10::StorageImpl* storage : keep) know(storage);
  }
  with_room(keep, [&] {
    stack->resize(base);  // what a failed call left of its operands
    stack->insert(stack->end(), operands.begin(), operands.end());
    op.redispatchBoxed(below, stack);
  });
  know_results(schema.returns().size(), *stack);
  const c10::impl::ExcludeDispatchKeyGuard out(kKey);
  if (m.chance == 0 || static_cast<std::int64_t>(draw() % 1000) >= m.chance) return;
  for (int tries = 0; tries < 64 && !m.known.empty(); ++tries) {  // most that were seen are dead
    if (evict_known(draw() % m.known.size(), /*now=*/false)) return;
  }
}

c10::StorageImpl* storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

void set_mode(bool on, std::int64_t chance, std::int64_t min_bytes, bool retry) {
  Mode& m = mode();
  m.chance = chance;
  m.min_bytes = min_bytes;
  m.retry = retry;
  c10::impl::tls_set_dispatch_key_included(kKey, on);
}

void configure(const at::Tensor& like, bool hold, bool copy_pool, bool guarded) {
  Swapper& s = swapper(like.device());
  s.release = hold ? Release::kHold : Release::kRecord;
  s.pool = copy_pool ? Pool::kCopy : Pool::kCompute;
  s.guarded = guarded;
  s.evict_nanos.clear();
  s.restore_nanos.clear();
}

void restore_all(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    swapper().restore(storage_of(tensor));
    swapper().await(storage_of(tensor));
  }
}

// The copy alone, many times, without Python in between.
void copy_many(const at::Tensor& target, const at::Tensor& source, std::int64_t times) {
  const at::AutoDispatchBelowAutograd no_grad;
  at::Tensor to = target;
  for (std::int64_t i = 0; i < times; ++i) to.copy_(source, /*non_blocking=*/true);
}

// Evicts and restores `tensor` again and again, with the host's copy in `slab` if there is one.
void swap_many(const at::Tensor& tensor, const std::optional<at::Tensor>& slab, std::int64_t times) {
  Swapper& s = swapper();
  s.slab = slab.value_or(at::Tensor());
  c10::StorageImpl* const storage = storage_of(tensor);
  for (std::int64_t i = 0; i < times; ++i) {
    s.evict(storage);
    s.restore(storage);
    s.await(storage);
  }
  s.slab.reset();
}

std::vector<std::int64_t> op_counts() {  // this thread's first
  std::vector<std::int64_t> counts{0};
  for (const auto& [thread, ops] : mode().ops) {
    if (thread == std::this_thread::get_id()) counts[0] = ops;
    else counts.push_back(ops);
  }
  return counts;
}

}  // namespace

bool evict_on_cache_miss() {
  const c10::impl::ExcludeDispatchKeyGuard out(kKey);
  const std::size_t before = swapper().count_away();
  evict_all();
  return swapper().count_away() > before;
}

}  // namespace outsize::probe

namespace probe = outsize::probe;

TORCH_LIBRARY_IMPL(_, DeferredInit, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&probe::run_boxed>());
}

// Nothing here computes: `CompositeImplicitAutograd`, so that a call goes straight to the function.
TORCH_LIBRARY_FRAGMENT(outsize_probe, m) {
  m.def("configure(Tensor like, bool hold, bool copy_pool, bool guarded) -> ()", &probe::configure);
  m.def("set_mode(bool on, int chance, int min_bytes, bool retry) -> ()", &probe::set_mode);
  m.def("evict(Tensor tensor) -> ()", [](const at::Tensor& t) { probe::swapper().evict(probe::storage_of(t)); });
  m.def("know(Tensor tensor) -> ()", [](const at::Tensor& t) { probe::know(probe::storage_of(t)); });
  m.def("restore(Tensor tensor) -> ()", [](const at::Tensor& t) { probe::swapper().restore(probe::storage_of(t)); });
  m.def("await_(Tensor tensor) -> ()", [](const at::Tensor& t) { probe::swapper().await(probe::storage_of(t)); });
  m.def("restore_all(Tensor[] tensors) -> ()", &probe::restore_all);
  m.def("evict_nanos() -> int[]", [] { return probe::swapper().evict_nanos; });
  m.def("restore_nanos() -> int[]", [] { return probe::swapper().restore_nanos; });
  m.def("op_counts() -> int[]", &probe::op_counts);
  m.def("copy_many(Tensor target, Tensor source, int times) -> ()", &probe::copy_many);
  m.def("swap_many(Tensor tensor, Tensor? slab, int times) -> ()", &probe::swap_many);
  m.def("room(int bytes) -> ()", [](std::int64_t bytes) { probe::mode().room = bytes; });
  m.def("retries() -> int", [] { return probe::mode().retries; });
  m.def("count_away() -> int", [] { return static_cast<std::int64_t>(probe::swapper().count_away()); });
}
