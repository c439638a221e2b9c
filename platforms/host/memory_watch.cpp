#include "platforms/host/memory_watch.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "platforms/host/signals_blocked.h"

namespace outsize::host {
namespace {

class Watch final : public MemoryWatch {
 public:
  explicit Watch(Look look) : look_(std::move(look)) {}
  ~Watch() override {
    if (!started_) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_one();
    pthread_join(thread_, nullptr);
  }

  bool run() {
    const SignalsBlocked blocked;
    started_ = pthread_create(&thread_, nullptr, &Watch::entry, this) == 0;
    if (started_) pthread_setname_np(thread_, "outsize-watch");
    return started_;
  }

 private:
  static void* entry(void* self) {
    static_cast<Watch*>(self)->loop();
    return nullptr;
  }

  void loop() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      look_();
      lock.lock();
      stop_.wait_for(lock, std::chrono::nanoseconds(kEvery), [this] { return stopping_; });
    }
  }

  const Look look_;
  pthread_t thread_{};
  bool started_ = false;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
};

}  // namespace

ResidentSize::ResidentSize() : fd_(open("/proc/self/statm", O_RDONLY | O_CLOEXEC)) {}

ResidentSize::~ResidentSize() {
  if (fd_ >= 0) close(fd_);
}

// The second number of statm counts resident pages.
Bytes ResidentSize::read() const {
  char text[128];
  const ssize_t got = pread(fd_, text, sizeof text - 1, 0);
  if (got <= 0) return 0;
  text[got] = '\0';
  char* at = nullptr;
  (void)std::strtoll(text, &at, 10);
  return static_cast<Bytes>(std::strtoll(at, nullptr, 10)) * sysconf(_SC_PAGESIZE);
}

std::unique_ptr<MemoryWatch> MemoryWatch::start(Look look) {
  auto watch = std::make_unique<Watch>(std::move(look));
  if (!watch->run()) return nullptr;
  return watch;
}

}  // namespace outsize::host
