// The thread that turns fault reports into calls of the FaultHandler, the same for both mechanisms:
// waits on one descriptor, lets the mechanism read what happened, stands aside during a fork.
//
// The thread holds no lock while it waits or while the handler runs, so a fork that finds it in
// either place leaves nothing locked behind in the child; before_fork() keeps it from getting from
// one to the other.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "core/base/result.h"
#include "platforms/host/page_mover.h"

namespace outsize::host {

class FaultService {
 public:
  // Returns how many faults it put into `faults`. Must not block.
  using Collect = std::size_t (*)(void* mover, Fault* faults, std::size_t capacity);

  FaultService() = default;
  ~FaultService() { stop(); }
  FaultService(const FaultService&) = delete;
  FaultService& operator=(const FaultService&) = delete;

  // `fd` becomes readable when there is something to collect; it stays the caller's.
  Status start(int fd, Collect collect, void* mover, PageMover::FaultHandler handler);
  void stop() noexcept;

  void before_fork();
  void after_fork_parent();
  void after_fork_child();  // forgets the thread, which is not here

 private:
  static void* entry(void* self);
  void loop();

  int fd_ = -1;
  int stop_fd_ = -1;
  Collect collect_ = nullptr;
  void* mover_ = nullptr;
  PageMover::FaultHandler handler_;
  std::mutex gate_;  // passed through before every call of the handler
  std::atomic<bool> stopping_{false};
  bool running_ = false;
  pthread_t thread_{};
};

}  // namespace outsize::host
