// One step as it happened, or as it is foreseen: ops in order, what each touched, bore and saw die. Extents appear as
// *objects*, because an extent id means nothing in the next step: an object is either "alive when
// the step began" or "the k-th birth of the op at position b".
#pragma once

#include <span>
#include <vector>

#include "core/residency/extent.h"

namespace outsize::steps {

inline constexpr std::uint32_t kNone = 0xffffffffU;

struct OpRecord {
  SiteId site = 0;
  Nanos at = 0;
  std::uint32_t first_access = 0;
  std::uint32_t first_birth = 0;
  Bytes death_bytes = 0;  // died in it or after it, before the next op
};

struct ObjectRecord {
  Bytes bytes = 0;                 // of those born in this step
  std::uint32_t birth_op = kNone;  // kNone: alive when the step began
  std::uint32_t death_op = kNone;  // kNone: still alive when it ended
  std::uint32_t before = kNone;    // the object of the previous step it was matched with
  bool operator==(const ObjectRecord&) const = default;
};

// Bounded: past kOpsMax ops (a step that never ends) recording stops.
class StepRecord {
 public:
  static constexpr std::size_t kOpsMax = 1U << 20;

  void clear(Nanos now);
  bool full() const { return ops.size() >= kOpsMax; }
  // Both write each part where it stays: a copy of what was just written in smaller pieces waits for all writes before it.
  void add_op(SiteId site, Nanos at) {
    OpRecord& op = ops.emplace_back();
    op.site = site;
    op.at = at;
    op.first_access = static_cast<std::uint32_t>(accesses.size());
    op.first_birth = static_cast<std::uint32_t>(births.size());
  }
  std::uint32_t add_object(const ObjectRecord& object) {
    ObjectRecord& added = objects.emplace_back();
    added.bytes = object.bytes;
    added.birth_op = object.birth_op;
    added.death_op = object.death_op;
    added.before = object.before;
    return static_cast<std::uint32_t>(objects.size() - 1);
  }
  // All is the same but for the times; O(accesses).
  bool is_like(const StepRecord& other) const;
  // Builds the indexes that the questions below need; O(accesses).
  void finish(Nanos now);

  std::uint32_t size() const { return static_cast<std::uint32_t>(ops.size()); }
  // First use of `object` at or after op `from`; kNone if there is none.
  std::uint32_t use_from(std::uint32_t object, std::uint32_t from) const { return uses_[gap_before(object, from)]; }
  std::uint32_t first_use(std::uint32_t object) const { return uses_[first_gap(object)]; }
  // The ops that use it, ascending.
  std::span<const std::uint32_t> uses(std::uint32_t object) const {
    return std::span(uses_).subspan(first_gap(object), last_gap(object) - first_gap(object));
  }
  // Whether the use at that place among its uses changed it.
  bool changed(std::uint32_t object, std::size_t use) const { return changes_[first_gap(object) + use]; }
  // An object's gaps are numbered one after another: one before each use, and one after the last.
  std::uint32_t first_gap(std::uint32_t object) const { return gap_first_[object]; }
  std::uint32_t last_gap(std::uint32_t object) const { return gap_first_[object + 1] - 1; }
  // What stands before an object's first gap is the end of another's.
  bool is_first_gap(std::uint32_t gap) const { return gap == 0 || uses_[gap - 1] == kNone; }
  std::uint32_t gaps_end() const { return static_cast<std::uint32_t>(uses_.size()); }
  // The gap in which `object` is just before op `from`. `hint`: a gap of its, best one shortly before, or kNone.
  std::uint32_t gap_before(std::uint32_t object, std::uint32_t from, std::uint32_t hint = kNone) const {
    if (hint == kNone || (!is_first_gap(hint) && uses_[hint - 1] >= from)) return find_gap(object, from);
    while (uses_[hint] < from) ++hint;
    return hint;
  }
  // The op that uses the object after that gap; kNone: it was the last.
  std::uint32_t use_after(std::uint32_t gap) const { return uses_[gap]; }
  // The gap before the access at `index`, where that is the next of an object that somebody plays before op `next`.
  // What the step before left is in its last gap until another takes its part.
  std::uint32_t gap_ahead_of(std::uint32_t index, std::uint32_t next) const {
    const std::uint32_t gap = gap_of_[index] & ~kAfterBirth;
    if (gap == gap_of_[index]) return gap;
    const std::uint32_t object = accesses[index];
    return next <= objects[object].birth_op ? last_gap(object) : gap;
  }
  // For the access at `index`: the op that used the same object before it; kNone: it is the first.
  std::uint32_t previous_use(std::uint32_t index) const { return previous_[index]; }
  // The access after it of the same object, and an object's first one; kNone: there is none.
  std::uint32_t next_access(std::uint32_t index) const { return next_[index]; }
  std::uint32_t first_access(std::uint32_t object) const { return first_[object]; }
  // The op of which the access at `index` is.
  std::uint32_t op_of(std::uint32_t index) const { return op_of_[index]; }
  // Position of `site` nearest after `after` (exclusive), else nearest before; kNone if nowhere.
  std::uint32_t find_site(SiteId site, std::uint32_t after) const;
  std::uint32_t accesses_end(std::uint32_t op) const {
    return op + 1 < size() ? ops[op + 1].first_access : static_cast<std::uint32_t>(accesses.size());
  }
  std::uint32_t births_end(std::uint32_t op) const {
    return op + 1 < size() ? ops[op + 1].first_birth : static_cast<std::uint32_t>(births.size());
  }

  std::vector<OpRecord> ops;
  std::vector<std::uint32_t> accesses;  // objects, by op
  std::vector<char> changing;           // by access: whether it changed the object; may be empty
  std::vector<std::uint32_t> births;    // objects, by op
  std::vector<ObjectRecord> objects;
  Nanos begin = 0, end = 0;
  Bytes died_first = 0;  // before the first op, as gradients do

 private:
  static constexpr std::uint32_t kAfterBirth = 0x80000000U;
  std::uint32_t find_gap(std::uint32_t object, std::uint32_t from) const;

  std::vector<std::uint32_t> gap_first_;  // by object, one more at the end
  std::vector<std::uint32_t> uses_;       // by gap: the op after it, ascending within an object; kNone after the last
  std::vector<char> changes_;             // like uses_: whether that use changed it
  std::vector<std::uint32_t> gap_of_;     // by access: the gap that ends with it; with kAfterBirth the first of its object
  std::vector<std::uint32_t> previous_;   // by access
  std::vector<std::uint32_t> next_;       // by access
  std::vector<std::uint32_t> op_of_;      // by access
  std::vector<std::uint32_t> first_;      // by object
  std::vector<std::pair<SiteId, std::uint32_t>> sites_;  // sorted
};

}  // namespace outsize::steps
