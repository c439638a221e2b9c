#include "adapter/control.h"

#include <pthread.h>

#include <memory>
#include <mutex>
#include <new>

#include "adapter/allocator.h"
#include "adapter/interception.h"
#include "adapter/vector_math.h"

namespace outsize::adapter {
namespace {

// Never destroyed: tensors and threads may outlive every static destructor.
struct Control {
  std::mutex turn;   // one enable() or disable() at a time
  std::mutex mutex;  // `runtime`; held across a fork, so never while waiting for ops of other threads
  std::unique_ptr<host::Runtime> runtime;
};

Control& control() {
  static Control* const instance = new Control;
  return *instance;
}

// The child has neither the runtime's threads nor the right to end it for the parent. Registered
// after the runtime's and the gate's handlers, so that a fork takes the locks in the order in which
// disable() does: this one first.
void watch_forks_of_control() {
  static const int registered = pthread_atfork([] { control().mutex.lock(); },
                                               [] { control().mutex.unlock(); },
                                               [] {
                                                 (void)control().runtime.release();
                                                 control().mutex.unlock();
                                                 new (&control().turn) std::mutex;  // whoever has it is not here
                                               });
  (void)registered;
}

}  // namespace

Result<host::FaultMechanism> fault_mechanism(const std::string& name) {
  if (name == "auto") return host::FaultMechanism::kAuto;
  if (name == "userfaultfd") return host::FaultMechanism::kUserfaultfd;
  if (name == "signal") return host::FaultMechanism::kSignal;
  return Error{ErrorCode::kInvalidArgument, "There is no fault mechanism '" + name + "'.", "faults",
               "Known: auto, userfaultfd, signal."};
}

Status enable(const host::RuntimeOptions& options) {
  Control& all = control();
  const std::scoped_lock locks(all.turn, all.mutex);
  if (all.runtime != nullptr) {
    return Error{ErrorCode::kInvalidArgument, "outsize is already on in this process.", "enable",
                 "Turn it off first; one session at a time."};
  }
  settle_vector_math();
  if (Status status = install_interception(); !status.ok()) return status;
  auto runtime = host::Runtime::create(options);
  if (!runtime) return runtime.error();
  install_allocator();
  all.runtime = std::move(*runtime);
  open_gate(all.runtime.get());
  watch_forks_of_control();
  return {};
}

Status disable() {
  Control& all = control();
  const std::lock_guard turn(all.turn);
  if (all.runtime == nullptr) return {};
  if (Status status = close_gate(); !status.ok()) return status;
  const std::lock_guard lock(all.mutex);
  if (Status status = all.runtime->shutdown(); !status.ok()) {
    open_gate(all.runtime.get());
    return status;
  }
  all.runtime.reset();
  return {};
}

bool enabled() { return open_runtime() != nullptr; }

}  // namespace outsize::adapter
