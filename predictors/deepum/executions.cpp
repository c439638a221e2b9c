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

// By what the ops are, not by their numbers: who takes over a number has no part in what was known of it.
std::uint64_t Executions::key_of(ExecutionId id, const Context& context) const {
  std::uint64_t key = executions_[id].key;
  for (const ExecutionId before : context) key = mix(key, before == kNone ? 0 : executions_[before].key);
  return key;
}

void Executions::learn(ExecutionId id, const Context& context, ExecutionId next) {
  executions_[id].next = next;
  const std::uint64_t key = key_of(id, context);
  std::uint32_t at = contexts_.find(key);
  if (at == kNone) {
    at = take_entry(records_, records_max_, contexts_, record_hand_);
    contexts_.insert(at, key);
  }
  records_[at] = {now_, executions_[next].key, next};
}

ExecutionId Executions::next(ExecutionId id, const Context& context) const {
  const std::uint32_t at = contexts_.find(key_of(id, context));
  const bool met = at != kNone && executions_[records_[at].next].key == records_[at].next_key;
  return met ? records_[at].next : executions_[id].next;
}

}  // namespace outsize::deepum
