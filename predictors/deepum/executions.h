// DeepUM's execution-ID table, which numbers ops by what they are, and its execution-correlation table,
// which says what comes after one: for each execution ID, the contexts it was met in (the three
// execution IDs before it) and what followed, the latest first. A context that was never met is
// answered with what followed last time.
//
// Bounded: when the table is full, an execution ID that has not been used for long is taken over.
// Others may still name it; what they foretell then is wrong, which costs time only.
#pragma once

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/residency/extent.h"
#include "predictors/deepum/key_index.h"
#include "predictors/deepum/options.h"

namespace outsize::deepum {

using ExecutionId = std::uint32_t;
// The execution IDs before one, the latest first.
using Context = std::array<ExecutionId, 3>;
inline constexpr Context kNoContext = {kNone, kNone, kNone};
constexpr Context after(const Context& context, ExecutionId next) {
  return {next, context[0], context[1]};
}

// What an op did the last time, measured until the next one began.
struct Execution {
  Position last = 0;            // when it ran last
  Nanos gap = 0;                // until the next op
  Bytes born = 0, died = 0;     // in it, and after it before the next op
  Bytes alive = 0;              // of what it bore then, now
};

class Executions {
 public:
  explicit Executions(const PredictorOptions& options)
      : max_(options.executions), records_(options.records) {}
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
                              history_.capacity() * sizeof(Record)) + index_.bytes();
  }

 private:
  struct Record {
    Context context = kNoContext;
    ExecutionId next = kNone;
  };
  ExecutionId oldest();

  std::uint32_t max_, records_;
  std::vector<Execution> executions_;
  std::vector<Record> history_;  // `records_` of each
  KeyIndex index_;
  ExecutionId hand_ = 0;         // where the search for an old one goes on
};

}  // namespace outsize::deepum
