#include "predictors/deepum/executions.h"

namespace outsize::deepum {

std::pair<ExecutionId, bool> Executions::number(std::uint64_t key, Position now) {
  ExecutionId id = index_.find(key);
  const bool fresh = id == kNone;
  if (fresh) {
    if (executions_.size() < max_) {
      id = size();
      executions_.emplace_back();
      history_.resize(executions_.size() * records_);
    } else {
      id = oldest();
      index_.erase(id);
      executions_[id] = Execution{};
      std::fill_n(history_.begin() + static_cast<std::ptrdiff_t>(id) * records_, records_, Record{});
    }
    index_.insert(id, key);
  }
  executions_[id].last = now;
  return {id, fresh};
}

// Of a few the one that ran longest ago: nearly the oldest, at a bounded cost.
ExecutionId Executions::oldest() {
  constexpr std::uint32_t kLooked = 16;
  ExecutionId best = hand_;
  for (std::uint32_t i = 0; i < kLooked; ++i) {
    if (executions_[hand_].last < executions_[best].last) best = hand_;
    hand_ = hand_ + 1 < size() ? hand_ + 1 : 0;
  }
  return best;
}

void Executions::learn(ExecutionId id, const Context& context, ExecutionId next) {
  Record* const first = &history_[static_cast<std::size_t>(id) * records_];
  Record* at = first;
  while (at != first + records_ - 1 && at->context != context) ++at;
  *at = {context, next};  // the last one makes way where none has this context
  std::rotate(first, at, at + 1);
}

ExecutionId Executions::next(ExecutionId id, const Context& context) const {
  const Record* const first = &history_[static_cast<std::size_t>(id) * records_];
  for (const Record* at = first; at != first + records_; ++at) {
    if (at->next != kNone && at->context == context) return at->next;
  }
  return first->next;
}

}  // namespace outsize::deepum
