// Weight offloading as a problem to be solved: what is known, and what a schedule may do.
//
// After O. Beaumont, L. Eyraud-Dubois, A. Shilova, X. Zhao, "Weight Offloading Strategies for
// Training Large DNN Models", 2022 (hal-03580767). Only the abstract and a talk of that group were
// at hand; what they leave open is decided here, and marked so.
//
// A training step of a chain of L layers is 2L ops one after the other:
//
//     F_1 F_2 ... F_L B_L ... B_2 B_1        and then the same again, for ever.
//
// F_i needs the weight w_i and makes the activation a_i, which stays until B_i has ended. B_i needs
// w_i, computes its gradient (scratch: it is consumed at once) and updates w_i. Ops do not overlap.
// Two tiers: the upper one is what the memory limits, the lower one holds everything.
//
// Weights move whole, over one link each way. Both links work beside the ops and beside each other;
// a link carries one weight at a time and is not interrupted.
//   * Up (a fetch, or ahead of need a prefetch): the lower copy must be valid. The bytes count from
//     the start of the transfer; an op that needs the weight starts after its end.
//   * Down (a send): the weight stays readable meanwhile, so F_i may run beside it. At its end the
//     copy below is valid, until B_i changes the weight. B_i does not start during it.
//   * A drop takes no time. It needs a valid lower copy and no op or transfer that uses the weight.
// So w_i has two gaps in which it can be away:
//   * forward to backward, F_i to B_i. It is sent after B_i, and dropped only after the next F_i:
//     the send may take all that time ("single" offloading), and F_i needs no fetch.
//   * backward to forward, B_i to the next F_i. It is sent after B_i, and dropped at once.
// One gap costs a send and a fetch; both together one send and two fetches, since after F_i the
// copy below is still valid.
//
// Memory at an instant: fixed + the activations that live + the scratch of the op that runs + the
// weights that are there, are coming, or have not been dropped. While ops wait there is no scratch.
//
// Decided here: between two steps both links are idle, and every step begins in the same state
// (which weights are above, which copies are valid below). The schedule chooses that state. So a
// step is a thing of its own, at the price of a little idle link time at its ends.
//
// Units: bytes, nanoseconds. Small numbers serve as well: 1000 bytes a microsecond are one byte a
// nanosecond.
#pragma once

#include <cstddef>
#include <vector>

#include "core/base/result.h"
#include "core/base/types.h"

namespace outsize::weights {

struct Layer {
  Bytes weight = 0;      // with its optimizer state; 0: a layer without weights, never moved
  Nanos forward = 1;     // > 0
  Nanos backward = 1;    // > 0; gradient and update are in it
  Bytes activation = 0;  // from the start of F_i to the end of B_i
  Bytes forward_scratch = 0, backward_scratch = 0;  // while the op runs
};

struct Link {
  Bytes bytes_per_us = 1000;  // > 0; the same number as MB/s
};

struct Chain {
  std::vector<Layer> layers;
  Bytes fixed = 0;  // what is always there: inputs, buffers
  Link up, down;

  std::size_t length() const { return layers.size(); }
};

// The time of one transfer, rounded up.
inline Nanos transfer_time(Bytes bytes, Link link) {
  return (bytes * 1000 + link.bytes_per_us - 1) / link.bytes_per_us;
}

// kInvalidArgument: no layers, more than kLayersMax, a negative size, a time or a bandwidth that is
// not positive, or numbers so large that sums over the chain would not fit.
Status validate(const Chain& chain);

inline constexpr std::size_t kLayersMax = 10'000;

// The chain laid out in time: op s of 2L, s from 0. Layers count from 0 here, in messages from 1.
class Timeline {
 public:
  explicit Timeline(const Chain& chain);

  std::size_t layers() const { return layers_; }
  std::size_t ops() const { return 2 * layers_; }
  std::size_t layer_of(std::size_t op) const { return op < layers_ ? op : ops() - 1 - op; }
  bool is_backward(std::size_t op) const { return op >= layers_; }
  std::size_t forward_op(std::size_t layer) const { return layer; }
  std::size_t backward_op(std::size_t layer) const { return ops() - 1 - layer; }

  Nanos time_of(std::size_t op) const { return time_[op]; }
  // Bytes besides weights: while the op runs, and at rest before it (op == ops(): after the last).
  Bytes running(std::size_t op) const { return running_[op]; }
  Bytes at_rest(std::size_t op) const { return at_rest_[op]; }
  Nanos compute_time() const { return compute_time_; }
  Bytes all_weights() const { return all_weights_; }

 private:
  std::size_t layers_;
  std::vector<Nanos> time_;
  std::vector<Bytes> running_, at_rest_;
  Nanos compute_time_ = 0;
  Bytes all_weights_ = 0;
};

// With less than `least` no schedule exists: some op does not fit with its own weight. With `all`
// nothing ever has to move.
struct MemoryRange {
  Bytes least = 0, all = 0;
};
MemoryRange memory_range(const Chain& chain);

// How long each op has to wait at least after the op before it has ended, because its weight cannot
// be there by then: its fetch starts after that op where the two do not fit together while it runs;
// and where they do not even fit together at rest, after a B op's weight has been sent, too.
std::vector<Nanos> least_waits(const Chain& chain, Bytes memory);

}  // namespace outsize::weights
