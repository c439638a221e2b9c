// DeepUM's execution-ID table, which numbers ops by what they are, and its execution-correlation table,
// which says what comes after one: for each context it was met in (the three execution IDs before it)
// what followed, and for each long context (ours: the sixteen before it), which is asked first: in backward a dozen ops
// on gradients are the same in every layer. A context that was never met is answered with what followed last time.
//
// The contexts of all execution IDs share one table: an op on a small tensor is the same op in every
// layer, and has as many contexts as there are layers, where most have one.
//
// Bounded: when a table is full, an entry that has not been used for long is taken over. What followed
// an op in a context is known by what it was; what followed it last, by its number alone: when another took
// that over, what is foretold is wrong, which costs time only.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "core/residency/extent.h"
#include "predictors/deepum/key_index.h"
#include "predictors/deepum/options.h"

namespace outsize::deepum {

using ExecutionId = std::uint32_t;
// What the ops before one were, by their keys: who takes over a number has no part in what was known of it.
class Context {
 public:
  static constexpr std::size_t kShort = 3, kLong = 16;
  void pass(std::uint64_t key) {
    sum_ = (sum_ - keys_[at_] * kOldest) * kFactor + key;
    keys_[at_] = key;
    at_ = (at_ + 1) % kLong;
  }
  // Of `op` after the latest kShort, and after the latest kLong.
  std::uint64_t short_key(std::uint64_t op) const {
    op = mix(0, op);  // mix() adds: or the op and the one before it could change places
    for (std::size_t i = 1; i <= kShort; ++i) op = mix(op, keys_[(at_ + kLong - i) % kLong]);
    return op;
  }
  std::uint64_t long_key(std::uint64_t op) const { return mix(op, sum_ * kFactor); }

 private:
  static constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ULL;
  static constexpr std::uint64_t kOldest = [] {
    std::uint64_t power = 1;
    for (std::size_t i = 1; i < kLong; ++i) power *= kFactor;
    return power;
  }();
  std::array<std::uint64_t, kLong> keys_{};  // around `at_`, the oldest there; 0: there was no op
  std::uint64_t sum_ = 0;                    // of the keys, each times kFactor to the power of how many came after it
  std::size_t at_ = 0;
};

// What an op did the last time, measured until the next one began.
struct Execution {
  Position last = 0;            // when it ran last
  Nanos gap = 0;                // until the next op
  Bytes born = 0, died = 0;     // in it, and after it before the next op
  Bytes alive = 0;              // of what it bore then, now
  std::uint64_t key = 0;        // what it is
  ExecutionId next = kNone;     // that followed
};

class Executions {
 public:
  explicit Executions(const PredictorOptions& options)
      : max_(options.executions), records_max_(options.records), long_contexts_(options.long_contexts) {}
  // The number for `key`, and whether it is new to it: then whatever had the number is forgotten.
  std::pair<ExecutionId, bool> number(std::uint64_t key, Position now);
  Execution& operator[](ExecutionId id) { return executions_[id]; }
  const Execution& operator[](ExecutionId id) const { return executions_[id]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(executions_.size()); }
  // After `id`, met in `context`, came `next`.
  void learn(ExecutionId id, const Context& context, ExecutionId next);
  // What is expected after `id` in `context`; kNone: it was never followed.
  ExecutionId next(ExecutionId id, const Context& context) const;
  Bytes bytes() const {
    return static_cast<Bytes>(executions_.capacity() * sizeof(Execution) +
                              records_.capacity() * sizeof(Record)) + index_.bytes() + contexts_.bytes();
  }

 private:
  struct Record {  // of an execution ID in a context, long or short
    Position last = 0;           // when it was met last
    std::uint64_t next_key = 0;  // what followed, in case another took over its number
    ExecutionId next = kNone;
  };
  void learn_in(std::uint64_t context, ExecutionId next);
  ExecutionId next_in(std::uint64_t context) const;

  std::uint32_t max_, records_max_;
  bool long_contexts_;
  Position now_ = 0;
  std::vector<Execution> executions_;
  KeyIndex index_;
  ExecutionId hand_ = 0;         // where the search for an old one goes on
  std::vector<Record> records_;
  KeyIndex contexts_;            // of records_
  std::uint32_t record_hand_ = 0;
};

}  // namespace outsize::deepum
