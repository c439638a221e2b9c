// Finds the bytes behind an op's arguments: which ranges it reads or writes, and under which site.
//
// Runs at every op, so it allocates nothing, takes no lock and asks PyTorch only for plain fields:
// the virtual accessors of tensor subclasses would call back into Python.
#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <cstdint>
#include <span>
#include <string>

#include "adapter/gate.h"
#include "adapter/op_info.h"
#include "core/base/types.h"
#include "platforms/host/runtime.h"

namespace outsize::adapter {

// The id of the backward pass this thread runs, or -1. PyTorch declares it in a heavy header;
// interception.cpp includes that one too, so a change of signature does not go unnoticed.
int current_backward_pass();

// Where an op that begins now stands in autograd's graph.
GraphPlace current_graph_place(bool in_backward);

class OperandCollector {
 public:
  explicit OperandCollector(ThreadState& state) : state_(state) {}

  void add(const at::TensorBase& tensor, Access access) {
    const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
    if (impl != c10::UndefinedTensorImpl::singleton()) add(*impl, access);
  }

  std::span<const host::Operand> operands() const {
    return {state_.operands.data(), static_cast<std::size_t>(count_)};
  }

  // The op site these operands make: op, dtypes and sizes of the first few tensors, how many there
  // are, and whether a backward pass runs. Addresses take no part. Its kind (kind_of) leaves the dtypes and
  // sizes out, its idiom class is the op's.
  SiteId site(const OpInfo& op, bool in_backward) const;
  // "aten::addmm [768], [8192, 3072] (3 tensors)": for messages.
  std::string describe(const std::string& op_name, bool in_backward) const;

 private:
  static constexpr int kHashedTensors = 4;

  void add(const c10::TensorImpl& impl, Access access) {
    if (tensors_ < kHashedTensors) first_[tensors_] = &impl;
    ++tensors_;
    c10::StorageImpl* const storage = impl.unsafe_storage().unsafeGetStorageImpl();
    if (storage == nullptr) return add_without_storage(impl, access);
    const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
    if (data.get() == nullptr || !data.device().is_cpu()) return;  // meta, fake, other devices
    const std::size_t bytes = storage->nbytes();
    // A small storage shares its extent with others anyway: its exact span does not matter.
    if (bytes >= static_cast<std::size_t>(kLargeBytes)) return add_large(impl, *storage, access);
    push(data.get(), bytes, access);
  }

  void push(const void* address, std::size_t bytes, Access access) {
    if (static_cast<std::size_t>(count_) == state_.operands.size()) grow();
    state_.operands[count_++] = host::Operand{address, bytes, access};
  }

  void grow();
  void add_large(const c10::TensorImpl& impl, c10::StorageImpl& storage, Access access);
  void add_without_storage(const c10::TensorImpl& impl, Access access);

  ThreadState& state_;
  int count_ = 0;
  int tensors_ = 0;
  const c10::TensorImpl* first_[kHashedTensors];
};

struct ByteRange {
  const void* address = nullptr;
  std::size_t bytes = 0;
};
// The bytes of its storage that a tensor spans; empty for tensors without bytes in RAM.
ByteRange span_of(const at::TensorBase& tensor);

}  // namespace outsize::adapter
