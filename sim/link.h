// The modelled disk: a bandwidth each way, which is less while the other way is busy as well, and latency; what is
// asked for more urgently goes first. One transfer each way at a time; or, where it is known what a single call of the
// system gets, as many as kLinkCalls calls serve, which share the bandwidth evenly. Faults and slow transfers
// come from a seed. Integer time.
#pragma once

#include <vector>

#include "core/engine/input.h"
#include "sim/random.h"

namespace outsize::sim {

// As platforms/host/io_pool.cpp has them: the most bytes of a call, and how many are under way at once.
inline constexpr Bytes kLinkCall = 4 * kMiB;
inline constexpr Bytes kLinkCalls = 4;

struct LinkOptions {
  Bytes read_rate = 1'000'000'000;   // bytes a second
  Bytes write_rate = 1'000'000'000;
  int mixed_percent = 60;            // of these rates while the other direction is busy ...
  Bytes mixed_read_rate = 0;         // ... or these rates, where they are known
  Bytes mixed_write_rate = 0;
  Bytes single_read_rate = 0, single_write_rate = 0;  // of one call alone; 0: as several
  Nanos latency = 100'000;
  std::uint64_t seed = 1;
  std::uint64_t fail_one_in = 0;     // transfers; 0: none fails
  std::uint64_t fail_kth = 0;        // the k-th transfer fails, from 1; 0: none
  std::uint64_t slow_one_in = 0;     // transfers that take kSlowFactor times as long
};

// Bytes a second of one direction while the other is busy as well.
Bytes mixed_rate(const LinkOptions& options, bool write);

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
  Nanos idle = 0;         // of its time so far, in which nobody worked
  bool fails = false;
};

class Link {
 public:
  explicit Link(const LinkOptions& options) : options_(options), random_(options.seed) {}

  void submit(ExtentId extent, bool write, Urgency urgency, Bytes bytes, Nanos now);
  void promote(ExtentId extent, Urgency urgency);
  bool busy() const { return !running_.empty(); }
  // Until the next transfer ends nobody works, for so long.
  void nobody_works(Nanos nanos);
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
  Bytes rate_of(const Transfer& transfer) const;
  Bytes single(bool write) const { return write ? options_.single_write_rate : options_.single_read_rate; }
  Bytes calls(bool write) const;
  bool begin_next(bool write, Nanos now);

  LinkOptions options_;
  Random random_;
  std::vector<Transfer> running_;
  std::vector<Transfer> waiting_;
  std::uint64_t order_ = 0, started_ = 0;
};

}  // namespace outsize::sim
