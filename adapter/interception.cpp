#include "adapter/interception.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pthread.h>
#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "adapter/gate.h"
#include "adapter/hot_ops.h"
#include "adapter/multi_tensor.h"
#include "adapter/op_info.h"
#include "adapter/op_scope.h"
#include "adapter/operands.h"

namespace outsize::adapter {

int current_backward_pass() { return torch::autograd::get_current_graph_task_id(); }

// Gradients are accumulated by nodes of the greatest number there is, which becomes 0: known to nobody.
GraphPlace current_graph_place(bool in_backward) {
  const std::uint64_t next = at::sequence_number::peek() + 1;
  if (!in_backward) return graph_place(next, 0);
  const auto running = torch::autograd::get_current_node();
  return graph_place(next, running == nullptr ? 0 : running->sequence_nr() + 1);
}

void name_site_slowly(host::Runtime& runtime, ThreadState& state, SiteId site,
                      const OperandCollector& operands, const std::string& op_name,
                      bool in_backward) {
  if (const std::uint32_t forgotten = host::Runtime::names_forgotten(); state.names_forgotten != forgotten) {
    state.names_forgotten = forgotten;
    std::fill_n(&state.seen[0][0], 2 * ThreadState::kSeenSets, SiteId{0});
  }
  runtime.name_site(site, operands.describe(op_name, in_backward).c_str());
  SiteId* const seen = state.seen_with(site);
  seen[1] = seen[0];
  seen[0] = site;
}

namespace {

// Bytes of scratch that an op takes for this operand. Which dimension is ordered does not matter much:
// the longest is the worst.
std::size_t scratch_for(const at::Tensor& tensor, const Scratch& scratch) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  // No virtual accessors: those of tensor subclasses would call back into Python.
  if (span_of(tensor).bytes == 0 || impl.has_symbolic_sizes_strides()) return 0;
  std::int64_t all = 1, longest = 0;
  for (const std::int64_t size : impl.sizes_default()) {
    all *= size;
    longest = std::max(longest, size);
  }
  std::int64_t elements = scratch.of == Scratch::Of::kAll ? all : longest;
  if (scratch.of == Scratch::Of::kRows && longest > 0) {
    elements *= std::min<std::int64_t>(all / longest, at::get_num_threads());
  }
  return static_cast<std::size_t>(elements) * (scratch.bytes + scratch.item_sizes * impl.itemsize());
}

void expect_scratch(host::Runtime& runtime, const OpInfo& info, const torch::jit::Stack& stack) {
  std::size_t most = 0;
  for (const c10::IValue& argument : stack) {
    if (!argument.isTensor() || !argument.toTensor().defined()) continue;
    most = std::max(most, scratch_for(argument.toTensor(), info.scratch));
  }
  if (const Status status = runtime.expect_untracked(most, info.name); !status.ok()) throw_error(status.error());
}

void run_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet below = keys & kBelowKey;
  const OpInfo& info = op_info(op);
  if (info.kind == OpKind::kLight || open_runtime() == nullptr) {
    return op.redispatchBoxed(below, stack);
  }
  const GateEntry gate;
  if (gate.runtime() == nullptr) return op.redispatchBoxed(below, stack);
  if (info.kind == OpKind::kMultiTensor) return run_in_pieces(op, info, below, stack, gate);
  OperandCollector operands(gate.state());
  collect_boxed(operands, op.schema().arguments().size(), info, *stack);
  if (info.scratch.of != Scratch::Of::kNothing && gate.runtime()->has_process_budget()) {
    expect_scratch(*gate.runtime(), info, *stack);
  }
  const OpScope scope(*gate.runtime(), gate.state(), operands, info, info.flags);
  op.redispatchBoxed(below, stack);
}

// Ops that touch no bytes skip us altogether. What is registered later than this is classified when
// it first comes by.
void register_fallthroughs(c10::Dispatcher& dispatcher) {
  // Never taken back: the registrations must outlive every op, and so does the process.
  static auto* const handles = new std::vector<c10::RegistrationHandleRAII>;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || op->hasKernelForDispatchKey(kKey)) continue;
    OpInfo info;
    classify(*op, info);
    if (info.kind != OpKind::kLight) continue;
    handles->push_back(dispatcher.registerImpl(name, kKey, c10::KernelFunction::makeFallthrough(),
                                               std::nullopt, nullptr, "outsize"));
  }
}

Status install() {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.hasBackendFallbackForDispatchKey(kKey)) {
    return Error{ErrorCode::kUnsupported,
                 std::string("outsize needs PyTorch's dispatch key ") + c10::toString(kKey) +
                     ", but another library in this process has registered a fallback for it.",
                 "interception", "Do not load that library (torchdistx is one) together with outsize."};
  }
  static auto* const fallback = new c10::RegistrationHandleRAII(dispatcher.registerFallback(
      kKey, c10::KernelFunction::makeFromBoxedFunction<&run_boxed>(), "outsize"));
  (void)fallback;
  register_hot_ops();
  register_fallthroughs(dispatcher);
  watch_deregistration();
  // A forked child goes on without us: its ops need not even come by.
  pthread_atfork(nullptr, nullptr, [] { include_thread(false); });
  return {};
}

}  // namespace

Status install_interception() {
  static std::mutex* const mutex = new std::mutex;
  static bool installed = false;
  const std::lock_guard lock(*mutex);
  if (installed) return {};
  Status status = install();
  installed = status.ok();
  return status;
}

bool thread_included() { return c10::impl::tls_is_dispatch_key_included(kKey); }

bool include_thread(bool on) {
  const bool before = thread_included();
  if (before != on) c10::impl::tls_set_dispatch_key_included(kKey, on);
  return before;
}

}  // namespace outsize::adapter
