// The modelled disk: one read and one write at a time, each with latency and bandwidth, which is less
// while the other runs as well, and while too little is asked for to keep the disk busy; what is asked for
// more urgently goes first. Faults and slow transfers
// come from a seed. Integer time.
#pragma once

#include <vector>

#include "core/engine/input.h"
#include "sim/random.h"

namespace outsize::sim {

inline constexpr Bytes kLinkCall = 4 * kMiB;  // as platforms/host/io_pool.cpp cuts them

struct LinkOptions {
  Bytes read_rate = 1'000'000'000;   // bytes a second
  Bytes write_rate = 1'000'000'000;
  int mixed_percent = 60;            // of these rates while the other direction is busy ...
  Bytes mixed_read_rate = 0;         // ... or these rates, where they are known
  Bytes mixed_write_rate = 0;
  // With one call under way, where that is known: transfers are made in calls of kLinkCall bytes at most,
  // those that wait are taken to run beside the first, and together they are not faster than the rates above.
  Bytes single_read_rate = 0, single_write_rate = 0;
  Nanos latency = 100'000;
  std::uint64_t seed = 1;
  std::uint64_t fail_one_in = 0;     // transfers; 0: none fails
  std::uint64_t fail_kth = 0;        // the k-th transfer fails, from 1; 0: none
  std::uint64_t slow_one_in = 0;     // transfers that take kSlowFactor times as long
};

struct Transfer {
  ExtentId extent = kNoExtent;
  bool write = false;
  Urgency urgency = Urgency::kDemand;
  Bytes bytes = 0;
  std::uint64_t order = 0;
  Nanos started = 0;
  Nanos ends = 0;        // as things are: later when the other direction begins
  Nanos until_first = 0;  // of its latency, what is left at `seen`
  Bytes left = 0;         // and of its bytes, or of what a slow one takes as long as
  Nanos seen = 0;
  bool fails = false;
};

class Link {
 public:
  explicit Link(const LinkOptions& options) : options_(options), random_(options.seed) {}

  void submit(ExtentId extent, bool write, Urgency urgency, Bytes bytes, Nanos now);
  void promote(ExtentId extent, Urgency urgency);
  bool busy() const { return running_[0].extent != kNoExtent || running_[1].extent != kNoExtent; }
  // When the next transfer ends; only while busy().
  Nanos next_end() const;
  // Takes the transfer that ends next and starts its successor.
  Transfer take();

 private:
  static constexpr Nanos kSlowFactor = 20;
  void start(bool write, Nanos now);
  void advance(Nanos now);
  void foresee();
  Bytes rate(bool write) const;
  Bytes calls(bool write) const;
  bool write_ends_first() const;

  LinkOptions options_;
  Random random_;
  Transfer running_[2];           // by direction
  std::vector<Transfer> waiting_;
  std::uint64_t order_ = 0, started_ = 0;
};

}  // namespace outsize::sim
