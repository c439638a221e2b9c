#include "predictors/steps/step_record.h"

#include <algorithm>

namespace outsize::steps {

void StepRecord::clear(Nanos now) {
  ops.clear();
  accesses.clear();
  changing.clear();
  births.clear();
  objects.clear();
  gap_first_.clear();
  uses_.clear();
  changes_.clear();
  gap_of_.clear();
  previous_.clear();
  next_.clear();
  op_of_.clear();
  first_.clear();
  sites_.clear();
  begin = end = now;
  died_first = 0;
}

bool StepRecord::is_like(const StepRecord& other) const {
  const auto same = [](const OpRecord& a, const OpRecord& b) {
    return a.site == b.site && a.first_access == b.first_access && a.first_birth == b.first_birth &&
           a.death_bytes == b.death_bytes;
  };
  return std::equal(ops.begin(), ops.end(), other.ops.begin(), other.ops.end(), same) && accesses == other.accesses &&
         changing == other.changing && births == other.births && objects == other.objects &&
         died_first == other.died_first;
}

void StepRecord::finish(Nanos now) {
  end = now;
  gap_first_.assign(objects.size() + 1, 0);
  for (std::uint32_t object : accesses) ++gap_first_[object + 1];
  for (std::size_t i = 1; i < gap_first_.size(); ++i) gap_first_[i] += gap_first_[i - 1] + 1;
  uses_.assign(gap_first_.back(), kNone);
  changes_.assign(uses_.size(), false);
  gap_of_.resize(accesses.size());
  previous_.resize(accesses.size());
  next_.assign(accesses.size(), kNone);
  op_of_.resize(accesses.size());
  first_.assign(objects.size(), kNone);
  std::vector<std::uint32_t> latest(objects.size(), kNone);  // access
  std::vector<std::uint32_t> at(gap_first_.begin(), gap_first_.end());
  for (std::uint32_t op = 0; op < size(); ++op) {
    for (std::uint32_t i = ops[op].first_access; i < accesses_end(op); ++i) {
      const std::uint32_t object = accesses[i];
      previous_[i] = at[object] == gap_first_[object] ? kNone : uses_[at[object] - 1];
      if (i < changing.size()) changes_[at[object]] = changing[i];
      const bool after_birth = previous_[i] == kNone && objects[object].birth_op != kNone;
      gap_of_[i] = at[object] | (after_birth ? kAfterBirth : 0);
      uses_[at[object]++] = op;
      op_of_[i] = op;
      (latest[object] == kNone ? first_[object] : next_[latest[object]]) = i;
      latest[object] = i;
    }
  }
  sites_.resize(ops.size());
  for (std::uint32_t op = 0; op < size(); ++op) sites_[op] = {ops[op].site, op};
  if (!std::is_sorted(sites_.begin(), sites_.end())) std::sort(sites_.begin(), sites_.end());  // a plan's are
}

std::uint32_t StepRecord::find_gap(std::uint32_t object, std::uint32_t from) const {
  const auto first = uses_.begin() + gap_first_[object];
  const auto last = uses_.begin() + gap_first_[object + 1] - 1;
  return static_cast<std::uint32_t>(std::lower_bound(first, last, from) - uses_.begin());
}

std::uint32_t StepRecord::find_site(SiteId site, std::uint32_t after) const {
  const auto at = std::upper_bound(sites_.begin(), sites_.end(), std::pair{site, after});
  if (at != sites_.end() && at->first == site) return at->second;
  if (at != sites_.begin() && std::prev(at)->first == site) return std::prev(at)->second;
  return kNone;
}

}  // namespace outsize::steps
