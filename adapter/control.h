// Switching outsize on and off in this process: what both front doors, C++ and Python, stand on.
#pragma once

#include <string>

#include "core/base/result.h"
#include "platforms/host/runtime.h"

namespace outsize::adapter {

// "auto", "userfaultfd" or "signal".
Result<host::FaultMechanism> fault_mechanism(const std::string& name);

// Makes the runtime, installs allocator and interception, lets ops in. Threads still have to opt in
// (interception.h). Calls PyTorch's vector functions before (vector_math.h). May block; do not hold the GIL.
Status enable(const host::RuntimeOptions& options);
// Keeps ops out, brings every tensor back and lets go of the runtime. On error nothing has changed:
// outsize is still on. Nothing to do is not an error. May block; do not hold the GIL.
Status disable();
bool enabled();

// Calls `use(runtime)` with a runtime that stays alive meanwhile; false where outsize is off.
template <class Use>
bool with_runtime(Use&& use);

}  // namespace outsize::adapter

#include "adapter/gate.h"

namespace outsize::adapter {

template <class Use>
bool with_runtime(Use&& use) {
  const GateEntry gate;
  if (gate.runtime() == nullptr) return false;
  use(*gate.runtime());
  return true;
}

}  // namespace outsize::adapter
