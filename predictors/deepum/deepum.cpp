#include "predictors/deepum/deepum.h"

#include <algorithm>

namespace outsize::deepum {

DeepumPredictor::DeepumPredictor(const PredictorOptions& options)
    : chain_(options), names_(chain_.options().blocks) {}

// The op's name and arguments, as the paper hashes them. Gathers its blocks on the way.
std::uint64_t DeepumPredictor::key_of(const OpEvent& op) {
  std::uint64_t key = mix(op.in_backward, op.site);
  blocks_.clear();
  std::uint32_t named = 0;
  for (const ExtentId id : op.extents) {
    const BlockId block = names_.seen(id);
    if (block == kNone) continue;
    blocks_.push_back(block);
    if (named == chain_.options().key_operands || names_.packed(block)) continue;
    key = mix(key, block);
    ++named;
  }
  return key;
}

void DeepumPredictor::on_op(const OpEvent& op) {
  judge_running(op.now);
  const ExecutionId id = chain_.begin(key_of(op));
  chain_.learn(id, blocks_);
  chain_.of(id).alive = 0;
  site_ = op.site;
  births_ = 0;
  born_ = died_ = 0;
  began_ = op.now;
  chain_.extend();
}

// The running op is over.
void DeepumPredictor::judge_running(Nanos now) {
  if (chain_.running() == kNone) return;
  Execution& last = chain_.of(chain_.running());
  last.gap = std::max<Nanos>(now - began_, 0);
  last.born = born_;
  last.died = died_;
}

void DeepumPredictor::on_birth(ExtentId id, Bytes bytes) {
  names_.born(id, site_, births_++, bytes);
  born_ += bytes;
  const ExecutionId running = chain_.running();
  if (running == kNone) return;
  if (id >= bearers_.size()) bearers_.resize(id + 1 + id / 2);
  bearers_[id] = {running, chain_.of(running).last};
  chain_.of(running).alive += bytes;
}

void DeepumPredictor::on_death(ExtentId id, Bytes bytes) {
  names_.died(id);
  died_ += bytes;
  if (id >= bearers_.size()) return;
  const Bearer bearer = std::exchange(bearers_[id], Bearer{});
  if (bearer.id == kNone || chain_.of(bearer.id).last != bearer.run) return;  // it ran again since
  chain_.of(bearer.id).alive -= bytes;
}

Position DeepumPredictor::next_use(ExtentId id) const {
  const BlockId block = names_.of(id);
  return block == kNone ? kNever : chain_.window().next_use(block);
}

// Begins with what the running op still bears, as far as it did so last time.
struct DeepumPredictor::Demand {
  Nanos in = 0;      // until the op that is passed next
  Bytes sum = 0, most = 0;

  explicit Demand(const DeepumPredictor& p) {
    if (p.chain_.running() == kNone) return;
    const Execution& before = p.chain_.of(p.chain_.running());
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
  chain_.window().each([&](std::uint32_t ahead, BlockId block) {
    for (; passed < ahead; ++passed) demand.pass(chain_.of(chain_.window().at(passed)));
    const ExtentId id = names_.holder(block);
    if (id == kNoExtent || count == out.size()) return;
    out[count++] = {.extent = id, .position = chain_.position() + ahead, .in = demand.in, .demand = demand.most};
  });
  return count;
}

Bytes DeepumPredictor::demand_within(Nanos nanos) const {
  Demand demand(*this);
  for (std::uint32_t ahead = 0; ahead < chain_.window().size() && demand.in <= nanos; ++ahead) {
    demand.pass(chain_.of(chain_.window().at(ahead)));
  }
  return demand.most;
}

Bytes DeepumPredictor::table_bytes() const {
  return names_.bytes() + chain_.bytes() + static_cast<Bytes>(bearers_.capacity() * sizeof(Bearer));
}

}  // namespace outsize::deepum
