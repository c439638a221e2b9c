#include "planners/weights/exhaustive.h"

#include <gtest/gtest.h>

#include <set>

#include "planners/weights/weights_test_rig.h"

namespace outsize::weights {
namespace {

// The rules of chain.h once more, as plainly as possible: nanosecond after nanosecond, every set of
// drops, every send, every fetch and the op may start or not. No claim about when things are worth
// starting, nothing left open at the border. For tiny chains only.
class TickByTick {
 public:
  TickByTick(const Chain& chain, Bytes memory) : chain_(chain), line_(chain), memory_(memory) {}

  Nanos least_time() {
    Nanos least = -1;
    const std::size_t n = line_.layers();
    std::size_t borders = 1;
    for (std::size_t i = 0; i < n; ++i) borders *= 3;
    for (std::size_t code = 0; code < borders; ++code) {
      Moment begin;
      bool sensible = true;
      for (std::size_t i = 0, c = code; i < n; ++i, c /= 3) {
        begin.there.push_back(c % 3 != 0);
        begin.valid.push_back(c % 3 != 2);
        sensible = sensible && (chain_.layers[i].weight > 0 || c % 3 == 2);
      }
      if (sensible) run(begin, least);
    }
    return least;
  }

 private:
  struct Moment {
    std::vector<bool> there, valid;
    std::size_t next = 0, up = 99, down = 99;
    Nanos op_left = 0, up_left = 0, down_left = 0;
    auto operator<=>(const Moment&) const = default;
  };

  bool fits(const Moment& m) const {
    Bytes bytes = m.op_left > 0 ? line_.running(m.next - 1) : line_.at_rest(m.next);
    for (std::size_t i = 0; i < line_.layers(); ++i) bytes += m.there[i] ? chain_.layers[i].weight : 0;
    return bytes <= memory_;
  }
  bool used(const Moment& m, std::size_t layer) const {
    return m.op_left > 0 && line_.layer_of(m.next - 1) == layer;
  }

  void run(const Moment& begin, Nanos& least) {
    std::set<Moment> now{begin};
    for (Nanos at = 0; !now.empty() && (least < 0 || at < least); ++at) {
      ASSERT_LT(at, 200);
      std::set<Moment> then;
      for (const Moment& m : now) {
        if (ends_like(m, begin)) {
          least = at;
          return;
        }
        drop(m, 0, then);
      }
      now = std::move(then);
    }
  }
  bool ends_like(const Moment& m, const Moment& begin) const {
    if (m.next != line_.ops() || m.op_left + m.up_left + m.down_left > 0) return false;
    for (std::size_t i = 0; i < line_.layers(); ++i) {
      if (begin.valid[i] && !m.valid[i]) return false;
      if (begin.there[i] && !m.there[i]) return false;
      if (!begin.there[i] && m.there[i] && !m.valid[i]) return false;  // else it may be dropped now
    }
    return true;
  }
  void drop(const Moment& m, std::size_t layer, std::set<Moment>& then) const {
    if (layer == line_.layers()) return send(m, then);
    drop(m, layer + 1, then);
    if (!m.there[layer] || !m.valid[layer] || m.up == layer || used(m, layer)) return;
    if (chain_.layers[layer].weight == 0) return;
    Moment d = m;
    d.there[layer] = false;
    drop(d, layer + 1, then);
  }
  void send(const Moment& m, std::set<Moment>& then) const {
    fetch(m, then);
    for (std::size_t i = 0; i < line_.layers() && m.down_left == 0; ++i) {
      const bool changed_now = used(m, i) && line_.is_backward(m.next - 1);
      if (!m.there[i] || m.valid[i] || m.up == i || changed_now || chain_.layers[i].weight == 0) continue;
      Moment d = m;
      d.down = i;
      d.down_left = transfer_time(chain_.layers[i].weight, chain_.down);
      fetch(d, then);
    }
  }
  void fetch(const Moment& m, std::set<Moment>& then) const {
    op(m, then);
    for (std::size_t i = 0; i < line_.layers() && m.up_left == 0; ++i) {
      if (m.there[i]) continue;
      Moment d = m;
      d.up = i;
      d.up_left = transfer_time(chain_.layers[i].weight, chain_.up);
      d.there[i] = true;
      op(d, then);
    }
  }
  void op(const Moment& m, std::set<Moment>& then) const {
    tick(m, then);
    if (m.op_left > 0 || m.next == line_.ops()) return;
    const std::size_t i = line_.layer_of(m.next);
    if (!m.there[i] || m.up == i || (line_.is_backward(m.next) && m.down == i)) return;
    Moment d = m;
    if (line_.is_backward(m.next)) d.valid[i] = false;
    d.op_left = line_.time_of(d.next++);
    tick(d, then);
  }
  void tick(const Moment& m, std::set<Moment>& then) const {
    if (!fits(m)) return;
    Moment d = m;
    if (d.op_left > 0) --d.op_left;
    if (d.up_left > 0 && --d.up_left == 0) d.up = 99;
    if (d.down_left > 0 && --d.down_left == 0) {
      d.valid[d.down] = true;
      d.down = 99;
    }
    then.insert(d);
  }

  const Chain& chain_;
  const Timeline line_;
  const Bytes memory_;
};

TEST(WeightsExhaustive, IsExactByThePlainestEnumeration) {
  const std::uint64_t seed = test_seed(4);
  SCOPED_TRACE("OUTSIZE_TEST_SEED=" + std::to_string(seed));
  TestRandom random(seed);
  int beyond_bound = 0;
  for (int n = 0; n < 60; ++n) {
    ChainShape shape;
    shape.layers_min = 2;
    shape.layers_max = 3;
    shape.weight_max = 4;
    shape.activation_max = 2;
    shape.scratch_max = 2;
    shape.time_max = 3;
    shape.slowdown_max = 2;
    const Chain chain = random_chain(random, shape);
    const MemoryRange range = memory_range(chain);
    const Bytes memory = random.between(range.least, (range.least + range.all) / 2);
    SCOPED_TRACE(describe(chain, memory));
    auto best = exhaustive(chain, memory);
    ASSERT_TRUE(best) << best.error().message();
    ASSERT_EQ(best->schedule.time, TickByTick(chain, memory).least_time());
    beyond_bound += best->schedule.time > *lower_bound(chain, memory);
  }
  EXPECT_GT(beyond_bound, 20);
}

TEST(WeightsExhaustive, IsNeverSlowerThanASolverAndNeverQuickerThanTheBound) {
  const std::uint64_t seed = test_seed(2);
  SCOPED_TRACE("OUTSIZE_TEST_SEED=" + std::to_string(seed));
  TestRandom random(seed);
  int slower = 0;
  for (int n = 0; n < 200; ++n) {
    ChainShape shape;
    shape.layers_min = 1;
    shape.layers_max = 5;
    const Chain chain = random_chain(random, shape);
    const Bytes memory = random_memory(random, chain);
    SCOPED_TRACE(describe(chain, memory));
    auto best = exhaustive(chain, memory);
    ASSERT_TRUE(best) << best.error().message();
    auto judged = replay(chain, memory, best->schedule);
    ASSERT_TRUE(judged) << judged.error().message();
    ASSERT_EQ(judged->time, best->schedule.time);
    ASSERT_EQ(judged->peak, best->schedule.peak);
    ASSERT_GE(judged->time, *lower_bound(chain, memory));
    for (const Solver solver : kSolvers) {
      auto schedule = solve(chain, memory, solver);
      if (!schedule) continue;
      ASSERT_LE(judged->time, schedule->time) << name_of(solver);
      slower += judged->time < schedule->time;
    }
  }
  EXPECT_GT(slower, 0);
}

TEST(WeightsExhaustive, ShortcutsChangeNoAnswer) {
  const std::uint64_t seed = test_seed(3);
  SCOPED_TRACE("OUTSIZE_TEST_SEED=" + std::to_string(seed));
  TestRandom random(seed);
  std::uint64_t with = 0, without = 0;
  for (int n = 0; n < 150; ++n) {
    ChainShape shape;
    shape.layers_min = 2;
    shape.layers_max = 4;
    const Chain chain = random_chain(random, shape);
    const Bytes memory = random_memory(random, chain);
    SCOPED_TRACE(describe(chain, memory));
    ExhaustiveLimits plain;
    plain.shortcuts = false;
    auto slow = exhaustive(chain, memory, plain);
    auto quick = exhaustive(chain, memory);
    ASSERT_TRUE(slow && quick);
    ASSERT_EQ(quick->schedule.time, slow->schedule.time);
    with += quick->states;
    without += slow->states;
  }
  EXPECT_LT(2 * with, without);
}

// Two layers of 6 bytes, one byte of activation each, a nanosecond a byte; F takes 2, B takes 3. With
// 8 bytes F2 and B2 (2 activations) leave no room for weight 1, and F1 and B1 none for weight 2.
//   F1 0-2. Weight 1 has been changed in the step before, and has to be sent: 0-6. Weight 2 comes
//   6-12, F2 12-14, B2 14-17, weight 2 goes 17-23, weight 1 comes 23-29, B1 29-32: 32.
// Were weight 1 sent after B1 instead, its 6 would stand there. So 32 it is.
TEST(WeightsExhaustive, FindsTheScheduleWorkedOutByHand) {
  const Chain chain = plain_chain({6, 6});
  auto best = exhaustive(chain, 8);
  ASSERT_TRUE(best) << best.error().message();
  EXPECT_EQ(best->schedule.time, 32);
  EXPECT_EQ(best->schedule.border, (std::vector<Border>{Border::kDirty, Border::kAbsent}));
  EXPECT_EQ(best->schedule.op_start, (std::vector<Nanos>{0, 12, 14, 29}));
  EXPECT_EQ(best->schedule.peak, 8);
}

TEST(WeightsExhaustive, SaysWhatItCannotDo) {
  const Chain chain = plain_chain({6, 6});
  EXPECT_EQ(exhaustive(chain, 7).error().code, ErrorCode::kOutOfBudget);
  EXPECT_EQ(exhaustive(chain, 8, {.at_most = 31}).error().code, ErrorCode::kOutOfBudget);
  EXPECT_TRUE(exhaustive(chain, 8, {.at_most = 32}));
  EXPECT_EQ(exhaustive(chain, 8, {.states = 5}).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(exhaustive(plain_chain(std::vector<Bytes>(9, 1)), 20).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(exhaustive(plain_chain({70'000}), 80'000).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace outsize::weights
