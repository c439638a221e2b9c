// Makes chosen transfers fail, for the fault tests. See io_pool.h for the environment variable.
#pragma once

#include <cstdint>
#include <string>

#include "platforms/host/io_pool.h"

namespace outsize::host {

struct InjectedFault {
  enum class Kind : std::uint8_t { kNone, kErrno, kShort, kFlip, kLate, kParts };
  Kind kind = Kind::kNone;
  int error = 0;
  std::int64_t number = 0;  // of the transfer: another byte each time
  std::int64_t late = 0;    // milliseconds
};

// Counts transfers of the wanted kind from 1 and fails number offset+every, offset+2*every, ...
// Not thread-safe: called under the pool's mutex.
class FaultPlan {
 public:
  // A text that cannot be read is reported on stderr and injects nothing.
  static FaultPlan from_environment();
  static FaultPlan parse(const std::string& text, bool* valid);
  InjectedFault next(IoRequest::Kind kind);

 private:
  std::int64_t every_ = 0;  // 0: none
  std::int64_t offset_ = 0;
  std::int64_t late_ = 20;  // milliseconds: longer than many transfers take
  bool reads_ = true;
  bool writes_ = true;
  InjectedFault fault_;
  std::int64_t count_ = 0;
};

// The transfer as the fault would have it: kErrno does nothing and fails; kShort does the first
// half and then makes no progress; kFlip does all of it, and one bit is wrong where the bytes arrive.
// Two are no failures: kLate takes long, so that others overtake it; with kParts the system does only a
// page at each call. `bounce` as in run_piece.
Status run_injected(const IoRequest& request, const InjectedFault& fault, char* bounce = nullptr);

// Where byte `from` of a request lies in the file, and how many follow it there.
FileRun place(const IoRequest& request, Bytes from);
// The plain transfer of a part of a request, `at_once` bytes a call at most, and its errors: through a buffer of
// BounceBuffers::kBytes, if one is given. Defined by the pool.
Status run_piece(const IoRequest& request, Bytes from, Bytes bytes, char* bounce = nullptr, Bytes at_once = INT64_MAX);
Error transfer_error(const IoRequest& request, std::int64_t offset, Bytes asked, Bytes done, int error);

}  // namespace outsize::host
