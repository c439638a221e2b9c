// Boxed arguments: finding the operands among them, and cutting multi-tensor ops into pieces.
//
// `_fused_adamw_` takes every parameter, gradient and state of a model in one call. Run as it is, it
// would need all of them resident at once; run per group of tensors it computes the same bits.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "adapter/gate.h"
#include "adapter/op_info.h"
#include "adapter/operands.h"

namespace outsize::adapter {

// Adds every tensor among the last `count` values of the stack, nested lists included.
void collect_boxed(OperandCollector& operands, std::size_t count, const OpInfo& info,
                   const torch::jit::Stack& stack);

// Runs an op of kind kMultiTensor over consecutive groups of tensors, each of kPieceBytes or one
// index, whichever is more.
inline constexpr Bytes kPieceBytes = 16 * kMiB;
void run_in_pieces(const c10::OperatorHandle& op, const OpInfo& info, c10::DispatchKeySet below,
                   torch::jit::Stack* stack, const GateEntry& gate);

}  // namespace outsize::adapter
