// Turns an errno into an Error that names the operation. For this folder's own use.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "core/base/result.h"

namespace outsize::host {

// "No space left on device (errno 28)". std::strerror is not thread-safe; this is.
inline std::string errno_text(int error) {
  return std::generic_category().message(error) + " (errno " + std::to_string(error) + ")";
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
