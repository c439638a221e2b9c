#include "adapter/op_info.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "core/base/idioms.h"
#include "core/trace/trace_event.h"

namespace outsize::adapter {
namespace {

// Ops that look as if they touched their operands' bytes and do not, or that only call other ops.
// `name` without an overload stands for all of them. Sorted.
constexpr std::array kLightOps = std::to_array<std::string_view>({
    "aten::_dimI",
    "aten::_dimV",
    "aten::_fused_adagrad",
    "aten::_fused_adam",
    "aten::_fused_adamw",
    "aten::_fused_sgd",
    "aten::_has_compatible_shallow_copy_type",
    "aten::_has_same_storage_numel",
    "aten::_is_zerotensor",
    "aten::_nnz",
    "aten::_to_copy",
    "aten::_unsafe_view",
    "aten::_version",
    "aten::add.Scalar",
    "aten::add_.Scalar",
    "aten::as_strided_",
    "aten::clone",
    "aten::dense_dim",
    "aten::detach_",
    "aten::div.Scalar",
    "aten::div_.Scalar",
    "aten::embedding",
    "aten::empty",
    "aten::empty_like",
    "aten::empty_permuted",
    "aten::empty_strided",
    "aten::full",
    "aten::full_like",
    "aten::is_coalesced",
    "aten::is_pinned",
    "aten::is_same_size",
    "aten::is_set_to",
    "aten::mul.Scalar",
    "aten::mul_.Scalar",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::new_full",
    "aten::new_ones",
    "aten::new_zeros",
    "aten::ones",
    "aten::ones_like",
    "aten::q_scale",
    "aten::q_zero_point",
    "aten::qscheme",
    "aten::rand",
    "aten::rand_like",
    "aten::randint",
    "aten::randint_like",
    "aten::randn",
    "aten::randn_like",
    "aten::record_stream",
    "aten::set_",
    "aten::sparse_dim",
    "aten::squeeze_",
    "aten::sub.Scalar",
    "aten::sub_.Scalar",
    "aten::swapaxes_",
    "aten::swapdims_",
    "aten::sym_numel",
    "aten::sym_size",
    "aten::sym_storage_offset",
    "aten::sym_stride",
    "aten::t_",
    "aten::transpose_",
    "aten::unsqueeze_",
    "aten::zeros",
    "aten::zeros_like",
});

// Kernels over lists of tensors in which the tensors of different indices never meet, except in
// flags that are only ever raised (found_inf).
constexpr std::array kMultiTensorOps = std::to_array<std::string_view>({
    "aten::_amp_foreach_non_finite_check_and_unscale_",
    "aten::_fused_adagrad_",
    "aten::_fused_adam_",
    "aten::_fused_adamw_",
    "aten::_fused_sgd_",
});

// Kernels that order elements: beside what they allocate through PyTorch they hold values with their indices
// in memory from malloc. Measured with torch 2.13 on rows of 8 M float32 and int64.
struct OrderingOp {
  std::string_view op;
  Scratch scratch;
};
constexpr std::array kOrderingOps = std::to_array<OrderingOp>({
    {"aten::_unique", {Scratch::Of::kAll, 0, 3}},
    {"aten::_unique2", {Scratch::Of::kAll, 0, 3}},
    {"aten::kthvalue", {Scratch::Of::kRow, 16, 0}},
    {"aten::median", {Scratch::Of::kRow, 16, 0}},
    {"aten::mode", {Scratch::Of::kRow, 16, 0}},
    {"aten::nanmedian", {Scratch::Of::kRow, 16, 0}},
    {"aten::sort", {Scratch::Of::kRow, 0, 2}},
    {"aten::topk", {Scratch::Of::kRows, 16, 0}},
    {"aten::unique_dim", {Scratch::Of::kAll, 0, 3}},
});

// Operands that a kernel writes although its schema does not say so: (op, argument). The platform
// would notice the write anyway; knowing it beforehand spares a fault.
struct UnannouncedWrite {
  std::string_view op;
  std::string_view argument;
};
constexpr std::array kUnannouncedWrites = std::to_array<UnannouncedWrite>({
    {"aten::native_batch_norm", "running_mean"},
    {"aten::native_batch_norm", "running_var"},
    {"aten::_batch_norm_impl_index", "running_mean"},
    {"aten::_batch_norm_impl_index", "running_var"},
});

template <class List>
bool contains(const List& list, std::string_view name, std::string_view full_name) {
  return std::ranges::any_of(
      list, [&](std::string_view entry) { return entry == name || entry == full_name; });
}

std::uint64_t hash_text(std::string_view text) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

// Whether every tensor that comes out is an alias of one that went in, and nothing is written.
// Only PyTorch's own ops are believed: another library's op may read what it returns a view of.
bool is_view(const c10::FunctionSchema& schema) {
  if (!schema.name().starts_with("aten::")) return false;
  const auto written = [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  };
  if (schema.returns().empty() || std::ranges::any_of(schema.arguments(), written)) return false;
  return std::ranges::all_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

bool only_calls_other_ops(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

// On CPU `_foreach_*` has no kernel of its own: it loops over the tensors and calls the plain op.
bool is_foreach_loop(const c10::OperatorHandle& op, std::string_view name) {
  return name.starts_with("aten::_foreach_") && !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

// An op defined in Python runs as Python code. Its inner ops come back to us and pin what they need;
// to pin its operands throughout would only keep room from others.
bool is_python_code(const c10::OperatorHandle& op) {
  return op.debug().find(".py:") != std::string::npos;  // "registered at FILE:LINE"
}

// May draw random numbers: a dropout whose probability is 0 is among them.
bool is_random(const c10::OperatorHandle& op) {
  const auto is_generator = [](const c10::Argument& argument) {
    const c10::Type& type = *argument.type();
    const auto* const optional = type.castRaw<c10::OptionalType>();
    const c10::Type& inner = optional != nullptr ? *optional->getElementType() : type;
    return inner.kind() == c10::TypeKind::GeneratorType;
  };
  return op.hasTag(at::Tag::nondeterministic_seeded) || std::ranges::any_of(op.schema().arguments(), is_generator);
}

bool is_collective(std::string_view name) {
  constexpr auto kNamespaces = std::to_array<std::string_view>({"c10d::", "_c10d_functional::", "c10d_functional::",
                                                                "_c10d_functional_autograd::"});
  return std::ranges::any_of(kNamespaces, [name](std::string_view space) { return name.starts_with(space); });
}

OpKind kind_of(const c10::OperatorHandle& op, std::string_view name, std::string_view full_name) {
  if (contains(kMultiTensorOps, name, full_name)) return OpKind::kMultiTensor;
  if (only_calls_other_ops(op) || is_python_code(op) || is_foreach_loop(op, name) || is_view(op.schema()) ||
      contains(kLightOps, name, full_name)) {
    return OpKind::kLight;
  }
  return OpKind::kData;
}

// Open addressing over slots that only ever go from empty to filled, or are replaced when an op was
// deregistered. Readers take no lock. A table that fills up hands over to a locked map.
class OpTable {
 public:
  OpInfo* find(std::size_t key) const {
    for (std::size_t i = slot_of(key), probes = 0; probes < kProbes; i = next(i), ++probes) {
      OpInfo* info = slots_[i].load(std::memory_order_acquire);
      if (info == nullptr) return nullptr;
      if (info->key == key && !info->retired.load(std::memory_order_relaxed)) return info;
    }
    return nullptr;
  }

  const OpInfo& insert(const c10::OperatorHandle& op, std::size_t key) {
    const std::lock_guard lock(mutex_);
    if (const OpInfo* found = find(key)) return *found;
    if (const auto found = overflow_.find(key); found != overflow_.end() && !found->second->retired)
      return *found->second;
    auto* info = new OpInfo;  // never freed: readers hold no lock
    info->key = key;
    classify(op, *info);
    for (std::size_t i = slot_of(key), probes = 0; probes < kProbes; i = next(i), ++probes) {
      const OpInfo* old = slots_[i].load(std::memory_order_relaxed);
      if (old == nullptr || old->retired.load(std::memory_order_relaxed)) {
        slots_[i].store(info, std::memory_order_release);
        return *info;
      }
    }
    return *(overflow_[key] = info);
  }

  void retire(std::size_t key) {
    const std::lock_guard lock(mutex_);
    if (OpInfo* info = find(key)) info->retired = true;
    if (const auto found = overflow_.find(key); found != overflow_.end())
      found->second->retired = true;
  }

 private:
  static constexpr std::size_t kSlots = 1 << 14;
  static constexpr std::size_t kProbes = 64;
  static std::size_t slot_of(std::size_t key) {
    return (key * 0x9e3779b97f4a7c15ULL) >> (64 - 14);
  }
  static std::size_t next(std::size_t i) { return (i + 1) & (kSlots - 1); }

  std::atomic<OpInfo*> slots_[kSlots] = {};
  std::mutex mutex_;
  std::unordered_map<std::size_t, OpInfo*> overflow_;
};

OpTable& table() {
  static OpTable* const instance = new OpTable;  // outlives every static destructor
  return *instance;
}

class Deregistration final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    table().retire(std::hash<c10::OperatorHandle>{}(op));
  }
};

}  // namespace

void classify(const c10::OperatorHandle& op, OpInfo& info) {
  const c10::OperatorName& operator_name = op.operator_name();
  info.name = operator_name.name;
  if (!operator_name.overload_name.empty()) info.name += "." + operator_name.overload_name;
  info.hash = hash_text(info.name);
  info.idiom = idiom_class_named(info.name);
  for (const OrderingOp& ordering : kOrderingOps) {
    if (ordering.op == operator_name.name) info.scratch = ordering.scratch;
  }
  info.kind = kind_of(op, operator_name.name, info.name);
  if (is_random(op)) info.flags |= trace::kUsesRng;
  if (is_collective(info.name)) info.flags |= trace::kCollective;
  const auto& arguments = op.schema().arguments();
  for (std::size_t i = 0; i < std::min<std::size_t>(arguments.size(), 64); ++i) {
    const c10::AliasInfo* alias = arguments[i].alias_info();
    const bool unannounced =
        std::ranges::any_of(kUnannouncedWrites, [&](const UnannouncedWrite& write) {
          return write.op == operator_name.name && write.argument == arguments[i].name();
        });
    if ((alias != nullptr && alias->isWrite()) || unannounced) info.writes |= 1ULL << i;
  }
}

const OpInfo& op_info(const c10::OperatorHandle& op) {
  const std::size_t key = std::hash<c10::OperatorHandle>{}(op);
  const OpInfo* info = table().find(key);
  return info != nullptr ? *info : table().insert(op, key);
}

void watch_deregistration() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never taken back: the registration must outlive every op, and so does the process.
    static auto* const handle = new c10::RegistrationHandleRAII(
        c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Deregistration>()));
    (void)handle;
  });
}

}  // namespace outsize::adapter
