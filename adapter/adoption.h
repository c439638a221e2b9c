// Takes over storages that were born outside the arena: parameters made before outsize was switched
// on, and weights that `from_pretrained` hands over as a private mapping of a file. The address does
// not change; only who frees the bytes does.
//
// What PyTorch does not own alone (NumPy arrays, DLPack, shared memory) is left alone.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include "adapter/allocator.h"
#include "platforms/host/runtime.h"

namespace outsize::adapter {

// Tries once to adopt; remembers refusals. True where the storage is ours afterwards.
bool adopt_storage(c10::StorageImpl& storage);

// The check that runs for every large operand.
inline void adopt_if_foreign(c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage._mutable_data_ptr_no_checks();
  const c10::DeleterFnPtr deleter = data.get_deleter();
  // Between two sessions our allocator passes through: a block of ours may lie outside the arena.
  const bool ours = deleter == &delete_block ? host::Runtime::owns(data.get())
                                             : deleter == &delete_adopted;
  if (!ours) adopt_storage(storage);
}

// A slice of a storage (safetensors and torch.load(mmap=True) make one per tensor) keeps the whole
// alive through a deleter that PyTorch does not export. The Python module, which can make a slice,
// tells us which function it is; until then slices count as foreign.
void set_slice_deleter(c10::DeleterFnPtr deleter);

}  // namespace outsize::adapter
