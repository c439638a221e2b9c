#include "planners/weights/chain.h"

#include <algorithm>
#include <string>

namespace outsize::weights {
namespace {

constexpr std::int64_t kNumberMax = 1'000'000'000'000;  // a TB, or a quarter of an hour

bool too_large(const Layer& l) {
  return std::max({l.weight, l.activation, l.forward_scratch, l.backward_scratch, l.forward,
                   l.backward}) > kNumberMax;
}

Error refused(std::string what, const std::string& where) {
  return {ErrorCode::kInvalidArgument, std::move(what), where, ""};
}

}  // namespace

Status validate(const Chain& chain) {
  if (chain.layers.empty() || chain.length() > kLayersMax) {
    return refused("A chain has between 1 and " + std::to_string(kLayersMax) + " layers.", "chain");
  }
  if (chain.up.bytes_per_us <= 0 || chain.down.bytes_per_us <= 0) {
    return refused("A link's bandwidth must be positive.", "chain");
  }
  if (chain.fixed < 0 || chain.fixed > kNumberMax) {
    return refused("The fixed bytes are negative or too many.", "chain");
  }
  for (std::size_t i = 0; i < chain.length(); ++i) {
    const Layer& l = chain.layers[i];
    const std::string where = "layer " + std::to_string(i + 1);
    if (std::min({l.weight, l.activation, l.forward_scratch, l.backward_scratch}) < 0) {
      return refused("A size is negative.", where);
    }
    if (l.forward <= 0 || l.backward <= 0) return refused("An op's time must be positive.", where);
    if (too_large(l)) return refused("A size or a time is too large.", where);
  }
  return {};
}

Timeline::Timeline(const Chain& chain) : layers_(chain.length()) {
  Bytes kept = chain.fixed;
  at_rest_.push_back(kept);
  for (const Layer& l : chain.layers) {
    kept += l.activation;
    time_.push_back(l.forward);
    running_.push_back(kept + l.forward_scratch);
    at_rest_.push_back(kept);
    all_weights_ += l.weight;
  }
  for (std::size_t i = layers_; i-- > 0;) {
    const Layer& l = chain.layers[i];
    time_.push_back(l.backward);
    running_.push_back(kept + l.backward_scratch);
    kept -= l.activation;
    at_rest_.push_back(kept);
  }
  for (const Nanos t : time_) compute_time_ += t;
}

MemoryRange memory_range(const Chain& chain) {
  const Timeline line(chain);
  MemoryRange range;
  for (std::size_t op = 0; op < line.ops(); ++op) {
    const Bytes own = chain.layers[line.layer_of(op)].weight;
    range.least = std::max(range.least, line.running(op) + own);
    range.all = std::max(range.all, line.running(op) + line.all_weights());
  }
  return range;
}

std::vector<Nanos> least_waits(const Chain& chain, Bytes memory) {
  const Timeline line(chain);
  std::vector<Nanos> waits{0};
  for (std::size_t op = 1; op < line.ops(); ++op) {
    const Bytes own = chain.layers[line.layer_of(op)].weight;
    const Bytes before = chain.layers[line.layer_of(op - 1)].weight;
    Nanos wait = 0;
    if (line.layer_of(op) != line.layer_of(op - 1) && line.running(op - 1) + before + own > memory) {
      wait = transfer_time(own, chain.up);
      const bool apart = line.at_rest(op) + before + own > memory;
      if (apart && line.is_backward(op - 1)) wait += transfer_time(before, chain.down);
    }
    waits.push_back(wait);
  }
  return waits;
}

}  // namespace outsize::weights
