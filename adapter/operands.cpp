#include "adapter/operands.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>

#include "adapter/adoption.h"

namespace outsize::adapter {
namespace {

// Sizes and strides of these do not describe where in the storage the elements lie.
constexpr c10::DispatchKeySet kIrregular(
    {c10::DispatchKey::NestedTensor, c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr});

bool is_regular(const c10::TensorImpl& impl) {
  return !impl.has_symbolic_sizes_strides() && !impl.key_set().has_any(kIrregular);
}

ByteRange span_within(const c10::TensorImpl& impl, c10::StorageImpl& storage) {
  char* const start = static_cast<char*>(storage._mutable_data_ptr_no_checks().mutable_get());
  if (!is_regular(impl)) return {start, storage.nbytes()};
  if (impl.numel_default() == 0) return {};
  const c10::IntArrayRef sizes = impl.sizes_default();
  const c10::IntArrayRef strides = impl.strides_default();
  std::int64_t last = 0;  // index of the furthest element
  for (std::size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  const auto item = static_cast<std::int64_t>(impl.dtype().itemsize());
  const std::int64_t from = impl.storage_offset_default() * item;
  const std::int64_t to = from + (last + 1) * item;
  // A tensor may outrun its storage (resize_ in progress, resize_(0) by FSDP): stay inside.
  const auto end = static_cast<std::int64_t>(storage.nbytes());
  if (from >= end) return {};
  return {start + from, static_cast<std::size_t>(std::min(to, end) - from)};
}

constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return (std::rotl(hash, 5) ^ value) * kMix;
}

}  // namespace

SiteId OperandCollector::site(const OpInfo& op, bool in_backward) const {
  std::uint64_t hash = mix(op.hash, static_cast<std::uint64_t>(tensors_) * 2 + in_backward);
  const std::uint64_t kind = hash >> (64 - kKindBits);  // a product's high bits are its best mixed
  const int known = std::min(tensors_, kHashedTensors);
  for (int i = 0; i < known; ++i) {
    const c10::TensorImpl& impl = *first_[i];
    if (impl.has_symbolic_sizes_strides()) continue;
    const c10::IntArrayRef sizes = impl.sizes_default();
    hash = mix(hash, (sizes.size() << 8) | static_cast<std::uint64_t>(impl.dtype().toScalarType()));
    for (const std::int64_t size : sizes) hash = mix(hash, static_cast<std::uint64_t>(size));
  }
  hash ^= hash >> 32;
  return with_idiom_class(hash ^ kind_of(hash) ^ kind, op.idiom);
}

std::string OperandCollector::describe(const std::string& op_name, bool in_backward) const {
  std::string text = op_name;
  const int known = std::min(tensors_, kHashedTensors);
  for (int i = 0; i < known; ++i) {
    const c10::TensorImpl& impl = *first_[i];
    if (impl.has_symbolic_sizes_strides()) continue;
    text += i == 0 ? " [" : ", [";
    const char* separator = "";
    for (const std::int64_t size : impl.sizes_default()) {
      text += separator + std::to_string(size);
      separator = "x";
    }
    text += "]";
  }
  if (tensors_ > known) text += " and " + std::to_string(tensors_ - known) + " more";
  if (in_backward) text += " (backward)";
  return text;
}

void OperandCollector::grow() { state_.operands.resize(state_.operands.size() * 2); }

void OperandCollector::add_large(const c10::TensorImpl& impl, c10::StorageImpl& storage,
                                 Access access) {
  adopt_if_foreign(storage);
  const ByteRange range = span_within(impl, storage);
  if (range.bytes != 0) push(range.address, range.bytes, access);
}

void OperandCollector::add_without_storage(const c10::TensorImpl& impl, Access access) {
  const c10::DispatchKeySet keys = impl.key_set();
  // A Python subclass without storage of its own wraps other tensors, whose ops come back to us.
  if (keys.has(c10::DispatchKey::Python)) return;
  const bool coo = keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Sparse));
  const bool compressed = keys.has_any(c10::DispatchKeySet(c10::DispatchKey::SparseCsr));
  if (!coo && !compressed) return;
  --tensors_;  // its parts stand for it
  if (coo) {
    const auto& sparse = static_cast<const at::SparseTensorImpl&>(impl);
    add(sparse.indices(), access);
    add(sparse.values(), access);
  } else {
    const auto& sparse = static_cast<const at::SparseCsrTensorImpl&>(impl);
    add(sparse.compressed_indices(), access);
    add(sparse.plain_indices(), access);
    add(sparse.values(), access);
  }
}

ByteRange span_of(const at::TensorBase& tensor) {
  if (!tensor.defined()) return {};
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  c10::StorageImpl* const storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr) return {};
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (data.get() == nullptr || !data.device().is_cpu()) return {};
  return span_within(impl, *storage);
}

}  // namespace outsize::adapter
