// One op as the runtime sees it: op_begin before the kernel, op_end after it, also when it throws.
#pragma once

#include <string>

#include "adapter/errors.h"
#include "adapter/gate.h"
#include "adapter/op_info.h"
#include "adapter/operands.h"
#include "core/base/types.h"
#include "core/trace/trace_event.h"

namespace outsize::adapter {

// Registers the site's name with the runtime, unless this thread has done so lately.
void name_site_slowly(host::Runtime& runtime, ThreadState& state, SiteId site,
                      const OperandCollector& operands, const std::string& op_name,
                      bool in_backward);

class OpScope {
 public:
  // Makes the operands resident and pins them; may block. Throws, with nothing pinned, if that
  // cannot be. `flags`: trace::OpFlag, but for kInBackward.
  OpScope(host::Runtime& runtime, ThreadState& state, const OperandCollector& operands,
          const OpInfo& op, std::uint8_t flags)
      : runtime_(runtime) {
    const bool in_backward = current_backward_pass() != -1;
    const SiteId site = operands.site(op, in_backward);
    const SiteId* const seen = state.seen_with(site);
    if ((seen[0] != site && seen[1] != site) || state.names_forgotten != host::Runtime::names_forgotten()) {
      name_site_slowly(runtime, state, site, operands, op.name, in_backward);
    }
    if (in_backward) flags |= trace::kInBackward;
    const Status status = runtime.op_begin(site, operands.operands(), flags, current_graph_place(in_backward));
    if (!status.ok()) throw_error(status.error());
  }
  // Also while the gate closes: it waits for us. In a forked child op_end does nothing.
  ~OpScope() { runtime_.op_end(); }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  host::Runtime& runtime_;
};

}  // namespace outsize::adapter
