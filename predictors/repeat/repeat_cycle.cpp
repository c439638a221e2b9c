// The last step as a cycle (core/plan/cycle.h): what is alive, and the gaps of every object.
#include <algorithm>
#include <cstdlib>

#include "predictors/repeat/repeat.h"

namespace outsize::repeat {
namespace {

bool lasts(const ObjectRecord& record) { return record.birth_op == kNone && record.death_op == kNone; }
bool is_left(const ObjectRecord& record) { return record.birth_op != kNone && record.death_op == kNone; }
// It was left by the step before and died in this one, as gradients do: what this step leaves is in the
// next step what it was in this one.
bool is_heir(const ObjectRecord& record) { return record.birth_op == kNone && record.death_op != kNone; }

class CycleReader {
 public:
  CycleReader(const StepRecord& step, const std::vector<ExtentId>& holder, const ExtentTable& table, Cycle& out)
      : step_(step), holder_(holder), table_(table), out_(out) {}

  // False where the step ends with other bytes than it began with: more will be born, or less.
  bool read() {
    if (!read_bytes()) return false;
    out_.gaps.assign(step_.gaps_end(), {});
    out_.versions = 1;
    version_of_heir_.assign(step_.objects.size(), 0);
    find_heirs();
    for (const bool heirs : {false, true}) {
      for (std::uint32_t object = 0; object < step_.objects.size(); ++object) {
        if (is_heir(step_.objects[object]) == heirs) read_object(object);
      }
    }
    for (std::uint32_t object = 0; object < step_.objects.size(); ++object) {
      const ObjectRecord& record = step_.objects[object];
      if (lasts(record)) join(object, object);
      if (is_left(record) && heir_[object] != kNone) join(object, heir_[object]);
    }
    return true;
  }

 private:
  bool read_bytes() {
    out_.more.resize(step_.size());
    Bytes more = -step_.died_first, all_born = 0;
    for (std::uint32_t op = 0; op < step_.size(); ++op) {
      Bytes born = 0;
      for (std::uint32_t i = step_.ops[op].first_birth; i < step_.births_end(op); ++i) {
        born += step_.objects[step_.births[i]].bytes;
      }
      out_.more[op] = more + born;
      more += born - step_.ops[op].death_bytes;
      all_born += born;
    }
    return std::abs(more) <= all_born / 32;
  }

  void find_heirs() {
    std::vector<std::uint32_t> by_before;
    heir_.assign(step_.objects.size(), kNone);
    for (std::uint32_t object = 0; object < step_.objects.size(); ++object) {
      const ObjectRecord& record = step_.objects[object];
      if (record.before == kNone || !is_heir(record)) continue;
      if (record.before >= by_before.size()) by_before.resize(record.before + 1, kNone);
      by_before[record.before] = object;
    }
    for (std::uint32_t object = 0; object < step_.objects.size(); ++object) {
      const ObjectRecord& record = step_.objects[object];
      if (is_left(record) && record.before < by_before.size()) heir_[object] = by_before[record.before];
    }
  }

  Bytes bytes_of(std::uint32_t object) const {
    const ObjectRecord& record = step_.objects[object];
    if (record.birth_op != kNone) return record.bytes;
    return holder_[object] == kNoExtent ? 0 : table_[holder_[object]].bytes;
  }

  std::uint32_t changes(std::uint32_t object) const {
    std::uint32_t count = 0;
    for (std::size_t use = 0; use < step_.uses(object).size(); ++use) count += step_.changed(object, use);
    return count;
  }

  void read_object(std::uint32_t object) {
    const ObjectRecord& record = step_.objects[object];
    const auto uses = step_.uses(object);
    const Bytes bytes = bytes_of(object);
    std::uint32_t left = changes(object);
    std::uint32_t version = version_of_heir_[object];
    if (version == 0 && (!lasts(record) || left > 0)) version = out_.versions++;
    const std::uint32_t at_begin = version;
    bool changed = record.birth_op != kNone;
    std::uint32_t from = changed ? record.birth_op + 1 : 0;
    for (std::size_t i = 0; i <= uses.size(); ++i) {
      const std::uint32_t last = record.death_op == kNone ? step_.size() : record.death_op + 1;
      const std::uint32_t end = i < uses.size() ? uses[i] : last;
      Cycle::Gap& gap = out_.gaps[step_.first_gap(object) + i];
      gap = {bytes, from, end - std::min(from, end), version, kNoGap, object, i < uses.size(), changed, lasts(record)};
      if (gap.count == 0) gap.bytes = 0;
      if (i == uses.size()) break;
      from = uses[i] + 1;
      changed = step_.changed(object, i);
      if (!changed) continue;
      version = lasts(record) && --left == 0 ? at_begin : out_.versions++;
    }
    if (is_left(record) && heir_[object] != kNone) version_of_heir_[heir_[object]] = version;
  }

  // What `object` is after its last use goes on as what `next` is before its first.
  void join(std::uint32_t object, std::uint32_t next) {
    const std::uint32_t head_number = step_.first_gap(next);
    Cycle::Gap& tail = out_.gaps[step_.first_gap(object) + step_.uses(object).size()];
    Cycle::Gap& head = out_.gaps[head_number];
    if (tail.count == 0) tail.first = 0;
    tail.count += head.count;
    tail.returns = !step_.uses(next).empty();
    tail.twin = head_number;
    tail.bytes = tail.count > 0 ? bytes_of(object) : 0;
    head.bytes = 0;
  }

  const StepRecord& step_;
  const std::vector<ExtentId>& holder_;
  const ExtentTable& table_;
  Cycle& out_;
  std::vector<std::uint32_t> heir_;             // by object that the step leaves, or kNone
  std::vector<std::uint32_t> version_of_heir_;  // by object: the version with which it begins, or 0
};

}  // namespace

bool RepeatPredictor::read_cycle(const ExtentTable& table, Cycle& out) const {
  if (!known() || last_matched_ < last_.size() - last_.size() / 16) return false;
  return CycleReader(last_, outlook_.holders(), table, out).read();
}

std::uint32_t RepeatPredictor::gap_of(ExtentId id) const {
  if (id >= seen_.size() || seen_[id].last == kNone || !confident()) return kNoGap;
  const Seen& s = seen_[id];
  const std::uint32_t gap = gap_now(s);
  if (!last_.is_first_gap(gap)) return gap;
  // Left by the step before: in its last gap until it dies and another takes its part.
  const std::uint32_t birth = last_.objects[s.last].birth_op;
  return birth != kNone && next_ <= birth ? last_.last_gap(s.last) : gap;
}

}  // namespace outsize::repeat
