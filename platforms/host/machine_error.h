// What this folder's messages are made of: an errno as an Error that names the operation, and sizes.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "core/base/result.h"
#include "core/base/types.h"

namespace outsize::host {

// "No space left on device (errno 28)". std::strerror is not thread-safe; this is.
inline std::string errno_text(int error) {
  return std::generic_category().message(error) + " (errno " + std::to_string(error) + ")";
}

// Rounded up to a tenth: a small storage must not be "0.0 MiB".
inline std::string mib(Bytes bytes) {
  const Bytes tenths = (bytes * 10 + kMiB - 1) / kMiB;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

inline ErrorCode code_of_errno(int error) {
  return error == ENOSPC || error == EDQUOT ? ErrorCode::kOutOfSpace : ErrorCode::kIo;
}

inline Error os_error(ErrorCode code, const std::string& operation, int error, std::string where = {},
                      std::string hint = {}) {
  return Error{code, operation + " failed: " + errno_text(error) + ".", std::move(where),
               std::move(hint)};
}

}  // namespace outsize::host
