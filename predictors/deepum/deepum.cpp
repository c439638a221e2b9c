#include "predictors/deepum/deepum.h"

#include <algorithm>

namespace outsize::deepum {
namespace {

// What a table cannot do without: a walk needs an entry, a chain the next op.
PredictorOptions sane(PredictorOptions options) {
  for (std::uint32_t* size : {&options.degree, &options.executions, &options.records, &options.rows,
                              &options.ways, &options.successors, &options.levels, &options.blocks}) {
    *size = std::max<std::uint32_t>(*size, 1);
  }
  if (!options.chaining) options.degree = 1;
  return options;
}

}  // namespace

DeepumPredictor::DeepumPredictor(const PredictorOptions& options)
    : options_(sane(options)), names_(options_.blocks), executions_(options_), tables_(options_),
      window_(options_.degree) {}

// The op's name and arguments, as the paper hashes them. Gathers its blocks on the way.
std::uint64_t DeepumPredictor::key_of(const OpEvent& op) {
  std::uint64_t key = mix(op.in_backward, op.site);
  blocks_.clear();
  std::uint32_t named = 0;
  for (const ExtentId id : op.extents) {
    const BlockId block = names_.seen(id);
    if (block == kNone) continue;
    blocks_.push_back(block);
    if (named == options_.key_operands || names_.packed(block)) continue;
    key = mix(key, block);
    ++named;
  }
  return key;
}

void DeepumPredictor::on_op(const OpEvent& op) {
  const auto [id, fresh] = executions_.number(key_of(op), position_);
  if (fresh) {
    tables_.ensure(executions_.size());
    tables_.clear(id);
  }
  learn(id, op.now);
  executions_[id].alive = 0;
  running_ = id;
  site_ = op.site;
  births_ = 0;
  born_ = died_ = 0;
  began_ = op.now;
  ++position_;
  if (window_.size() > 0 && window_.front() == id) {
    window_.pop();
  } else if (window_.size() > 0) {
    window_.clear();
    rekeyed_ = true;
  }
  extend();
}

// The running op is over, `id` follows it.
void DeepumPredictor::learn(ExecutionId id, Nanos now) {
  if (running_ != kNone) {
    Execution& last = executions_[running_];
    last.gap = std::max<Nanos>(now - began_, 0);
    last.born = born_;
    last.died = died_;
    executions_.learn(running_, context_, id);
    context_ = after(context_, running_);
  }
  tables_.learn(id, blocks_);
}

// Chaining: from the end of what is foreseen, `degree` ops ahead of the running one.
void DeepumPredictor::extend() {
  ExecutionId last = running_;
  Context context = context_;
  const std::uint32_t foreseen = window_.size();
  // The last three before the end of the chain: the running op and its own may be among them.
  for (std::uint32_t i = foreseen > 3 ? foreseen - 4 : 0; i < foreseen; ++i) {
    context = after(context, last);
    last = window_.at(i);
  }
  for (std::uint32_t i = 0; i < kExtendMax && window_.size() < options_.degree; ++i) {
    const ExecutionId next = executions_.next(last, context);
    if (next == kNone) return;
    window_.push(next, tables_.walk(next), position_ + window_.size());
    context = after(context, last);
    last = next;
  }
}

void DeepumPredictor::on_birth(ExtentId id, Bytes bytes) {
  names_.born(id, site_, births_++, bytes);
  born_ += bytes;
  if (running_ == kNone) return;
  if (id >= bearers_.size()) bearers_.resize(id + 1 + id / 2);
  bearers_[id] = {running_, executions_[running_].last};
  executions_[running_].alive += bytes;
}

void DeepumPredictor::on_death(ExtentId id, Bytes bytes) {
  names_.died(id);
  died_ += bytes;
  if (id >= bearers_.size()) return;
  const Bearer bearer = std::exchange(bearers_[id], Bearer{});
  if (bearer.id == kNone || executions_[bearer.id].last != bearer.run) return;  // it ran again since
  executions_[bearer.id].alive -= bytes;
}

Position DeepumPredictor::next_use(ExtentId id) const {
  const BlockId block = names_.of(id);
  return block == kNone ? kNever : window_.next_use(block);
}

// Begins with what the running op still bears, as far as it did so last time.
struct DeepumPredictor::Demand {
  Nanos in = 0;      // until the op that is passed next
  Bytes sum = 0, most = 0;

  explicit Demand(const DeepumPredictor& p) {
    if (p.running_ == kNone) return;
    const Execution& before = p.executions_[p.running_];
    in = before.gap;
    sum = most = std::max<Bytes>(before.born - p.born_, 0);
    sum -= std::max<Bytes>(before.died - p.died_, 0);
  }
  void pass(const Execution& op) {
    in += op.gap;
    // Not what it bore last time and is still there, as optimizer state born in the first step.
    sum += std::max<Bytes>(op.born - op.alive, 0);
    most = std::max(most, sum);
    sum -= op.died;
  }
};

std::size_t DeepumPredictor::upcoming(std::span<Upcoming> out) const {
  std::size_t count = 0;
  std::uint32_t passed = 0;
  Demand demand(*this);
  window_.each([&](std::uint32_t ahead, BlockId block) {
    for (; passed < ahead; ++passed) demand.pass(executions_[window_.at(passed)]);
    const ExtentId id = names_.holder(block);
    if (id == kNoExtent || count == out.size()) return;
    out[count++] = {id, position_ + ahead, demand.in, demand.most};
  });
  return count;
}

Bytes DeepumPredictor::demand_within(Nanos nanos) const {
  Demand demand(*this);
  for (std::uint32_t ahead = 0; ahead < window_.size() && demand.in <= nanos; ++ahead) {
    demand.pass(executions_[window_.at(ahead)]);
  }
  return demand.most;
}

Bytes DeepumPredictor::table_bytes() const {
  return names_.bytes() + executions_.bytes() + tables_.bytes() + window_.bytes() +
         static_cast<Bytes>(bearers_.capacity() * sizeof(Bearer));
}

}  // namespace outsize::deepum
