#include "platforms/host/page_mover_service.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "platforms/host/machine_error.h"
#include "platforms/host/signals_blocked.h"

namespace outsize::host {

Status FaultService::start(int fd, Collect collect, void* mover, PageMover::FaultHandler handler) {
  fd_ = fd;
  collect_ = collect;
  mover_ = mover;
  handler_ = std::move(handler);
  stop_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd_ < 0) return os_error(ErrorCode::kUnsupported, "eventfd", errno);
  const SignalsBlocked blocked;
  const int error = pthread_create(&thread_, nullptr, &FaultService::entry, this);
  if (error != 0) return os_error(ErrorCode::kUnsupported, "Starting the fault thread", error);
  pthread_setname_np(thread_, "outsize-fault");
  running_ = true;
  return {};
}

void FaultService::stop() noexcept {
  if (running_) {
    stopping_.store(true);
    const std::uint64_t one = 1;
    (void)!write(stop_fd_, &one, sizeof one);
    pthread_join(thread_, nullptr);
    running_ = false;
  }
  if (stop_fd_ >= 0) close(stop_fd_);
  stop_fd_ = -1;
}

void FaultService::before_fork() { gate_.lock(); }
void FaultService::after_fork_parent() { gate_.unlock(); }
void FaultService::after_fork_child() {
  running_ = false;
  gate_.unlock();
}

void* FaultService::entry(void* self) {
  static_cast<FaultService*>(self)->loop();
  return nullptr;
}

void FaultService::loop() {
  Fault faults[32];
  while (!stopping_.load()) {
    pollfd wait[2] = {{fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    if (poll(wait, 2, -1) < 0) continue;  // EINTR
    for (std::size_t count = 1; count != 0 && !stopping_.load();) {
      count = collect_(mover_, faults, sizeof faults / sizeof *faults);
      for (std::size_t i = 0; i < count; ++i) {
        { const std::lock_guard pass(gate_); }
        handler_(faults[i]);
      }
    }
  }
}

}  // namespace outsize::host
