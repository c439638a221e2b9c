// outsize._core: what the Python package asks of the compiled part. Thin: arguments in, results and
// exceptions out. The GIL is let go around every call that may block, because whoever it waits for
// may need it.

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <pybind11/eval.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adapter/adoption.h"
#include "adapter/control.h"
#include "adapter/errors.h"
#include "adapter/gate.h"
#include "adapter/interception.h"
#include "adapter/op_info.h"
#include "adapter/op_scope.h"
#include "adapter/operands.h"
#include "adapter/token_look.h"
#include "adapter/wishes.h"
#include "platforms/host/disk_probe.h"
#include "platforms/host/machine.h"
#include "platforms/host/runtime.h"
#include "platforms/host/signal_faults.h"

namespace py = pybind11;

namespace outsize::adapter {
namespace {

struct Exceptions {
  PyObject* base = nullptr;
  PyObject* budget = nullptr;
  PyObject* spill = nullptr;
};
Exceptions exceptions;  // written once, at import

PyObject* exception_type(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOutOfBudget: return exceptions.budget;
    case ErrorCode::kOutOfSpace:
    case ErrorCode::kIo: return exceptions.spill;
    default: return exceptions.base;
  }
}

void check(const Status& status) {
  if (status.ok()) return;
  PyErr_SetString(exception_type(status.error().code), status.error().message().c_str());
  throw py::error_already_set();
}

// Thrown inside ops, on any thread and without the GIL; PyTorch makes it a Python exception.
struct OpError final : torch::PyTorchError {
  explicit OpError(const Error& error) : PyTorchError(error.message()), type(exception_type(error.code)) {}
  PyObject* python_type() override { return type; }
  PyObject* type;
};

// A thread that waits with the GIL would keep out the very thread it waits for, when that one is
// inside an op whose kernel is written in Python.
void* leave_gil() {
  if (Py_IsInitialized() == 0) return nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  PyThreadState* const running = PyThreadState_GetUnchecked();
#else
  PyThreadState* const running = _PyThreadState_UncheckedGet();
#endif
  // PyGILState_Check() would say yes on every thread once there was a subinterpreter.
  if (running == nullptr || running != PyGILState_GetThisThreadState()) return nullptr;
  return PyEval_SaveThread();
}

bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// While the interpreter ends, Python would end this (daemon) thread in the middle of our code.
void take_gil_back(void* left) {
  if (left == nullptr) return;
  while (interpreter_ends()) pause();
  PyEval_RestoreThread(static_cast<PyThreadState*>(left));
}

template <class Call>
auto without_gil(Call&& call) {
  const py::gil_scoped_release released;
  return call();
}

// torch.compile and its like dispatch higher-order operators in Python, by key; they need to be told
// that ours is one to pass through. Private interfaces of PyTorch: where they have moved, only
// higher-order operators called eagerly under outsize are affected.
constexpr const char* kTeachHigherOrderOps = R"(
def teach(key):
    import torch._ops as ops
    defaults = ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS
    if any(int(known.value) == int(key.value) for known in defaults):
        return
    defaults.append(key)
    for operator in ops._higher_order_ops.values():
        operator.fallthrough(key)
)";

void teach_higher_order_ops() {
  try {
    py::dict names;
    py::exec(kTeachHigherOrderOps, names);
    names["teach"](py::cast(kKey));
  } catch (const py::error_already_set& error) {
    py::module_::import("warnings").attr("warn")(
        std::string("outsize: higher-order operators (torch.cond, flex_attention) may not work in "
                    "eager mode with this torch: ") + error.what());
  }
}

// See set_slice_deleter: makes a slice of a storage and looks at how it frees.
void learn_slice_deleter() {
  const py::module_ torch = py::module_::import("torch");
  const py::object whole = torch.attr("UntypedStorage")(16);
  const py::object part = whole[py::slice(0, 8, 1)];
  const auto tensor = torch.attr("empty")(0, py::arg("dtype") = torch.attr("uint8"))
                          .attr("set_")(part)
                          .cast<at::Tensor>();
  const auto& data =
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  const auto whole_tensor = torch.attr("empty")(0, py::arg("dtype") = torch.attr("uint8"))
                                .attr("set_")(whole)
                                .cast<at::Tensor>();
  // Only if the slice really keeps the whole's StorageImpl as its context.
  if (data.get_context() == whole_tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()) {
    set_slice_deleter(data.get_deleter());
  }
}

// A DataLoader's worker takes SIGSEGV over right after the fork that made it. There it is how spilled
// bytes come back, so ours goes in front again; what is not ours is handed on.
void keep_faults_in_data_loader_workers() {
  static bool done = false;
  if (done) return;
  done = true;
  const auto module = py::module_::import("torch.utils.data._utils.signal_handling");
  const py::object original = module.attr("_set_worker_signal_handlers");
  module.attr("_set_worker_signal_handlers") = py::cpp_function([original] {
    original();
    host::reinstall_fault_signal_handler();
  });
}

void create(std::int64_t budget, std::int64_t process_budget, const std::string& policy,
            const std::string& spill_dir, std::int64_t spill_limit,
            std::uint64_t disk_write_limit, const std::string& faults, int io_threads, bool verify,
            const std::string& decision_log, const std::string& record, const std::string& record_meta,
            const std::string& pilot, const std::string& foresee) {
  const auto mechanism = fault_mechanism(faults);
  if (!mechanism) check(Status(mechanism.error()));
  host::RuntimeOptions options;
  options.budget = budget;
  options.process_budget = process_budget;
  options.policy = policy;
  options.spill_dir = spill_dir;
  options.spill_limit = spill_limit;
  options.disk_write_limit = disk_write_limit;
  options.faults = mechanism.value();
  options.io_threads = io_threads;
  options.verify = verify;
  options.decision_log = decision_log;
  options.record = record;
  options.record_meta = record_meta;
  options.pilot = pilot;
  options.foresee = foresee;
  learn_slice_deleter();
  teach_higher_order_ops();
  keep_faults_in_data_loader_workers();
  check(without_gil([&] { return enable(options); }));
}

py::dict stats() {
  host::Stats s;
  without_gil([&] { with_runtime([&](host::Runtime& runtime) { s = runtime.stats(); }); });
  py::list untracked;
  for (const host::UntrackedBytes& rise : s.untracked) untracked.append(py::make_tuple(rise.op, rise.bytes));
  return py::dict(
      py::arg("budget") = s.budget, py::arg("resident") = s.resident,
      py::arg("resident_peak") = s.resident_peak, py::arg("tensor_bytes") = s.tensor_bytes,
      py::arg("tensor_bytes_peak") = s.tensor_bytes_peak, py::arg("pinned") = s.pinned,
      py::arg("spilled") = s.spilled,
      py::arg("spill_file") = s.spill_file, py::arg("read_bytes") = s.read_bytes,
      py::arg("write_bytes") = s.write_bytes, py::arg("dropped_bytes") = s.dropped_bytes,
      py::arg("prefetched_bytes") = s.prefetched_bytes,
      py::arg("prefetch_hit_bytes") = s.prefetch_hit_bytes,
      py::arg("demand_bytes") = s.demand_bytes, py::arg("stall") = s.stall,
      py::arg("steps") = s.steps, py::arg("ops") = s.ops, py::arg("raw_faults") = s.raw_faults,
      py::arg("reads") = s.reads, py::arg("writes") = s.writes,
      py::arg("evictions") = s.evictions, py::arg("min_budget") = s.min_budget,
      py::arg("min_budget_op") = s.min_budget_op, py::arg("refused_ops") = s.refused_ops,
      py::arg("min_spill_file") = s.min_spill_file, py::arg("small_held") = s.small_held,
      py::arg("small_live") = s.small_live, py::arg("arena_bytes") = s.arena_bytes,
      py::arg("mechanism") = s.mechanism, py::arg("small_pages") = s.small_pages,
      py::arg("bounced_bytes") = s.bounced_bytes,
      py::arg("policy") = s.policy, py::arg("foresight") = s.foresight,
      py::arg("pilot_ops") = s.pilot_ops,
      py::arg("pilot_known_ops") = s.pilot_known_ops, py::arg("pilot_given_up") = s.pilot_given_up,
      py::arg("foresee_ops") = s.foresee_ops, py::arg("foresee_known_ops") = s.foresee_known_ops,
      py::arg("foresee_given_up") = s.foresee_given_up,
      py::arg("spill_dir") = s.spill_dir, py::arg("warning") = s.warning,
      py::arg("disk_size") = s.disk_size, py::arg("disk_write_limit") = s.disk_write_limit,
      py::arg("held_back") = s.held_back, py::arg("verified_bytes") = s.verified_bytes,
      py::arg("verify") = s.verify, py::arg("process_budget") = s.process_budget,
      py::arg("process_peak") = s.process_peak, py::arg("untracked") = untracked);
}

py::dict end_recording() {
  const host::Recorded recorded = without_gil(&host::Runtime::end_recording);
  return py::dict(py::arg("path") = recorded.path, py::arg("bytes") = recorded.bytes, py::arg("ops") = recorded.ops,
                  py::arg("steps") = recorded.steps, py::arg("error") = recorded.error);
}

py::tuple timeline() {
  const host::TimelineTold told = without_gil(&host::Runtime::timeline);
  py::dict names;
  for (const auto& [site, name] : told.names) names[py::int_(site)] = name;
  return py::make_tuple(told.json, names);
}

// Calls use(runtime, address, bytes) for a tensor that has bytes in RAM while outsize is on.
template <class Use>
void with_bytes(const at::Tensor& tensor, Use&& use) {
  without_gil([&] {
    const ByteRange range = span_of(tensor);
    if (range.bytes == 0) return;
    with_runtime([&](host::Runtime& runtime) { use(runtime, range.address, range.bytes); });
  });
}

void expose(const at::Tensor& tensor) {
  with_bytes(tensor, [](host::Runtime& runtime, const void* address, std::size_t bytes) {
    runtime.expose(address, bytes);
  });
}

// A pin that Python holds.
class HeldPin {
 public:
  explicit HeldPin(host::Pins pins) : pins_(std::move(pins)) {}
  ~HeldPin() { release(); }
  HeldPin(const HeldPin&) = delete;
  HeldPin& operator=(const HeldPin&) = delete;

  void release() {
    const host::Pins pins = std::exchange(pins_, {});
    if (!pins.empty()) without_gil([&] { host::Runtime::unpin(pins); });
  }

 private:
  host::Pins pins_;
};

std::unique_ptr<HeldPin> pin_tensor(const at::Tensor& tensor, bool for_program) {
  auto pins = without_gil([&] { return for_program ? pin_for_program(tensor) : pin(tensor); });
  if (!pins) check(pins.error());
  return std::make_unique<HeldPin>(std::move(*pins));
}

// A compiled function that Python calls with tensors and numbers and that goes straight to their
// bytes, past the dispatcher: for the engine an op like any other.
class Kernel {
 public:
  // `written[i]`: argument i is written, where it is a tensor; those past the end are. `hash` names
  // the kernel the same in every process.
  Kernel(py::object function, std::string name, std::uint64_t hash, std::vector<bool> written)
      : function_(std::move(function)), written_(std::move(written)) {
    op_.name = std::move(name);
    op_.hash = hash;
  }

  py::object call(const py::args& arguments) const {
    const GateEntry gate;
    if (gate.runtime() == nullptr || !thread_included()) return function_(*arguments);
    OperandCollector operands(gate.state());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      PyObject* const argument = PyTuple_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i));
      if (!THPVariable_Check(argument)) continue;
      const bool is_written = i >= written_.size() || written_[i];
      operands.add(THPVariable_Unpack(argument), is_written ? Access::kWrite : Access::kRead);
    }
    try {
      const OpScope scope(*gate.runtime(), gate.state(), operands, op_, op_.flags);
      return function_(*arguments);
    } catch (OpError& error) {  // pybind11 does not know PyTorch's exceptions
      PyErr_SetString(error.type, error.what());
      throw py::error_already_set();
    }
  }

 private:
  py::object function_;
  OpInfo op_;  // no idioms: it is several ops in one
  std::vector<bool> written_;
};

bool adopt(const at::Tensor& tensor) {
  if (!tensor.defined() || span_of(tensor).bytes == 0 || !enabled()) return false;
  auto* const storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  return without_gil([&] { return adopt_storage(*storage); });
}

py::dict memory_limits() {
  const host::MemoryLimits limits = host::memory_limits();
  return py::dict(py::arg("total") = limits.total, py::arg("available") = limits.available,
                  py::arg("cgroup") = limits.cgroup, py::arg("cgroup_used") = limits.cgroup_used);
}

py::dict measure_disk(const std::string& directory, std::int64_t sample) {
  const auto measured = without_gil([&] { return host::measure_disk(directory, sample); });
  if (!measured) check(Status(measured.error()));
  const host::DiskBandwidth& disk = measured.value();
  return py::dict(py::arg("read") = disk.read, py::arg("write") = disk.write,
                  py::arg("mixed_read") = disk.mixed_read, py::arg("mixed_write") = disk.mixed_write,
                  py::arg("single_read") = disk.single_read, py::arg("single_write") = disk.single_write,
                  py::arg("sample") = disk.sample);
}

// Nanoseconds; those of pages are 0 where they do not move one by one.
py::dict measure_moves(const std::string& directory, std::int64_t sample) {
  const Bytes lately_freed = std::min<Bytes>(kGiB, host::memory_limits().available / 8);
  const auto pages = without_gil([&] { return host::measure_page_cost(lately_freed); });
  const auto moves = without_gil([&] { return host::measure_move_cost(directory, sample); });
  if (!moves) check(Status(moves.error()));
  const host::PageCost page = pages.ok() ? pages.value() : host::PageCost{};
  const host::MoveCost& move = moves.value();
  return py::dict(py::arg("page_ns") = page.page, py::arg("fresh_mib_ns") = page.fresh_mib,
                  py::arg("fresh_huge_mib_ns") = page.fresh_huge_mib, py::arg("warm_huge_mib_ns") = page.warm_huge_mib,
                  py::arg("cold_bytes") = page.cold, py::arg("command_ns") = move.command,
                  py::arg("transfer_ns") = move.transfer, py::arg("wait_ns") = move.wait);
}

std::unique_ptr<host::DiskLoad> disk_load(const std::string& directory, std::int64_t bytes) {
  auto load = without_gil([&] { return host::DiskLoad::create(directory, bytes); });
  if (!load) check(Status(load.error()));
  return std::move(*load);
}

void move(host::DiskLoad& load, bool write) {
  using Kind = host::IoRequest::Kind;
  check(without_gil([&] { return load.move(write ? Kind::kWrite : Kind::kRead); }));
}

py::dict fault_support() {
  const host::FaultSupport support = host::fault_support();
  return py::dict(py::arg("userfaultfd") = support.userfaultfd,
                  py::arg("kernel_faults") = support.kernel_faults, py::arg("move") = support.move,
                  py::arg("write_protect") = support.write_protect,
                  py::arg("reason") = support.reason);
}

PyObject* make_exception(py::module_& module, const char* name, const char* text,
                         const py::object& bases) {
  const std::string full_name = std::string("outsize.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full_name.c_str(), text, bases.ptr(), nullptr);
  if (type == nullptr) throw py::error_already_set();
  module.attr(name) = py::handle(type);
  return type;
}

void make_exceptions(py::module_& module) {
  const py::object runtime_error = py::reinterpret_borrow<py::object>(PyExc_RuntimeError);
  exceptions.base = make_exception(
      module, "OutsizeError",
      "Something outsize could not do; the message says what, where and what to try.",
      runtime_error);
  const py::object base = py::reinterpret_borrow<py::object>(exceptions.base);
  exceptions.budget = make_exception(
      module, "BudgetError", "More memory is needed than the budget, or the machine, allows.",
      py::make_tuple(base, py::module_::import("torch").attr("OutOfMemoryError")));
  exceptions.spill = make_exception(
      module, "SpillError", "The spill file could not be made, grown, read or written.", base);
}

}  // namespace
}  // namespace outsize::adapter

PYBIND11_MODULE(_core, module) {
  using namespace outsize::adapter;
  using py::arg;
  module.doc() = "The compiled part of outsize. Programs use the outsize package instead.";
  py::module_::import("torch");
  make_exceptions(module);
  set_thrower([](const outsize::Error& error) { throw OpError(error); });
  outsize::host::Runtime::set_wait_hooks({leave_gil, take_gil_back});
  module.def("create", &create, arg("budget"), arg("process_budget") = 0, arg("policy") = "lookahead", arg("spill_dir") = "",
             arg("spill_limit") = 0, arg("disk_write_limit") = 0, arg("faults") = "auto", arg("io_threads") = 4,
             arg("verify") = false, arg("decision_log") = "", arg("record") = "", arg("record_meta") = "",
             arg("pilot") = "", arg("foresee") = "");
  module.def("shutdown", [] { check(without_gil(&disable)); });
  module.def("running", &enabled);
  module.def("include_thread", &include_thread, arg("on"),
             "Turns interception on or off for the calling thread; says whether it was on.");
  module.def("step", [] {
    without_gil([] { with_runtime([](outsize::host::Runtime& runtime) { runtime.step(); }); });
  });
  module.def("sample", [](std::vector<std::pair<std::string, std::vector<double>>> features) {
    without_gil([&] {
      with_runtime([&](outsize::host::Runtime& runtime) { runtime.sample(std::move(features)); });
    });
  }, arg("features"));
  module.def("look_at", [](const at::Tensor& tensor) {
    const outsize::trace::TokenStatistics said = without_gil([&] { return look_at(tensor); });
    return py::make_tuple(said.values, said.distinct, said.commonest);
  }, arg("tensor"));  // of a small one: first whole numbers; by row how many differ, how often the commonest comes
  module.def("end_recording", &end_recording);
  module.def("keep_timeline", [](std::int64_t steps) {
    without_gil([&] { with_runtime([&](outsize::host::Runtime& runtime) { runtime.keep_timeline(steps); }); });
  }, arg("steps"));
  module.def("timeline", &timeline);
  module.def("stats", &stats);
  module.def("expose", &expose, arg("tensor"));
  py::class_<HeldPin>(module, "Pin").def("release", &HeldPin::release);
  module.def("pin", &pin_tensor, arg("tensor"), arg("for_program") = false);
  py::class_<Kernel>(module, "Kernel")
      .def(py::init<py::object, std::string, std::uint64_t, std::vector<bool>>(), arg("function"),
           arg("name"), arg("hash"), arg("written"))
      .def("__call__", &Kernel::call);
  module.def("hint", [](const at::Tensor& tensor, bool soon) { without_gil([&] { hint(tensor, soon); }); },
             arg("tensor"), arg("soon"));
  module.def("adopt", &adopt, arg("tensor"));
  module.def("memory_limits", &memory_limits);
  module.def("measure_disk", &measure_disk, arg("directory"), arg("sample"));
  module.def("measure_moves", &measure_moves);
  py::class_<outsize::host::DiskLoad>(module, "DiskLoad")
      .def(py::init(&disk_load), arg("directory"), arg("bytes"))
      .def("move", &move, arg("write"))
      .def_property_readonly("bytes", &outsize::host::DiskLoad::bytes);
  module.def("fault_support", &fault_support);
  module.def("reinstall_fault_handler", &outsize::host::reinstall_fault_signal_handler);
  module.def("built_for_torch", [] { return std::string(TORCH_VERSION); });
}
