#include "sim/foresight/markov.h"

#include <algorithm>
#include <utility>

#include "predictors/pilot/mix.h"

namespace outsize::sim::foresight {

void Markov::pass(Before& before, Place to) {
  for (std::size_t i = kOrderMax; --i > 0;) before[i] = before[i - 1];
  before[0] = to;
}

std::uint64_t Markov::key(const Before& before, std::size_t order) {
  std::uint64_t key = pilot::mix(order, 0);
  for (std::size_t i = 0; i < order; ++i) key = pilot::mix(key, before[i]);
  return key;
}

void Markov::learn(Place to) {
  ++learnt_;
  for (std::size_t order = 1; order <= order_ && before_[order - 1] != kUnknown; ++order) {
    std::vector<Way>& ways = ways_[key(before_, order)];
    auto way = std::find_if(ways.begin(), ways.end(), [to](const Way& w) { return w.to == to; });
    if (way == ways.end()) {
      ways.push_back({to, 0, 0});
      way = ways.end() - 1;
    }
    ++way->count;
    way->last = learnt_;
  }
  pass(before_, to);
}

void Markov::op(const OpEvent&, Place place) {
  if (path_.in_block[place] == 0) learn(place);
  running_ = place;
}

void Markov::step(Nanos) {
  learn(kStepEnd);
  running_ = kStepEnd;
}

// Of what came as often the latest; kUnknown where nothing ever did.
Place Markov::next(const Before& before) const {
  for (std::size_t order = order_; order > 0; --order) {
    if (before[order - 1] == kUnknown) continue;
    const auto at = ways_.find(key(before, order));
    if (at == ways_.end()) continue;
    return std::max_element(at->second.begin(), at->second.end(), [](const Way& a, const Way& b) {
             return std::pair(a.count, a.last) < std::pair(b.count, b.last);
           })->to;
  }
  return kUnknown;
}

void Markov::foresee(std::size_t limit, std::vector<Place>& out) {
  if (running_ == kUnknown) return;
  Before before = before_;
  Place at = running_;
  for (std::size_t count = 0; count < limit; ++count) {
    if (at == kStepEnd || path_.ends_block(at)) {
      at = next(before);
      pass(before, at);
    } else {
      at = path_.places.at(path_.blocks[path_.block_of[at]].tokens[path_.in_block[at] + 1]);
    }
    if (at == kUnknown) return;
    out.push_back(at);
    if (at == kStepEnd) return;
  }
}

}  // namespace outsize::sim::foresight
