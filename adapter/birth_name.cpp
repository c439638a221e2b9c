#include "adapter/birth_name.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <charconv>
#include <string_view>

namespace outsize::adapter {
namespace {

constexpr std::string_view kOps = "_ZN2at4_ops";  // at::_ops::NAME::call and ::redispatch, mangled
constexpr std::string_view kNumber = "_ZN5torch10PythonArgs11tensor_slow";

// NAME, which is an op's with its overload; empty for any other function.
std::string_view op_function(std::string_view symbol) {
  if (!symbol.starts_with(kOps)) return {};
  symbol.remove_prefix(kOps.size());
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(symbol.data(), symbol.data() + symbol.size(), length);
  if (error != std::errc{}) return {};
  symbol.remove_prefix(static_cast<std::size_t>(end - symbol.data()));
  return symbol.substr(0, length);
}

// As op sites are named: "add__Tensor" is aten::add_.Tensor.
std::string op_name(std::string_view function) {
  constexpr std::string_view kSpace = "aten::";
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!op.name.starts_with(kSpace)) continue;
    const std::string_view name = std::string_view(op.name).substr(kSpace.size());
    const std::string_view overload = op.overload_name;
    if (!function.starts_with(name)) continue;
    const std::string_view rest = function.substr(name.size());
    if (rest.empty() && overload.empty()) return op.name;
    if (!overload.empty() && rest.size() == overload.size() + 1 && rest[0] == '_' && rest.ends_with(overload)) {
      return op.name + "." + op.overload_name;
    }
  }
  return std::string(kSpace) + std::string(function);
}

}  // namespace

// The op that was called, not those which it called: the outermost before the stack leaves PyTorch.
std::string birth_name(const std::string& otherwise) {
  std::array<void*, 64> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  const void* pytorch = nullptr;  // the library with the ops
  std::string found;
  for (int i = 0; i < count; ++i) {
    Dl_info info{};
    if (dladdr(frames[static_cast<std::size_t>(i)], &info) == 0) break;
    const std::string_view symbol = info.dli_sname != nullptr ? info.dli_sname : "";
    if (const std::string_view function = op_function(symbol); !function.empty()) {
      pytorch = info.dli_fbase;
      found = function;
    } else if (pytorch != nullptr && info.dli_fbase != pytorch) {
      break;
    } else if (symbol.starts_with(kNumber)) {
      return "a number that becomes a tensor";
    }
  }
  return found.empty() ? otherwise : op_name(found);
}

}  // namespace outsize::adapter
