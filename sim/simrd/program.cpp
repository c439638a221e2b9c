#include "sim/simrd/program.h"

#include <algorithm>
#include <utility>

namespace outsize::sim::simrd {
namespace {

// Sums of sizes and of times stay far from the end of 64 bits, also when times are added up over
// neighbourhoods.
constexpr std::int64_t kSumMax = std::int64_t{1} << 59;

Error wrong(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what), "", ""}; }

std::string quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

}  // namespace

Result<TensorId> ProgramBuilder::find(std::string_view name) const {
  const auto found = index_of_.find(std::string(name));
  if (found == index_of_.end()) return wrong(quoted(name) + " is used and never defined");
  return named_[found->second];
}

Result<TensorId> ProgramBuilder::find_alive(std::string_view name) const {
  Result<TensorId> tensor = find(name);
  if (tensor.ok() && references_[program_.tensors[*tensor].storage] <= 0) {
    return wrong(quoted(name) + " is used after its release");
  }
  return tensor;
}

Status ProgramBuilder::name(std::string_view name, TensorId tensor) {
  const auto place = static_cast<std::uint32_t>(named_.size());
  if (!index_of_.emplace(std::string(name), place).second) {
    return wrong(quoted(name) + " is defined twice");
  }
  named_.push_back(tensor);
  return {};
}

Status ProgramBuilder::add_up(Bytes bytes, Nanos compute) {
  if (bytes < 0 || compute < 0) return wrong("a size or a time is below zero");
  if (bytes > kSumMax - all_bytes_ || compute > kSumMax - program_.compute) {
    return wrong("the sizes or the times add up to more than 2^59");
  }
  all_bytes_ += bytes;
  program_.compute += compute;
  return {};
}

Status ProgramBuilder::take_operands(std::span<const std::string_view> operands) {
  operands_.clear();
  for (std::string_view operand : operands) {
    Result<TensorId> tensor = find_alive(operand);
    if (!tensor) return tensor.error();
    operands_.push_back(*tensor);
  }
  return {};
}

// The op reads operands_; its results have no names yet.
Result<OpId> ProgramBuilder::compute_op(std::span<const ResultSpec> results, Nanos compute) {
  if (results.empty()) return wrong("an op has no result");
  const auto id = static_cast<OpId>(program_.ops.size());
  Op op;
  op.compute = compute;
  op.first_operand = static_cast<std::uint32_t>(program_.operands.size());
  op.operands = static_cast<std::uint32_t>(operands_.size());
  op.first_result = static_cast<TensorId>(program_.tensors.size());
  op.results = static_cast<std::uint32_t>(results.size());
  if (Status fine = add_up(0, compute); !fine) return fine.error();
  for (const ResultSpec& result : results) {
    Tensor tensor;
    tensor.op = id;
    tensor.alias = result.alias != -1;
    if (tensor.alias) {
      if (result.alias < 0 || result.alias >= static_cast<std::int64_t>(operands_.size())) {
        return wrong("a result is an alias of operand " + std::to_string(result.alias) +
                     ", and the op has " + std::to_string(operands_.size()));
      }
      tensor.storage = program_.tensors[operands_[static_cast<std::size_t>(result.alias)]].storage;
    } else {
      if (Status fine = add_up(result.bytes, 0); !fine) return fine.error();
      tensor.bytes = result.bytes;
      tensor.storage = static_cast<StorageId>(program_.storages.size());
      program_.storages.push_back(result.bytes);
      references_.push_back(0);
    }
    ++references_[tensor.storage];
    names_of_.push_back(1);
    op.bytes += tensor.bytes;
    program_.tensors.push_back(tensor);
  }
  program_.operands.insert(program_.operands.end(), operands_.begin(), operands_.end());
  program_.ops.push_back(op);
  program_.actions.push_back({Action::kCompute, id});
  in_use_ += op.bytes;
  program_.peak = std::max(program_.peak, in_use_);
  return id;
}

Status ProgramBuilder::constant(std::string_view name, Bytes bytes) {
  operands_.clear();
  const ResultSpec result{name, bytes, -1};
  Result<OpId> op = compute_op({&result, 1}, 0);
  if (!op) return op.error();
  const TensorId tensor = program_.ops[*op].first_result;
  program_.actions.push_back({Action::kKeep, tensor});
  return this->name(name, tensor);
}

Status ProgramBuilder::call(std::span<const ResultSpec> results,
                            std::span<const std::string_view> operands, Nanos compute) {
  if (Status fine = take_operands(operands); !fine) return fine;
  Result<OpId> op = compute_op(results, compute);
  if (!op) return op.error();
  TensorId tensor = program_.ops[*op].first_result;
  for (const ResultSpec& result : results) {
    if (Status fine = name(result.name, tensor++); !fine) return fine;
  }
  return {};
}

Status ProgramBuilder::mutate(std::span<const std::string_view> operands,
                              std::span<const std::int64_t> mutated, Nanos compute) {
  if (Status fine = take_operands(operands); !fine) return fine;
  std::vector<ResultSpec> results;
  for (std::int64_t index : mutated) {
    if (index < 0 || index >= static_cast<std::int64_t>(operands.size())) {
      return wrong("operand " + std::to_string(index) + " is written, and the op has " +
                   std::to_string(operands.size()));
    }
    const TensorId old = operands_[static_cast<std::size_t>(index)];
    results.push_back({"", program_.storages[program_.tensors[old].storage], -1});
  }
  Result<OpId> op = compute_op(results, compute);
  if (!op) return op.error();
  TensorId tensor = program_.ops[*op].first_result;
  for (std::int64_t index : mutated) {
    TensorId& named = named_[index_of_[std::string(operands[static_cast<std::size_t>(index)])]];
    const TensorId old = std::exchange(named, tensor++);
    if (Status fine = let_go(old); !fine) return fine;
  }
  return {};
}

Status ProgramBuilder::share(TensorId tensor) {
  const StorageId storage = program_.tensors[tensor].storage;
  if (references_[storage] <= 0) return wrong("what was released already gets a name");
  ++references_[storage];
  ++names_of_[tensor];
  program_.actions.push_back({Action::kShare, tensor});
  return {};
}

Status ProgramBuilder::let_go(TensorId tensor) {
  const StorageId storage = program_.tensors[tensor].storage;
  if (references_[storage] <= 0) return wrong("what was released already is released again");
  --references_[storage];
  --names_of_[tensor];
  if (references_[storage] == 0) in_use_ -= program_.storages[storage];
  program_.actions.push_back({Action::kRelease, tensor});
  return {};
}

Status ProgramBuilder::copy(std::string_view to, std::string_view from) {
  Result<TensorId> tensor = find(from);
  if (!tensor) return tensor.error();
  if (Status fine = name(to, *tensor); !fine) return fine;
  return share(*tensor);
}

Status ProgramBuilder::copy_from(std::string_view to, std::string_view from) {
  Result<TensorId> old = find(to), source = find(from);
  if (!old) return old.error();
  if (!source) return source.error();
  named_[index_of_[std::string(to)]] = *source;
  // The old tensor goes first: it may be dropped before the new one is shared.
  if (Status fine = let_go(*old); !fine) return fine;
  return share(*source);
}

Status ProgramBuilder::release(std::string_view name) {
  Result<TensorId> tensor = find(name);
  if (!tensor) return {};  // logs release what was made before their beginning
  return let_go(*tensor);
}

Result<Program> ProgramBuilder::finish(bool keep_outputs) {
  for (TensorId tensor : named_) {
    if (!keep_outputs || names_of_[tensor] <= 0) continue;
    if (references_[program_.tensors[tensor].storage] <= 0) {
      return wrong("an output was released under another name");
    }
    program_.actions.push_back({Action::kKeep, tensor});
  }
  return std::move(program_);
}

}  // namespace outsize::sim::simrd
