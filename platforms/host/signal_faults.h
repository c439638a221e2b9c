// The process's SIGSEGV handler: sorts page faults into ours and everybody else's.
//
// A fault of ours parks the faulting thread: its handler posts the address into a slot, wakes the
// service thread through an eventfd, and sleeps on a futex until somebody resumes the address. It
// uses no malloc, takes no lock and never needs Python's GIL. Every other fault goes to whoever
// handled SIGSEGV before us, or kills the process as it would have without us.
//
// In a forked child there is no service thread: see fork_child.h.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "core/base/result.h"
#include "platforms/host/page_mover.h"
#include "platforms/host/page_mover_ranges.h"

namespace outsize::host {

// Takes SIGSEGV (again), if any mover of this process needs it and somebody else has taken it in
// the meantime; that somebody becomes the one we pass foreign faults to. Python's
// faulthandler.enable() is such a somebody: call this after it. Any thread; not in a handler.
void reinstall_fault_signal_handler();

// Installs the handler for the first time in this process; later calls equal reinstall.
Status install_fault_signal_handler();

// One mover's share of the handler.
class SignalFaults {
 public:
  // Faulting threads beyond this many at once retry in a loop until a slot is free.
  static constexpr std::size_t kSlots = 256;

  // `areas` must outlive this; `wake` is the eventfd that the service thread polls.
  SignalFaults(const AreaTable& areas, int wake) : areas_(areas), wake_(wake) {}
  ~SignalFaults() { unregister(); }
  SignalFaults(const SignalFaults&) = delete;
  SignalFaults& operator=(const SignalFaults&) = delete;

  // Starts answering; at most four at a time in one process.
  Status enroll();
  // Lets everybody go and waits until no thread is in our part of the handler.
  void unregister() noexcept;

  // Service thread: takes one posted fault, false where there is none.
  bool take(Address* address, bool* write) noexcept;
  // Lets threads parked on [begin, end) try again.
  void resume(Address begin, Address end) noexcept;

  // In the signal handler: false where the address is not ours.
  bool park(Address address, bool write) noexcept;

 private:
  enum State : std::uint32_t { kFree, kClaimed, kPosted, kTaken, kResumed };
  struct Slot {
    std::atomic<std::uint32_t> state{kFree};
    std::atomic<bool> write{false};
    std::atomic<Address> address{0};
  };
  const AreaTable& areas_;
  const int wake_;
  std::array<Slot, kSlots> slots_;
  std::atomic<int> parked_{0};  // slots not free; a hint that lets resume skip the scan
  bool enrolled_ = false;
};

}  // namespace outsize::host
