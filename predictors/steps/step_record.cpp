#include "predictors/steps/step_record.h"

#include <algorithm>

namespace outsize::steps {

void StepRecord::clear(Nanos now) {
  ops.clear();
  accesses.clear();
  changing.clear();
  births.clear();
  objects.clear();
  use_first_.clear();
  uses_.clear();
  changes_.clear();
  previous_.clear();
  next_.clear();
  op_of_.clear();
  first_.clear();
  sites_.clear();
  begin = end = now;
  died_first = 0;
}

std::uint32_t StepRecord::add_object(const ObjectRecord& object) {
  objects.push_back(object);
  return static_cast<std::uint32_t>(objects.size() - 1);
}

void StepRecord::finish(Nanos now) {
  end = now;
  use_first_.assign(objects.size() + 1, 0);
  for (std::uint32_t object : accesses) ++use_first_[object + 1];
  for (std::size_t i = 1; i < use_first_.size(); ++i) use_first_[i] += use_first_[i - 1];
  uses_.resize(accesses.size());
  changes_.resize(accesses.size());
  previous_.resize(accesses.size());
  next_.assign(accesses.size(), kNone);
  op_of_.resize(accesses.size());
  first_.assign(objects.size(), kNone);
  std::vector<std::uint32_t> latest(objects.size(), kNone);  // access
  std::vector<std::uint32_t> at(use_first_.begin(), use_first_.end());
  for (std::uint32_t op = 0; op < size(); ++op) {
    for (std::uint32_t i = ops[op].first_access; i < accesses_end(op); ++i) {
      const std::uint32_t object = accesses[i];
      previous_[i] = at[object] == use_first_[object] ? kNone : uses_[at[object] - 1];
      if (i < changing.size()) changes_[at[object]] = changing[i];
      uses_[at[object]++] = op;
      op_of_[i] = op;
      (latest[object] == kNone ? first_[object] : next_[latest[object]]) = i;
      latest[object] = i;
    }
  }
  sites_.resize(ops.size());
  for (std::uint32_t op = 0; op < size(); ++op) sites_[op] = {ops[op].site, op};
  std::sort(sites_.begin(), sites_.end());
}

std::uint32_t StepRecord::use_from(std::uint32_t object, std::uint32_t from) const {
  const auto first = uses_.begin() + use_first_[object];
  const auto last = uses_.begin() + use_first_[object + 1];
  const auto at = std::lower_bound(first, last, from);
  return at == last ? kNone : *at;
}

std::uint32_t StepRecord::find_site(SiteId site, std::uint32_t after) const {
  const auto at = std::upper_bound(sites_.begin(), sites_.end(), std::pair{site, after});
  if (at != sites_.end() && at->first == site) return at->second;
  if (at != sites_.begin() && std::prev(at)->first == site) return std::prev(at)->second;
  return kNone;
}

}  // namespace outsize::steps
