#include "sim/foresight/predicted.h"

#include <algorithm>
#include <utility>

namespace outsize::sim::foresight {

// A plan begins with the op that runs.
void Pilot::foresee(std::size_t limit, std::vector<Place>& out) {
  predictor_.foresee(plan_, static_cast<std::uint32_t>(limit + 1));
  const pilot::Network& network = predictor_.network();
  for (const pilot::NodeId node : plan_.nodes().subspan(1)) {
    const auto at = path_.places.find(network[node].token);
    out.push_back(at == path_.places.end() ? kUnknown : at->second);
  }
  if (plan_.ends()) out.push_back(kStepEnd);
}

void Repeat::op(const OpEvent& op, Place place) {
  predictor_.on_op(op);
  running_.push_back(place);
}

// As RepeatPredictor does, a step of hardly any ops is not kept.
void Repeat::step(Nanos now) {
  constexpr std::size_t kShortest = 4;
  predictor_.on_step(now);
  if (running_.size() >= kShortest && running_.size() < steps::StepRecord::kOpsMax) {
    std::swap(last_, running_);
    last_.push_back(kStepEnd);
  }
  running_.clear();
}

void Repeat::foresee(std::size_t limit, std::vector<Place>& out) {
  const std::uint32_t at = predictor_.cycle_place();
  if (at == kNoPlace || at >= last_.size()) return;
  const auto from = last_.begin() + at;
  out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(std::min<std::size_t>(limit, last_.size() - at)));
}

std::uint64_t Executed::key_of(const OpEvent& op) {
  std::uint64_t key = deepum::mix(op.in_backward, op.site);
  std::uint32_t named = 0;
  for (const ExtentId id : op.extents) {
    const deepum::BlockId block = names_.seen(id);
    if (block == deepum::kNone || named == options_.key_operands || names_.packed(block)) continue;
    key = deepum::mix(key, block);
    ++named;
  }
  return key;
}

void Executed::run(std::uint64_t key, Place place) {
  const auto [id, fresh] = executions_.number(key, position_++);
  if (id >= places_.size()) places_.resize(id + 1, kUnknown);
  places_[id] = place;
  if (running_ != deepum::kNone) {
    const std::uint64_t before = executions_[running_].key;
    came_[context_.short_key(before)] = {key, place};
    came_[deepum::Context{}.short_key(before)] = {key, place};
    executions_.learn(running_, context_, id);
    context_.pass(before);
  }
  running_ = id;
}

// Where the context was never met, what came last at all is meant, as Executions::next means it.
Place Executed::place_of(deepum::ExecutionId next, deepum::ExecutionId after, const deepum::Context& context) const {
  const std::uint64_t key = executions_[after].key;
  for (const std::uint64_t in_context : {context.short_key(key), deepum::Context{}.short_key(key)}) {
    const auto at = came_.find(in_context);
    if (at != came_.end() && at->second.key == executions_[next].key) return at->second.place;
  }
  return places_[next];
}

void Executed::op(const OpEvent& op, Place place) {
  run(key_of(op), place);
  site_ = op.site;
  births_ = 0;
}

void Executed::step(Nanos) {
  constexpr std::uint64_t kStepKey = 0x9e3779b97f4a7c15ULL;
  run(kStepKey, kStepEnd);
}

void Executed::foresee(std::size_t limit, std::vector<Place>& out) {
  if (running_ == deepum::kNone) return;
  deepum::Context context = context_;
  deepum::ExecutionId at = running_;
  for (std::size_t count = 0; count < limit; ++count) {
    const deepum::ExecutionId next = executions_.next(at, context);
    if (next == deepum::kNone) return;
    out.push_back(place_of(next, at, context));
    if (out.back() == kStepEnd) return;
    context.pass(executions_[std::exchange(at, next)].key);
  }
}

}  // namespace outsize::sim::foresight
