#include "adapter/multi_tensor.h"

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <vector>

#include "adapter/op_scope.h"

namespace outsize::adapter {
namespace {

void add_value(OperandCollector& operands, const c10::IValue& value, Access access) {
  if (value.isTensor()) return operands.add(value.toTensor(), access);
  if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      // Lists are uniform: one look tells whether there can be tensors in this one.
      if (!item.isTensor() && !item.isNone() && !item.isList() && !item.isTuple()) return;
      add_value(operands, item, access);
    }
    return;
  }
  if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) add_value(operands, item, access);
    return;
  }
  if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) add_value(operands, entry.value(), access);
  }
}

// The lists that are cut: all those as long as the first one, which is the list of parameters or
// gradients. Empty lists and single tensors (`lr`, `found_inf`) go along with every piece.
struct Lists {
  std::vector<std::size_t> positions;
  std::size_t length = 0;
};

Lists tensor_lists(c10::ArrayRef<c10::IValue> arguments) {
  Lists lists;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isTensorList()) continue;
    const std::size_t length = arguments[i].toListRef().size();
    if (length == 0) continue;
    if (lists.positions.empty()) lists.length = length;
    // Lists of different lengths are the op's to refuse, in its own words.
    if (length != lists.length) return {};
    lists.positions.push_back(i);
  }
  return lists;
}

// What a group of tensors needs resident: its large storages, and for the small ones the shared
// extents they lie in, each counted once. Tensors outside the arena are likely slices of one mapping
// of a weights file, which comes and goes in pieces of about a chunk.
class GroupBytes {
 public:
  void add(c10::ArrayRef<c10::IValue> arguments, const Lists& lists, std::size_t index) {
    for (const std::size_t position : lists.positions) {
      const ByteRange span = span_of(arguments[position].toListRef()[index].toTensor());
      const auto first = reinterpret_cast<std::uintptr_t>(span.address);
      if (!host::Runtime::owns(span.address)) {
        for (auto at = first / kChunkBytes; at * kChunkBytes < first + span.bytes; ++at) {
          add_chunk(at, kChunkBytes);
        }
      } else if (static_cast<Bytes>(span.bytes) >= kLargeBytes) {
        bytes_ += static_cast<Bytes>(span.bytes);
      } else {
        add_chunk(first / kChunkBytes, kSharedBytes);
      }
    }
  }
  Bytes bytes() const { return bytes_; }

 private:
  void add_chunk(std::uintptr_t chunk, Bytes bytes) {
    if (std::find(chunks_.begin(), chunks_.end(), chunk) != chunks_.end()) return;
    chunks_.push_back(chunk);
    bytes_ += bytes;
  }

  Bytes bytes_ = 0;
  c10::SmallVector<std::uintptr_t, 16> chunks_;  // few: a group ends at kPieceBytes
};

torch::jit::Stack piece_of(c10::ArrayRef<c10::IValue> arguments, const Lists& lists,
                           std::size_t from, std::size_t to) {
  torch::jit::Stack piece(arguments.begin(), arguments.end());
  for (const std::size_t position : lists.positions) {
    const c10::ArrayRef<c10::IValue> whole = arguments[position].toListRef();
    c10::List<at::Tensor> part;
    part.reserve(to - from);
    for (std::size_t i = from; i < to; ++i) part.push_back(whole[i].toTensor());
    piece[position] = std::move(part);
  }
  return piece;
}

void run_pinned(const c10::OperatorHandle& op, const OpInfo& info, c10::DispatchKeySet below,
                torch::jit::Stack* stack, const GateEntry& gate, std::uint8_t flags) {
  OperandCollector operands(gate.state());
  collect_boxed(operands, op.schema().arguments().size(), info, *stack);
  const OpScope scope(*gate.runtime(), gate.state(), operands, info, flags);
  op.redispatchBoxed(below, stack);
}

}  // namespace

void collect_boxed(OperandCollector& operands, std::size_t count, const OpInfo& info,
                   const torch::jit::Stack& stack) {
  const c10::ArrayRef<c10::IValue> arguments = torch::jit::last(stack, count);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    add_value(operands, arguments[i], info.is_written(i) ? Access::kWrite : Access::kRead);
  }
}

void run_in_pieces(const c10::OperatorHandle& op, const OpInfo& info, c10::DispatchKeySet below,
                   torch::jit::Stack* stack, const GateEntry& gate) {
  const std::size_t count = op.schema().arguments().size();
  const c10::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, count);
  const Lists lists = tensor_lists(arguments);
  // Results of pieces would have to be joined; the ops of this kind have none.
  if (lists.length < 2 || !op.schema().returns().empty()) {
    return run_pinned(op, info, below, stack, gate, info.flags);
  }
  // One op around them: what went wrong with an earlier write is told before the first piece.
  const OpScope whole(*gate.runtime(), gate.state(), OperandCollector(gate.state()), info, info.flags);
  for (std::size_t from = 0; from < lists.length;) {
    GroupBytes group;
    group.add(arguments, lists, from);
    std::size_t to = from + 1;
    for (; to < lists.length; ++to) {
      group.add(arguments, lists, to);
      if (group.bytes() > kPieceBytes) break;
    }
    torch::jit::Stack piece = piece_of(arguments, lists, from, to);
    run_pinned(op, info, below, &piece, gate, info.flags | trace::kPiece);
    from = to;
  }
  torch::jit::drop(*stack, count);
}

}  // namespace outsize::adapter
