#include "predictors/deepum/executions.h"

namespace outsize::deepum {

namespace {

// The number of an entry to fill: a new one while there are fewer than `max`, else of a few the one
// that was used longest ago: nearly the oldest, at a bounded cost. That one leaves the index.
template <class Entry>
std::uint32_t take_entry(std::vector<Entry>& entries, std::uint32_t max, KeyIndex& index, std::uint32_t& hand) {
  constexpr std::uint32_t kLooked = 16;
  if (entries.size() < max) {
    entries.emplace_back();
    return static_cast<std::uint32_t>(entries.size() - 1);
  }
  std::uint32_t best = hand;
  for (std::uint32_t i = 0; i < kLooked; ++i) {
    if (entries[hand].last < entries[best].last) best = hand;
    hand = hand + 1 < entries.size() ? hand + 1 : 0;
  }
  index.erase(best);
  entries[best] = Entry{};
  return best;
}

}  // namespace

std::pair<ExecutionId, bool> Executions::number(std::uint64_t key, Position now) {
  now_ = now;
  ExecutionId id = index_.find(key);
  const bool fresh = id == kNone;
  if (fresh) {
    id = take_entry(executions_, max_, index_, hand_);
    executions_[id].key = key;
    index_.insert(id, key);
  }
  executions_[id].last = now;
  return {id, fresh};
}

void Executions::learn(ExecutionId id, const Context& context, ExecutionId next) {
  Execution& op = executions_[id];
  op.next = next;
  learn_in(context.short_key(op.key), next);
  if (long_contexts_) learn_in(context.long_key(op.key), next);
}

void Executions::learn_in(std::uint64_t context, ExecutionId next) {
  std::uint32_t at = contexts_.find(context);
  if (at == kNone) {
    at = take_entry(records_, records_max_, contexts_, record_hand_);
    contexts_.insert(at, context);
  }
  records_[at] = {now_, executions_[next].key, next};
}

ExecutionId Executions::next(ExecutionId id, const Context& context) const {
  const Execution& op = executions_[id];
  ExecutionId met = long_contexts_ ? next_in(context.long_key(op.key)) : kNone;
  if (met == kNone) met = next_in(context.short_key(op.key));
  return met != kNone ? met : op.next;
}

// kNone: it was never met, or what followed is no longer known.
ExecutionId Executions::next_in(std::uint64_t context) const {
  const std::uint32_t at = contexts_.find(context);
  const bool met = at != kNone && executions_[records_[at].next].key == records_[at].next_key;
  return met ? records_[at].next : kNone;
}

}  // namespace outsize::deepum
