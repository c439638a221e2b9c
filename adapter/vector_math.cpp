#include "adapter/vector_math.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

namespace outsize::adapter {
namespace {

constexpr std::array kFunctions{"acos", "asin", "atan", "cos",   "erf",   "erfc", "erfinv", "exp",  "expm1",
                                "log",  "log10", "log1p", "log2", "sin",  "sqrt", "tan",    "tanh", "trunc"};
constexpr std::int64_t kFew = 4;  // not enough for threads to share them

template <class Number>
at::Tensor few_halves(c10::ScalarType type) {
  at::Tensor few{at::detail::empty_cpu({kFew}, type)};
  std::fill_n(few.mutable_data_ptr<Number>(), kFew, Number{0.5});
  return few;
}

void call_all_with(const at::Tensor& few) {
  for (const char* const function : kFunctions) {
    const auto op = c10::Dispatcher::singleton().findSchema({std::string("aten::") + function, ""});
    if (!op) continue;
    torch::jit::Stack stack{few};
    op->callBoxed(&stack);
  }
}

}  // namespace

void settle_vector_math() {
  static const bool once = [] {
    const at::AutoDispatchBelowADInplaceOrView no_graph;
    const c10::impl::ExcludeDispatchKeyGuard no_python(c10::python_ks);
    call_all_with(few_halves<float>(c10::kFloat));
    call_all_with(few_halves<double>(c10::kDouble));
    return true;
  }();
  (void)once;
}

}  // namespace outsize::adapter
