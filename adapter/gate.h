// The one switch between PyTorch and the runtime: which Runtime ops and allocations of this process
// go to, if any, and which threads are using it right now.
//
// Every op and every allocation passes through a `GateEntry`. It costs two stores and a load. Closing
// the gate waits until no other thread is between entering and leaving, so that a Runtime is never
// destroyed under a running op.
//
// Threading: everything here may be called from any thread, with or without Python's GIL.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/types.h"
#include "platforms/host/runtime.h"

namespace outsize::adapter {

// What this thread needs at every op. Made on the thread's first op, destroyed with the thread.
struct ThreadState {
  std::atomic<bool> inside{false};  // read by the thread that closes the gate
  int depth = 0;                    // nested ops and allocations of this thread
  std::vector<host::Operand> operands;  // grows rarely, never shrinks

  // Sites whose name the runtime already has: two ways, newest first. A miss only costs time.
  static constexpr std::size_t kSeenSets = 1024;
  SiteId seen[kSeenSets][2] = {};
  // The lowest bits of a site are its kind and its idiom class: ops that differ in nothing but shapes would share a set.
  SiteId* seen_with(SiteId site) { return seen[(site >> (kKindBits + kIdiomBits)) % kSeenSets]; }
  std::uint32_t names_forgotten = 0;  // as of then
};

namespace detail {
// One pointer of static TLS: a general-dynamic lookup would cost a call at every op.
extern constinit thread_local ThreadState* tls_state __attribute__((tls_model("initial-exec")));
extern std::atomic<host::Runtime*> open_runtime;
ThreadState& make_thread_state();
}  // namespace detail

inline ThreadState& thread_state() {
  ThreadState* state = detail::tls_state;
  return state != nullptr ? *state : detail::make_thread_state();
}

// The Runtime that is switched on, or null. Only for a look: to use it, enter the gate.
inline host::Runtime* open_runtime() noexcept {
  return detail::open_runtime.load(std::memory_order_relaxed);
}

// While alive, the runtime it found (or null) stays alive.
class GateEntry {
 public:
  GateEntry() : state_(thread_state()) {
    // Order matters: first say that we are inside, then look. The thread that closes the gate does
    // the reverse with a process-wide memory barrier in between, which spares us a fence here.
    if (state_.depth++ == 0) state_.inside.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    runtime_ = open_runtime();
  }
  ~GateEntry() {
    if (--state_.depth == 0) state_.inside.store(false, std::memory_order_release);
  }
  GateEntry(const GateEntry&) = delete;
  GateEntry& operator=(const GateEntry&) = delete;

  host::Runtime* runtime() const { return runtime_; }
  ThreadState& state() const { return state_; }

 private:
  ThreadState& state_;
  host::Runtime* runtime_;
};

// Lets ops and allocations in. `runtime` must outlive the matching close_gate.
void open_gate(host::Runtime* runtime);
// Keeps new ones out and waits for those inside. Refuses, changing nothing, when called from inside
// an op of this thread, or when another thread stays inside for longer than a minute. May block: do
// not hold the GIL.
Status close_gate();

}  // namespace outsize::adapter
