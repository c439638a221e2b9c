// The tables one by one, by histories worked out by hand.
#include <gtest/gtest.h>

#include "predictors/deepum/block_names.h"
#include "predictors/deepum/block_tables.h"
#include "predictors/deepum/executions.h"
#include "predictors/deepum/window.h"

namespace outsize::deepum {
namespace {

using Ids = std::vector<BlockId>;

class Table {
 public:
  Table(std::uint32_t rows, std::uint32_t ways, std::uint32_t successors, std::uint32_t levels) {
    PredictorOptions options;
    options.rows = rows;
    options.ways = ways;
    options.successors = successors;
    options.levels = levels;
    tables_ = std::make_unique<BlockTables>(options);
    tables_->ensure(2);
  }
  void learn(const Ids& blocks, std::uint32_t execution = 0) { tables_->learn(execution, blocks); }
  Ids walk(std::uint32_t execution = 0) {
    const auto walk = tables_->walk(execution);
    return {walk.begin(), walk.end()};
  }

 private:
  std::unique_ptr<BlockTables> tables_;
};

TEST(DeepumBlockTables, WhatWasUsedOnceIsExpectedInThatOrder) {
  Table table(8, 2, 4, 2);
  EXPECT_EQ(table.walk(), Ids{});
  table.learn({5, 9, 2, 30});
  EXPECT_EQ(table.walk(), (Ids{5, 9, 2, 30}));
  EXPECT_EQ(table.walk(1), Ids{}) << "another execution ID has another table";
  table.learn({7});
  EXPECT_EQ(table.walk(), Ids{7}) << "its start is its end";
}

// Row 0 of two ways has room for two of three blocks: the one longest not used makes way.
TEST(DeepumBlockTables, AConflictInARowTakesTheOldest) {
  Table two(1, 2, 1, 1), three(1, 3, 1, 1);
  for (Table* table : {&two, &three}) table->learn({1, 2, 3});
  EXPECT_EQ(three.walk(), (Ids{1, 2, 3}));
  EXPECT_EQ(two.walk(), (Ids{1, 3})) << "the start block's entry is gone, start and end are not";
  two.learn({2, 4});  // 3 is older than 2 now, and makes way for 4
  two.learn({3, 2});  // 3's entry is new: what came after it is known from this time only
  EXPECT_EQ(two.walk(), (Ids{3, 2}));
}

// Blocks 2, 4 and 6 share a row of one way, so that only 6 has an entry in the end. Block 1 knows its
// next one, and on the second level the one after it.
TEST(DeepumBlockTables, TheNextLevelBridgesAHole) {
  Table one(2, 1, 1, 1), both(2, 1, 1, 2);
  for (Table* table : {&one, &both}) table->learn({1, 2, 4, 6});
  EXPECT_EQ(one.walk(), (Ids{1, 2, 6}));
  EXPECT_EQ(both.walk(), (Ids{1, 2, 4, 6}));
}

TEST(DeepumBlockTables, ABranchKeepsTheLatestSuccessors) {
  Table one(8, 2, 1, 1), two(8, 2, 2, 1);
  for (Table* table : {&one, &two}) {
    table->learn({1, 2});
    table->learn({1, 3});
  }
  EXPECT_EQ(one.walk(), (Ids{1, 3}));
  EXPECT_EQ(two.walk(), (Ids{1, 3, 2}));
  two.learn({1, 4});
  EXPECT_EQ(two.walk(), (Ids{1, 4, 3})) << "2 made way";
  two.learn({1, 3});
  EXPECT_EQ(two.walk(), (Ids{1, 3, 4}));
}

TEST(DeepumBlockTables, AWalkIsBounded) {
  Table table(128, 2, 1, 1);
  Ids many;
  for (BlockId block = 0; block < 200; ++block) many.push_back(block);
  table.learn(many);
  EXPECT_EQ(table.walk().size(), PredictorOptions{}.walk);
}

// Ops 0 to `count`, each by its number.
void number_all(Executions& executions, std::uint64_t count) {
  for (std::uint64_t op = 0; op < count; ++op) EXPECT_EQ(executions.number(mix(0, op), op).first, op);
}

constexpr PredictorOptions kPaper{.long_contexts = false};

// Those ops were before, the latest first.
Context after(const Executions& executions, const std::vector<ExecutionId>& before) {
  Context context;
  for (std::size_t i = before.size(); i-- > 0;) context.pass(executions[before[i]].key);
  return context;
}

TEST(DeepumExecutions, WhatComesNextDependsOnTheThreeBefore) {
  Executions executions{kPaper};
  enum : ExecutionId { kA, kB, kC, kX, kY, kAll };
  number_all(executions, kAll);
  EXPECT_EQ(executions.next(kA, after(executions, {kB})), kNone);
  executions.learn(kA, after(executions, {kB, kB, kX}), kX);
  executions.learn(kA, after(executions, {kB, kB, kY}), kY);
  EXPECT_EQ(executions.next(kA, after(executions, {kB, kB, kX})), kX);
  EXPECT_EQ(executions.next(kA, after(executions, {kB, kB, kY})), kY);
  EXPECT_EQ(executions.next(kA, after(executions, {kB, kB, kX, kC})), kX) << "no more than three matter";
  EXPECT_EQ(executions.next(kA, after(executions, {kC, kB, kB})), kY) << "a context never met: what came last time";
  executions.learn(kA, after(executions, {kB, kB, kX}), kC);
  EXPECT_EQ(executions.next(kA, after(executions, {kB, kB, kX})), kC) << "of one context the latest";
  EXPECT_EQ(executions.next(kA, after(executions, {kC, kB, kB})), kC);
}

// The running op and the one before it are no set.
TEST(DeepumExecutions, WhichOfTwoCameFirstMatters) {
  enum : ExecutionId { kA, kB, kX, kY, kAll };
  for (const PredictorOptions& options : {PredictorOptions{}, kPaper}) {
    Executions executions{options};
    number_all(executions, kAll);
    const std::vector<ExecutionId> older(Context::kLong - 1, kX);
    const auto behind = [&](ExecutionId before) {
      std::vector<ExecutionId> all{before};
      all.insert(all.end(), older.begin(), older.end());
      return after(executions, all);
    };
    executions.learn(kA, behind(kB), kX);
    executions.learn(kB, behind(kA), kY);
    EXPECT_EQ(executions.next(kA, behind(kB)), kX);
    EXPECT_EQ(executions.next(kB, behind(kA)), kY);
  }
}

// As in backward, where the same dozen ops on gradients lie between what tells one layer from another.
TEST(DeepumExecutions, LongContextsAreAskedFirst) {
  Executions executions{PredictorOptions{}}, three{kPaper};
  enum : ExecutionId { kA, kB, kX, kY, kAll };
  for (Executions* each : {&executions, &three}) {
    number_all(*each, kAll);
    std::vector<ExecutionId> before(Context::kLong, kB);
    for (const ExecutionId layer : {kX, kY}) {
      before.back() = layer;
      each->learn(kA, after(*each, before), layer);
    }
    before.back() = kX;
    EXPECT_EQ(each->next(kA, after(*each, before)), each == &three ? kY : kX);
    before.push_back(kY);
    EXPECT_EQ(each->next(kA, after(*each, before)), each == &three ? kY : kX) << "no more than sixteen matter";
    before[Context::kLong - 1] = kB;
    EXPECT_EQ(each->next(kA, after(*each, before)), kY) << "a long context never met: the latest after the last three";
    each->learn(kA, after(*each, {kX}), kX);
    EXPECT_EQ(each->next(kA, after(*each, before)), kY) << "which is not what came last time";
  }
}

// As an op on a small tensor, which is the same in every layer.
TEST(DeepumExecutions, OneMayHaveManyContexts) {
  Executions executions{kPaper};
  number_all(executions, 2000);
  for (ExecutionId layer = 0; layer < 1000; ++layer) executions.learn(0, after(executions, {layer, 0, 0}), 1000 + layer);
  for (ExecutionId layer = 0; layer < 1000; ++layer) EXPECT_EQ(executions.next(0, after(executions, {layer, 0, 0})), 1000 + layer);
}

TEST(DeepumExecutions, TheOldestContextMakesWay) {
  PredictorOptions options = kPaper;
  options.records = 2;
  Executions executions(options);
  number_all(executions, 200);
  for (ExecutionId before = 10; before < 13; ++before) {
    executions.number(mix(0, 0), 200 + before);
    executions.learn(0, after(executions, {before, 0, 0}), 100 + before);
  }
  EXPECT_EQ(executions.next(0, after(executions, {11, 0, 0})), 111U);
  EXPECT_EQ(executions.next(0, after(executions, {12, 0, 0})), 112U);
  EXPECT_EQ(executions.next(0, after(executions, {10, 0, 0})), 112U) << "forgotten: what came last time";
}

TEST(DeepumExecutions, WhoTookOverANumberFollowsInNoContext) {
  PredictorOptions options = kPaper;
  options.executions = 4;
  Executions executions(options);
  number_all(executions, 4);
  executions.learn(3, after(executions, {2, 2, 2}), 0);
  executions.learn(3, after(executions, {2, 2, 1}), 1);
  EXPECT_EQ(executions.number(900, 10).first, 0U);
  EXPECT_EQ(executions.next(3, after(executions, {2, 2, 2})), 1U) << "not who has the number now: what came last time";
  EXPECT_EQ(executions.next(3, after(executions, {2, 2, 1})), 1U);
  executions.learn(3, after(executions, {2, 2, 0}), 2);
  executions.learn(3, after(executions, {2, 2, 2}), 1);
  for (const std::uint64_t key : {901, 902}) executions.number(key, 11);
  EXPECT_EQ(executions.number(903, 12).first, 3U);
  EXPECT_EQ(executions.next(3, after(executions, {2, 2, 0})), kNone) << "nor is anything known of it";
}

TEST(DeepumExecutions, AFullTableTakesOverTheOldest) {
  PredictorOptions options;
  options.executions = 3;
  Executions executions(options);
  using Answer = std::pair<ExecutionId, bool>;
  EXPECT_EQ(executions.number(100, 1), Answer(0, true));
  EXPECT_EQ(executions.number(200, 2), Answer(1, true));
  EXPECT_EQ(executions.number(300, 3), Answer(2, true));
  EXPECT_EQ(executions.number(100, 4), Answer(0, false));
  executions.learn(1, Context{}, 2);
  const Bytes full = executions.bytes();
  EXPECT_EQ(executions.number(400, 5), Answer(1, true)) << "200 was used longest ago";
  EXPECT_EQ(executions.next(1, Context{}), kNone) << "with all that was known of it";
  EXPECT_EQ(executions.number(200, 6), Answer(2, true));
  EXPECT_EQ(executions.number(100, 7), Answer(0, false));
  EXPECT_EQ(executions.bytes(), full);
}

TEST(DeepumBlockNames, TheSameBirthGetsTheSameNameFromAnotherExtent) {
  BlockNames names(100);
  names.born(4, 77, 0, 10);
  names.born(5, 77, 1, 10);
  const BlockId first = names.of(4), second = names.of(5);
  EXPECT_NE(first, second);
  EXPECT_EQ(names.holder(first), 4U);
  names.died(4);
  names.died(5);
  EXPECT_EQ(names.of(4), kNone);
  EXPECT_EQ(names.holder(first), kNoExtent);
  names.born(9, 77, 0, 10);
  names.born(4, 77, 1, 10);
  EXPECT_EQ(names.of(9), first);
  EXPECT_EQ(names.of(4), second);
  names.born(6, 78, 0, 10);
  EXPECT_NE(names.of(6), first);
  EXPECT_NE(names.of(6), second);
}

// Three alive of one kind, as the layers of a loop bear them: whatever the order of their deaths, the
// next ones get the same names in the same order.
TEST(DeepumBlockNames, TheLeastFreeNameIsTaken) {
  BlockNames names(100);
  Ids held;
  for (ExtentId id = 0; id < 3; ++id) {
    names.born(id, 5, 0, 10);
    held.push_back(names.of(id));
  }
  for (const ExtentId id : {1U, 0U, 2U}) names.died(id);
  for (ExtentId id = 10; id < 13; ++id) {
    names.born(id, 5, 0, 10);
    EXPECT_EQ(names.of(id), held[id - 10]);
  }
  names.died(11);
  names.born(2, 5, 0, 10);
  EXPECT_EQ(names.of(2), held[1]);
  names.born(3, 5, 0, 10);
  EXPECT_EQ(std::count(held.begin(), held.end(), names.of(3)), 0) << "a fourth";
}

TEST(DeepumBlockNames, BoundedAndInTheEndWithoutAName) {
  BlockNames names(8);
  for (ExtentId id = 0; id < 8; ++id) names.born(id, id, 0, 10);
  EXPECT_EQ(names.seen(50), kNone) << "all names are held";
  names.died(3);
  const BlockId taken = names.seen(50);
  EXPECT_NE(taken, kNone) << "the dead one's";
  EXPECT_EQ(names.holder(taken), 50U);
  names.born(60, 3, 0, 10);
  EXPECT_EQ(names.of(60), kNone);
  names.died(60);
  names.died(50);
  names.born(61, 3, 0, 10);
  EXPECT_EQ(names.of(61), taken);
  EXPECT_EQ(names.size(), 8U);
}

// Names that come and go at random: whoever is alive and has a name holds it alone.
TEST(DeepumBlockNames, OneHolderEach) {
  BlockNames names(40);
  std::uint64_t dice = 1;
  std::vector<bool> alive(64, false);
  for (int i = 0; i < 20'000; ++i) {
    dice = mix(dice, static_cast<std::uint64_t>(i));
    const ExtentId id = dice % 64;
    if (alive[id]) {
      names.died(id);
    } else if (dice & (1U << 20)) {
      names.born(id, dice >> 60, (dice >> 32) % 2, 10);
    } else {
      names.seen(id);
    }
    alive[id] = !alive[id];
    for (ExtentId each = 0; each < 64; ++each) {
      const BlockId block = names.of(each);
      if (block == kNone) continue;
      ASSERT_TRUE(alive[each]);
      ASSERT_EQ(names.holder(block), each);
    }
  }
  EXPECT_LE(names.size(), 40U);
}

TEST(DeepumWindow, AnswersTheNextOfSeveralUses) {
  Window window(3, 64);
  const Ids a{1, 2}, b{2}, c{1, 3};
  EXPECT_EQ(window.next_use(1), kNever);
  for (Position round = 0; round < 200; ++round) {  // many times round the ring
    const Position now = 10 * round;
    window.push(7, a, now);
    window.push(8, b, now + 1);
    window.push(9, c, now + 2);
    EXPECT_EQ(window.front(), 7U);
    EXPECT_EQ(window.at(2), 9U);
    EXPECT_EQ(window.next_use(1), now);
    EXPECT_EQ(window.next_use(2), now);
    EXPECT_EQ(window.next_use(3), now + 2);
    window.pop();
    EXPECT_EQ(window.next_use(1), now + 2);
    EXPECT_EQ(window.next_use(2), now + 1);
    Ids seen;
    window.each([&](std::uint32_t ahead, BlockId block) { seen.insert(seen.end(), {ahead, block}); });
    EXPECT_EQ(seen, (Ids{0, 2, 1, 1, 1, 3}));
    window.clear();
    for (BlockId block = 0; block < 5; ++block) EXPECT_EQ(window.next_use(block), kNever);
  }
}

}  // namespace
}  // namespace outsize::deepum
