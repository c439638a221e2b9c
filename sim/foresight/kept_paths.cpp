#include "sim/foresight/kept_paths.h"

#include <algorithm>
#include <utility>

namespace outsize::sim::foresight {

void KeptPaths::op(const OpEvent&, Place place) {
  running_.push_back(place);
  if (at_ < chosen_.size() && chosen_[at_] == place) {
    ++at_;
    return;
  }
  const auto found = where_.find(place);
  if (found == where_.end()) return;
  const auto next = std::lower_bound(found->second.begin(), found->second.end(), at_);
  at_ = (next == found->second.end() ? found->second.front() : *next) + 1;
}

void KeptPaths::sample(std::span<const std::int64_t>) {
  close();
  ++order_;
  choose();
}

void KeptPaths::step(Nanos) {
  running_.push_back(kStepEnd);
  close();
  order_ = 0;
  choose();
}

// Of each path how often it came; for the last one alone, no more than that.
void KeptPaths::close() {
  if (order_ >= kept_.size()) kept_.resize(order_ + 1);
  std::vector<Kept>& here = kept_[order_];
  auto at = std::find_if(here.begin(), here.end(), [this](const Kept& kept) { return kept.row == running_; });
  if (at == here.end()) {
    if (which_ == Which::kLast) here.clear();
    here.emplace_back().row = running_;
    at = here.end() - 1;
  }
  ++at->count;
  at->last = ++closed_;
  running_.clear();
}

// Of those that came as often the latest.
void KeptPaths::choose() {
  chosen_.clear();
  where_.clear();
  at_ = 0;
  if (order_ >= kept_.size() || kept_[order_].empty()) return;
  chosen_ = std::max_element(kept_[order_].begin(), kept_[order_].end(), [](const Kept& a, const Kept& b) {
              return std::pair(a.count, a.last) < std::pair(b.count, b.last);
            })->row;
  for (std::size_t i = 0; i < chosen_.size(); ++i) where_[chosen_[i]].push_back(i);
}

void KeptPaths::foresee(std::size_t limit, std::vector<Place>& out) {
  const std::size_t count = std::min(limit, chosen_.size() - at_);
  out.insert(out.end(), chosen_.begin() + static_cast<std::ptrdiff_t>(at_),
             chosen_.begin() + static_cast<std::ptrdiff_t>(at_ + count));
}

}  // namespace outsize::sim::foresight
