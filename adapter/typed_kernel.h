// A kernel at our dispatch key for one op, typed by PyTorch's generated at::_ops:: struct.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/IListRef_inl.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "adapter/gate.h"
#include "adapter/interception.h"
#include "adapter/op_info.h"
#include "adapter/op_scope.h"
#include "adapter/operands.h"

namespace outsize::adapter {

// In the generated signatures exactly the written tensors come as non-const references.
template <class Argument>
inline constexpr Access kAccessOf =
    std::is_same_v<Argument, at::Tensor&> ? Access::kWrite : Access::kRead;

template <class Argument>
inline void add_argument(OperandCollector& operands, const std::decay_t<Argument>& value) {
  using Value = std::decay_t<Argument>;
  if constexpr (std::is_same_v<Value, at::Tensor>) {
    operands.add(value, kAccessOf<Argument>);
  } else if constexpr (std::is_same_v<Value, std::optional<at::Tensor>>) {
    if (value.has_value()) operands.add(*value, Access::kRead);
  } else if constexpr (std::is_same_v<Value, at::TensorList> ||
                       std::is_same_v<Value, at::ITensorListRef>) {
    for (const at::Tensor& tensor : value) operands.add(tensor, Access::kRead);
  } else if constexpr (std::is_same_v<Value, c10::List<std::optional<at::Tensor>>>) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::optional<at::Tensor> tensor = value.get(i);
      if (tensor.has_value()) operands.add(*tensor, Access::kRead);
    }
  }
  // Numbers, shapes, flags: no bytes behind them.
}

template <class Op, class Schema = typename Op::schema>
struct TypedKernel;

template <class Op, class Result, class... Arguments>
struct TypedKernel<Op, Result(Arguments...)> {
  static inline OpInfo info;

  static Result run(c10::DispatchKeySet keys, Arguments... arguments) {
    const c10::DispatchKeySet below = keys & kBelowKey;
    const GateEntry gate;
    if (gate.runtime() == nullptr) [[unlikely]] {
      return Op::redispatch(below, std::forward<Arguments>(arguments)...);
    }
    OperandCollector operands(gate.state());
    (add_argument<Arguments>(operands, arguments), ...);
    const OpScope scope(*gate.runtime(), gate.state(), operands, info, info.flags);
    return Op::redispatch(below, std::forward<Arguments>(arguments)...);
  }
};

// Registers the typed kernel, unless this torch's schema says that it writes what its C++ types call
// read-only, or that the op is none of ours: then the boxed fallback keeps it.
template <class Op>
void register_typed(torch::Library& library) {
  const auto op = c10::Dispatcher::singleton().findSchema({Op::name, Op::overload_name});
  if (!op) return;
  using Kernel = TypedKernel<Op>;
  classify(*op, Kernel::info);
  if (Kernel::info.kind != OpKind::kData) return;
  const bool types_tell = [&]<class Result, class... Arguments>(Result (*)(Arguments...)) {
    std::size_t position = 0;
    return ((Kernel::info.is_written(position++) == (kAccessOf<Arguments> == Access::kWrite)) && ...);
  }(static_cast<typename Op::schema*>(nullptr));
  if (!types_tell) return;
  library.impl(Kernel::info.name.c_str(), TORCH_FN(Kernel::run));
}

}  // namespace outsize::adapter
