// What interception needs to know about an op, worked out once per op from its schema.
//
// Threading: op_info() is lock-free once an op has been seen; classify() allocates.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace c10 {
class OperatorHandle;
}

namespace outsize::adapter {

enum class OpKind : std::uint8_t {
  // Touches no tensor bytes itself: views, metadata, and composite ops, whose inner ops come back to
  // us one by one. Nothing is pinned.
  kLight,
  // Reads or writes the bytes of its operands.
  kData,
  // One kernel over lists of tensors (`_fused_adamw_`): cut into pieces, or all parameters of the
  // model would have to be resident at once.
  kMultiTensor,
};

// What a kernel that orders elements takes from malloc for each of them, beside tensors.
struct Scratch {
  enum class Of : std::uint8_t {
    kNothing,
    kRow,        // of the one row that is ordered at a time
    kRows,       // of a row for each thread
    kAll,        // of the whole tensor
  };
  Of of = Of::kNothing;
  std::uint8_t bytes = 0;       // for an element of any type
  std::uint8_t item_sizes = 0;  // and so many times the element's size
};

struct OpInfo {
  std::size_t key = 0;         // the handle's identity within this process
  std::uint64_t hash = 0;      // of the name: the same in every process
  std::uint64_t writes = 0;    // bit i: argument i is written; arguments past 63 count as written
  Scratch scratch;
  OpKind kind = OpKind::kData;
  std::uint8_t flags = 0;      // trace::kUsesRng, trace::kCollective
  std::uint8_t idiom = 0;      // its idiom class (core/base/idioms.h)
  std::string name;            // "aten::add.Tensor"
  std::atomic<bool> retired{false};  // the op was deregistered; its key may be used again

  bool is_written(std::size_t argument) const {
    return argument >= 64 || ((writes >> argument) & 1) != 0;
  }
};

// The op must have a schema.
void classify(const c10::OperatorHandle& op, OpInfo& info);

const OpInfo& op_info(const c10::OperatorHandle& op);

// Forgets deregistered ops. Once per process.
void watch_deregistration();

}  // namespace outsize::adapter
