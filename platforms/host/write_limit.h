// How fast the spill file may be written: so many bytes a second on average, so that a disk that wears
// out by writing lasts. A pace, not an allowance: what was not used for more than a moment is lost.
//
// The generic cell rate algorithm (ITU-T I.371) with bytes for cells: every write takes time that has
// to pass before it is paid for, and a write may begin while less than kBurst is unpaid. So in any
// time t at most rate * (t + kBurst) bytes and the last write are begun.
//
// Not thread-safe: the pool calls it under its mutex.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/types.h"

namespace outsize::host {

class WriteLimit {
 public:
  static constexpr Nanos kBurst = 1'000'000'000;

  // Bytes a second; 0: no limit. What has been written before stays to be paid for.
  void set_rate(std::uint64_t rate) { rate_ = rate; }
  bool on() const { return rate_ > 0; }
  // How long from `now` the next write has to wait; 0: it may begin.
  Nanos wait(Nanos now) const { return on() ? std::max<Nanos>(0, paid_at_ - kBurst - now) : 0; }
  // A write of so many bytes begins, allowed or not.
  void begin(Bytes bytes, Nanos now) {
    if (!on()) return;
    const double takes = static_cast<double>(bytes) * 1e9 / static_cast<double>(rate_);
    paid_at_ = std::max(paid_at_, now) + static_cast<Nanos>(takes);
  }

 private:
  std::uint64_t rate_ = 0;
  Nanos paid_at_ = 0;  // when all that was begun is paid for
};

}  // namespace outsize::host
