// A recorded run as DTR's public simulator sees it: ops with their results, and the order in which
// the program computed, shared and released them. Sizes, times and aliases are data; nothing here
// decides anything.
//
// A program is made line by line (ProgramBuilder), from a log or by a test, and cannot be made
// wrong: every use of something unknown or already released is an error that names its line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/base/types.h"

namespace outsize::sim::simrd {

using TensorId = std::uint32_t;
using StorageId = std::uint32_t;
using OpId = std::uint32_t;

struct Tensor {
  StorageId storage = 0;
  OpId op = 0;
  Bytes bytes = 0;     // of its own; 0 for an alias
  bool alias = false;  // its storage belongs to an operand of its op
};

struct Op {
  Nanos compute = 0;
  Bytes bytes = 0;  // of all results
  std::uint32_t first_operand = 0, operands = 0;
  TensorId first_result = 0;
  std::uint32_t results = 0;
};

struct Action {
  enum Kind : std::uint8_t {
    kCompute,  // id: the op, for the first time
    kShare,    // id: a tensor gets another name
    kRelease,  // id: a tensor loses a name
    kKeep,     // id: a tensor must be there, and stays for good: weights, and at the end outputs
  };
  Kind kind = kCompute;
  std::uint32_t id = 0;
};

struct Program {
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<TensorId> operands;  // of all ops, one after the other
  std::vector<Bytes> storages;     // bytes of each
  std::vector<Action> actions;

  // Of the run with room for everything, where a storage is freed with its last name.
  Bytes peak = 0;
  Nanos compute = 0;

  std::span<const TensorId> operands_of(const Op& op) const {
    return {operands.data() + op.first_operand, op.operands};
  }
};

class ProgramBuilder {
 public:
  struct ResultSpec {
    std::string_view name;
    Bytes bytes = 0;          // an alias has none of its own, whatever is said here
    std::int64_t alias = -1;  // index of the operand whose storage it shares
  };
  using Names = std::vector<std::string_view>;

  Status constant(std::string_view name, Bytes bytes);
  Status call(std::span<const ResultSpec> results, std::span<const std::string_view> operands,
              Nanos compute);
  // An op that writes operands in place: a pure op with new results of the same sizes, which take
  // over the names.
  Status mutate(std::span<const std::string_view> operands, std::span<const std::int64_t> mutated,
                Nanos compute);
  Status copy(std::string_view to, std::string_view from);       // a new name for a tensor
  Status copy_from(std::string_view to, std::string_view from);  // a name moves to another tensor
  Status release(std::string_view name);  // of a name that is not known: no change

  // What has a name at the end is an output: it must be there, all at once. A program from which
  // nothing is wanted (`keep_outputs` false) ends where it ends.
  Result<Program> finish(bool keep_outputs = true);

 private:
  Result<TensorId> find(std::string_view name) const;
  Result<TensorId> find_alive(std::string_view name) const;
  Status name(std::string_view name, TensorId tensor);
  Result<OpId> compute_op(std::span<const ResultSpec> results, Nanos compute);
  Status share(TensorId tensor);
  Status let_go(TensorId tensor);
  Status take_operands(std::span<const std::string_view> operands);
  Status add_up(Bytes bytes, Nanos compute);

  Program program_;
  std::unordered_map<std::string, std::uint32_t> index_of_;  // a name's place in named_
  std::vector<TensorId> named_;                              // in order of first appearance
  std::vector<std::int64_t> names_of_;                       // by tensor
  std::vector<std::int64_t> references_;                     // by storage
  std::vector<TensorId> operands_;                           // of the op at hand
  Bytes in_use_ = 0;
  Bytes all_bytes_ = 0;
};

}  // namespace outsize::sim::simrd
