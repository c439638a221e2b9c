#include "adapter/errors.h"

#include <c10/util/Exception.h>

#include <atomic>

namespace outsize::adapter {

namespace {

std::atomic<void (*)(const Error&)> thrower_{nullptr};

}  // namespace

void set_thrower(void (*thrower)(const Error&)) { thrower_.store(thrower); }

void throw_error(const Error& error) {
  if (const auto thrower = thrower_.load()) thrower(error);
  const c10::SourceLocation here = {__func__, __FILE_NAME__, static_cast<uint32_t>(__LINE__)};
  if (error.code == ErrorCode::kOutOfBudget) throw c10::OutOfMemoryError(here, error.message());
  throw c10::Error(here, error.message());
}

}  // namespace outsize::adapter
