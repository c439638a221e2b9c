#include "adapter/token_look.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "adapter/operands.h"
#include "core/base/types.h"

namespace outsize::adapter {
namespace {

constexpr std::size_t kSpanMax = 1U << 20;

bool is_in_ram(const void* address, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(kPageBytes);
  const std::uintptr_t from = reinterpret_cast<std::uintptr_t>(address) / page * page;
  const std::uintptr_t to = reinterpret_cast<std::uintptr_t>(address) + bytes;
  std::vector<unsigned char> pages((to - from + page - 1) / page);
  if (mincore(reinterpret_cast<void*>(from), to - from, pages.data()) != 0) return false;
  return std::all_of(pages.begin(), pages.end(), [](unsigned char is_there) { return (is_there & 1U) != 0; });
}

trace::TensorView::Numbers numbers_of(const at::TensorBase& tensor) {
  const c10::ScalarType type = tensor.scalar_type();
  if (!c10::isIntegralType(type, /*includeBool=*/true)) return trace::TensorView::Numbers::kOther;
  return c10::isSignedType(type) ? trace::TensorView::Numbers::kSigned : trace::TensorView::Numbers::kUnsigned;
}

}  // namespace

trace::TokenStatistics look_at(const at::TensorBase& tensor) {
  if (!tensor.defined() || tensor.layout() != c10::kStrided) return {};
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.is_python_dispatch() || impl.has_symbolic_sizes_strides()) return {};
  const ByteRange range = span_of(tensor);
  if (range.bytes == 0 || range.bytes > kSpanMax) return {};
  const trace::TensorView view{static_cast<const char*>(range.address), static_cast<int>(tensor.itemsize()),
                               numbers_of(tensor), tensor.sizes(), tensor.strides()};
  if (view.span() != static_cast<Bytes>(range.bytes) || !is_in_ram(range.address, range.bytes)) return {};
  return statistics_of(view);
}

}  // namespace outsize::adapter
