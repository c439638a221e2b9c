#include "adapter/wishes.h"

#include "adapter/adoption.h"
#include "adapter/control.h"
#include "adapter/operands.h"

namespace outsize::adapter {
namespace {

std::string mebibytes(Bytes bytes) { return std::to_string((bytes + kMiB - 1) / kMiB) + " MiB"; }

// Calls use(runtime, range) for a tensor that has bytes in RAM while outsize is on.
template <class Use>
void with_bytes(const at::TensorBase& tensor, Use&& use) {
  const ByteRange range = span_of(tensor);
  if (range.bytes == 0) return;
  with_runtime([&](host::Runtime& runtime) {
    c10::StorageImpl* const storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    if (storage != nullptr && storage->nbytes() >= static_cast<std::size_t>(kLargeBytes)) {
      adopt_if_foreign(*storage);
    }
    use(runtime, range);
  });
}

}  // namespace

Result<host::Pins> pin(const at::TensorBase& tensor) {
  Result<host::Pins> pins = host::Pins{};
  with_bytes(tensor, [&](host::Runtime& runtime, const ByteRange& range) {
    pins = runtime.pin(range.address, range.bytes);
  });
  return pins;
}

Result<host::Pins> pin_for_program(const at::TensorBase& tensor) {
  Result<host::Pins> pins = host::Pins{};
  with_bytes(tensor, [&](host::Runtime& runtime, const ByteRange& range) {
    pins = runtime.pin(range.address, range.bytes);
    if (!pins) return;
    const host::Stats stats = runtime.stats();
    const Bytes most = stats.budget / 4 * 3;
    if (stats.pinned <= most) return;
    host::Runtime::unpin(*pins);
    pins = Error{ErrorCode::kOutOfBudget,
                 "With this tensor " + mebibytes(stats.pinned) + " would be pinned; at most three quarters of the "
                 "budget (" + mebibytes(most) + " of " + mebibytes(stats.budget) + ") can be.",
                 "pin", "Pin less, or give a larger budget."};
  });
  return pins;
}

void hint(const at::TensorBase& tensor, bool soon) {
  with_bytes(tensor, [&](host::Runtime& runtime, const ByteRange& range) {
    runtime.hint(range.address, range.bytes, soon);
  });
}

}  // namespace outsize::adapter
