#include "predictors/deepum/chain.h"

#include <algorithm>

namespace outsize::deepum {
namespace {

// What a table cannot do without: a walk needs an entry, a chain the next op.
PredictorOptions sane(PredictorOptions options) {
  for (std::uint32_t* size : {&options.degree, &options.executions, &options.records, &options.rows, &options.ways,
                              &options.successors, &options.levels, &options.walk, &options.blocks}) {
    *size = std::max<std::uint32_t>(*size, 1);
  }
  if (!options.chaining) options.degree = 1;
  return options;
}

}  // namespace

Chain::Chain(const PredictorOptions& options)
    : options_(sane(options)), executions_(options_), tables_(options_), window_(options_.degree, options_.walk) {}

ExecutionId Chain::begin(std::uint64_t key) {
  const auto [id, fresh] = executions_.number(key, position_);
  if (fresh) {
    tables_.ensure(executions_.size());
    tables_.clear(id);
  }
  if (running_ != kNone) {
    executions_.learn(running_, context_, id);
    context_.pass(executions_[running_].key);
  }
  running_ = id;
  ++position_;
  if (window_.size() > 0 && window_.front() == id && !fresh) {
    window_.pop();
  } else if (window_.size() > 0) {
    window_.clear();
    rekeyed_ = true;
  }
  return id;
}

void Chain::extend() {
  if (window_.size() == 0) end_context_ = context_;
  ExecutionId last = window_.size() == 0 ? running_ : window_.at(window_.size() - 1);
  for (std::uint32_t i = 0; i < kExtendMax && window_.size() < options_.degree; ++i) {
    const ExecutionId next = executions_.next(last, end_context_);
    if (next == kNone) return;
    window_.push(next, tables_.walk(next), position_ + window_.size());
    end_context_.pass(executions_[last].key);
    last = next;
  }
}

}  // namespace outsize::deepum
