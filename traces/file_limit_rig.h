// For tests: files of this process that grow beyond a limit fail, as on a full disk.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace outsize::traces {

class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : action_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, action_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  void (*action_)(int);
  rlimit before_{};
};

}  // namespace outsize::traces
