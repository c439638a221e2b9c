#include "predictors/steps/outlook.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace outsize::steps {
namespace {

using Random = std::mt19937;

std::uint32_t below(Random& random, std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); }

// Objects that are there when the step begins, that are born, that die, and that some ops use twice.
StepRecord random_step(Random& random, std::uint32_t ops) {
  StepRecord step;
  step.clear(1'000);
  std::vector<std::uint32_t> alive;
  for (int i = 0; i < 12; ++i) alive.push_back(step.add_object({}));
  step.died_first = below(random, 400);
  for (std::uint32_t op = 0; op < ops; ++op) {
    step.add_op(op % 97, 2'000 + 100 * static_cast<Nanos>(op));
    for (std::uint32_t i = below(random, 4); i-- > 0;) {
      step.accesses.push_back(alive[below(random, static_cast<std::uint32_t>(alive.size()))]);
    }
    if (below(random, 3) == 0) {
      alive.push_back(step.add_object({100 + below(random, 900), op, kNone, kNone}));
      step.births.push_back(alive.back());
    }
    if (below(random, 4) == 0 && alive.size() > 6) {
      const std::uint32_t gone = below(random, static_cast<std::uint32_t>(alive.size()));
      step.objects[alive[gone]].death_op = op;
      step.ops.back().death_bytes += step.objects[alive[gone]].bytes;
      alive.erase(alive.begin() + gone);
    }
  }
  step.finish(2'000 + 100 * static_cast<Nanos>(ops));
  return step;
}

// The same, found by going through the step from `next` on.
class Plainly {
 public:
  Plainly(const StepRecord& step, const std::vector<ExtentId>& holder) : step_(step), holder_(holder) {}

  std::vector<Upcoming> upcoming(std::uint32_t next, Position base) const {
    std::vector<Upcoming> found;
    const std::uint32_t size = step_.size();
    const Nanos here = next < size ? step_.ops[next].at : step_.end;
    Bytes born = 0, most = 0;
    for (std::uint32_t ahead = 0; ahead < size; ++ahead) {
      const bool wrapped = next + ahead >= size;
      const std::uint32_t op = (next + ahead) % size;
      const Nanos in = step_.ops[op].at - (wrapped ? step_.begin - step_.end : 0) - here;
      for (std::uint32_t i = step_.ops[op].first_access; i < step_.accesses_end(op); ++i) {
        const std::uint32_t object = step_.accesses[i];
        if (holder_[object] == kNoExtent || !is_next_use(i, next, wrapped)) continue;
        found.push_back({holder_[object], gap_before(i, next, wrapped), base + next + ahead, in, most});
      }
      if (wrapped && op == 0) born -= step_.died_first;
      born += births(op);
      most = std::max(most, born);
      born -= step_.ops[op].death_bytes;
    }
    return found;
  }

  Bytes demand_within(std::uint32_t next, Nanos nanos) const {
    Bytes born = 0, most = 0;
    for (std::uint32_t op = next; op < step_.size(); ++op) {
      if (step_.ops[op].at - step_.ops[next].at > nanos) break;
      most = std::max(most, born += births(op));
      born -= step_.ops[op].death_bytes;
    }
    return most;
  }

 private:
  bool is_next_use(std::uint32_t access, std::uint32_t next, bool wrapped) const {
    const std::uint32_t before = step_.previous_use(access);
    const ObjectRecord& object = step_.objects[step_.accesses[access]];
    if (!wrapped) return before == kNone || before < next;
    const bool lives_on = object.birth_op == kNone && (object.death_op == kNone || object.death_op < next);
    return before == kNone && lives_on && step_.use_from(step_.accesses[access], next) == kNone;
  }
  // Gaps are counted object by object: one before each use, one after the last.
  std::uint32_t gap_before(std::uint32_t access, std::uint32_t next, bool wrapped) const {
    const std::uint32_t object = step_.accesses[access], birth = step_.objects[object].birth_op;
    const bool left = birth != kNone && next <= birth;  // by the step before
    std::uint32_t gap = object;
    for (std::uint32_t i = 0; i < step_.accesses.size(); ++i) {
      const bool counts = step_.accesses[i] == object && (wrapped || left || i < access);
      if (step_.accesses[i] < object || counts) ++gap;
    }
    return gap;
  }
  Bytes births(std::uint32_t op) const {
    Bytes sum = 0;
    for (std::uint32_t i = step_.ops[op].first_birth; i < step_.births_end(op); ++i) {
      if (holder_[step_.births[i]] == kNoExtent) sum += step_.objects[step_.births[i]].bytes;
    }
    return sum;
  }

  const StepRecord& step_;
  const std::vector<ExtentId>& holder_;
};

void compare(const StepRecord& step, Outlook& outlook, std::uint32_t next, std::size_t limit) {
  const Plainly plainly(step, outlook.holders());
  std::vector<Upcoming> expected = plainly.upcoming(next, 5'000), found(limit);
  expected.resize(std::min(limit, expected.size()));
  found.resize(outlook.upcoming(step, next, 5'000, found));
  ASSERT_EQ(found.size(), expected.size()) << "next " << next;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].extent, expected[i].extent) << "next " << next << ", entry " << i;
    ASSERT_EQ(found[i].position, expected[i].position) << "next " << next << ", entry " << i;
    ASSERT_EQ(found[i].in, expected[i].in) << "next " << next << ", entry " << i;
    ASSERT_EQ(found[i].demand, expected[i].demand) << "next " << next << ", entry " << i;
    ASSERT_EQ(found[i].gap, expected[i].gap) << "next " << next << ", entry " << i;
  }
  for (const Nanos nanos : {Nanos{0}, Nanos{1'500}, Nanos{1'000'000}}) {
    ASSERT_EQ(outlook.demand_within(step, next, nanos), plainly.demand_within(next, nanos)) << "next " << next;
  }
}

TEST(Outlook, SaysWhatGoingThroughTheStepSays) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const StepRecord step = random_step(random, 20 + below(random, 400));
    const auto objects = static_cast<std::uint32_t>(step.objects.size());
    const std::uint32_t one_in = seed % 2 == 0 ? 2 : 100;  // few: whole blocks of ops lie between two uses
    std::vector<ExtentId> holder(objects, kNoExtent);
    for (std::uint32_t object = 0; object < objects; ++object) {
      if (below(random, one_in) == 0) holder[object] = object + 7;
    }
    Outlook outlook;
    outlook.begin(step, holder);
    std::uint32_t next = 0;
    for (int round = 0; round < 400; ++round) {
      for (std::uint32_t i = below(random, 4); i-- > 0;) {
        const std::uint32_t object = below(random, objects);
        outlook.hold(step, object, below(random, one_in) == 0 ? object + 100 : kNoExtent);
      }
      next = below(random, 10) == 0 ? below(random, step.size() + 1) : std::min(next + below(random, 3), step.size());
      if (below(random, 3) == 0) continue;
      compare(step, outlook, next, below(random, 4) == 0 ? below(random, 30) : 4'096);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace outsize::steps
