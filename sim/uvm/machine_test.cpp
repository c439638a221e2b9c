// Unified memory and DeepUM on it, on programs that can be followed by hand: a block of 2 MiB takes 1 ms either way, a batch
// of faults 0.1 ms.
#include "sim/uvm/machine.h"

#include <cstdio>

#include <gtest/gtest.h>

#include "sim/training_program.h"

namespace outsize::sim::uvm {
namespace {

constexpr Nanos kMillis = 1'000'000, kFault = 100'000;

class Script {
 public:
  Script() { program.threads.emplace_back(); }
  ObjectId object() { return program.objects++; }
  void op(SiteId site, const std::vector<ObjectId>& uses, const std::vector<std::pair<ObjectId, Bytes>>& bears = {},
          Nanos duration = 0) {
    Action& begin = add(Action::Kind::kOpBegin);
    begin.site = site;
    for (const ObjectId id : uses) begin.operands.push_back({id});
    for (const auto& [id, bytes] : bears) {
      Action& birth = add(Action::Kind::kBirth);
      birth.object = id;
      birth.bytes = bytes;
    }
    if (duration > 0) add(Action::Kind::kWork).duration = duration;
    add(Action::Kind::kOpEnd);
  }
  ObjectId born(Bytes bytes) {
    const ObjectId id = object();
    op(1, {}, {{id, bytes}});
    return id;
  }
  void dies(ObjectId id) { add(Action::Kind::kDeath).object = id; }
  void step() { add(Action::Kind::kStep); }
  Action& add(Action::Kind kind) {
    Action& action = program.threads[0].emplace_back();
    action.kind = kind;
    return action;
  }
  Program program;
};

MachineOptions plain(Bytes budget) {
  MachineOptions options;
  options.budget = budget;
  options.model.fault_us = 100;
  options.model.batch = 512;  // all of a block
  options.link.read_rate = options.link.write_rate = 1000 * kBlockBytes;
  options.link.mixed_percent = 100;
  options.link.latency = 0;
  return options;
}

MachineOptions foreseeing(Bytes budget) {
  MachineOptions options = plain(budget);
  options.model.foresight = true;
  return options;
}

SimResult run(const Program& program, const MachineOptions& options) {
  Machine machine(program, options);
  SimResult result = machine.run();
  for (const std::string& each : result.problems) ADD_FAILURE() << each;
  EXPECT_LE(result.peak, options.budget);
  return result;
}

// Stalls between the ends of steps.
std::vector<Nanos> stalls(const SimResult& result) {
  std::vector<Nanos> out;
  Nanos before = 0;
  for (const Nanos stall : result.stall_at_step) out.push_back(stall - std::exchange(before, stall));
  return out;
}

TEST(UvmMachine, WhatIsBornIsMadeOnTheDeviceForItsFaultsAlone) {
  Script script;
  script.op(7, {}, {{script.object(), 6 * kMiB}}, 5 * kMillis);
  const SimResult result = run(script.program, plain(6 * kMiB));
  EXPECT_EQ(result.stall, 3 * kFault);
  EXPECT_EQ(result.time, 3 * kFault + 5 * kMillis);
  EXPECT_EQ(result.stats.read + result.stats.written, 0);
  EXPECT_EQ(result.peak, 6 * kMiB);
}

// 256 page faults are 16 leaves of 64 KiB. Alone that is half a block, no more. Of three storages in step it is 6, 5 and 5
// leaves, and the tree brings 8 of each; then 6, 5 and 5 more: 16 of each; then all.
TEST(UvmMachine, ABatchHasItsFaultsFromAllStoragesInStep) {
  MachineOptions options = plain(8 * kMiB);
  options.model.batch = 256;
  Script alone, three;
  alone.born(2 * kMiB);
  EXPECT_EQ(run(alone.program, options).stall, 2 * kFault);
  three.op(1, {}, {{three.object(), 2 * kMiB}, {three.object(), 2 * kMiB}, {three.object(), 2 * kMiB}});
  EXPECT_EQ(run(three.program, options).stall, 3 * kFault);
  options.model.tree = false;
  EXPECT_EQ(run(three.program, options).stall, 6 * kFault);
}

// Three blocks fit. `a` is used last but was migrated first: it leaves, and by last use `b` would have.
TEST(UvmMachine, TheLongestAgoMigratedLeavesHoweverLateItWasUsed) {
  Script script;
  const ObjectId a = script.born(2 * kMiB), b = script.born(2 * kMiB), c = script.born(2 * kMiB);
  script.op(2, {a});
  script.step();
  script.born(2 * kMiB);
  script.step();
  script.op(3, {b, c});
  script.step();
  script.op(2, {a});
  script.step();
  const SimResult result = run(script.program, plain(6 * kMiB));
  EXPECT_EQ(stalls(result), (std::vector<Nanos>{3 * kFault, kFault + kMillis, 0, kFault + 2 * kMillis}))
      << "a is written down; b and c are there; b is written down and a read";
  EXPECT_EQ(result.stats.evictions, 2);
  EXPECT_EQ(result.stats.read, 2 * kMiB);
}

TEST(UvmMachine, WhatLeavesIsWrittenDownWhetherChangedOrNot) {
  Script script;
  const ObjectId a = script.born(2 * kMiB), b = script.born(2 * kMiB);
  for (int i = 0; i < 3; ++i) {
    script.op(2, {a});
    script.op(3, {b});
  }
  const SimResult result = run(script.program, plain(2 * kMiB));
  EXPECT_EQ(result.stats.read, 6 * 2 * kMiB);
  EXPECT_EQ(result.stats.written, 7 * 2 * kMiB) << "nothing was ever changed";
}

TEST(UvmMachine, ABlockLeavesWholeAndOnlyItsLeavesMove) {
  Script script;
  script.born(kLeafBytes);
  script.born(kLeafBytes + 1);  // leaves 1 and 2: with the first, 3 of 4, so that the tree makes the fourth
  script.born(2 * kMiB);
  const SimResult result = run(script.program, plain(2 * kMiB));
  EXPECT_EQ(result.stats.written, 4 * kLeafBytes);
  EXPECT_EQ(result.stats.evictions, 1);
}

TEST(UvmMachine, WhatIsAdoptedComesFromTheHost) {
  Script script;
  const ObjectId a = script.object();
  Action& adopt = script.add(Action::Kind::kAdopt);
  adopt.object = a;
  adopt.bytes = 3 * kMiB;
  script.op(2, {a});
  const SimResult result = run(script.program, plain(4 * kMiB));
  EXPECT_EQ(result.stats.read, 4 * kMiB - kMiB);
  EXPECT_EQ(result.stall, 2 * kFault + kMillis * 3 / 2) << "768 pages: a batch of 512 and one of 256";
}

TEST(UvmMachine, AnOpThatDoesNotFitIsRefusedOnce) {
  Script script;
  const ObjectId a = script.born(2 * kMiB), b = script.born(2 * kMiB);
  script.op(2, {a, b}, {{script.object(), 3 * kMiB}}, kMillis);
  const SimResult result = run(script.program, plain(6 * kMiB));
  EXPECT_EQ(result.refused_budget, 1);
  EXPECT_EQ(result.stats.need_peak, 8 * kMiB);
  EXPECT_EQ(result.time, 2 * kFault) << "it took no time";
}

// An op inside another: what the outer one has may leave meanwhile, and is used again when that works on.
TEST(UvmMachine, AnOpInsideAnotherLetsGoOfItsBlocks) {
  Script script;
  const ObjectId a = script.born(2 * kMiB), b = script.born(2 * kMiB);
  script.add(Action::Kind::kOpBegin).operands.push_back({a});
  script.add(Action::Kind::kWork).duration = kMillis;
  script.op(3, {b}, {}, kMillis);
  script.add(Action::Kind::kWork).duration = kMillis;
  script.add(Action::Kind::kOpEnd);
  const SimResult result = run(script.program, plain(2 * kMiB));
  EXPECT_EQ(result.refused_budget, 0);
  EXPECT_EQ(result.stats.reads, 3) << "a, b, a";
}

// Three blocks fit. `a` is dead when its block has to leave for 4 MiB.
TEST(DeepumBlocks, WhatIsDeadIsDroppedNotWrittenDown) {
  Script script;
  const ObjectId a = script.born(2 * kMiB);
  script.born(2 * kMiB);
  script.dies(a);
  script.born(4 * kMiB);
  EXPECT_EQ(run(script.program, plain(6 * kMiB)).stats.written, 2 * kMiB);
  MachineOptions options = foreseeing(6 * kMiB);
  const SimResult result = run(script.program, options);
  EXPECT_EQ(result.stats.written, 0);
  EXPECT_EQ(result.stats.dropped, 2 * kMiB);
  options.model.invalidation = false;
  EXPECT_EQ(run(script.program, options).stats.written, 2 * kMiB);
}

// Each op reads one of 8 blocks in turn, 4 fit; an op takes 3 ms, a block 1 ms each way. Once the tables know the round
// every block is there in time.
TEST(DeepumBlocks, ARepeatedRoundComesAhead) {
  Script script;
  std::vector<ObjectId> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(script.born(2 * kMiB));
  for (int round = 0; round < 4; ++round) {
    for (const ObjectId id : blocks) script.op(10 + id, {id}, {}, 3 * kMillis);
    script.step();
  }
  const SimResult paged = run(script.program, plain(8 * kMiB)), ahead = run(script.program, foreseeing(8 * kMiB));
  EXPECT_EQ(stalls(paged)[3], 8 * (kFault + 2 * kMillis));
  EXPECT_EQ(stalls(ahead)[3], 0);
  EXPECT_EQ(ahead.at_step[3].read - ahead.at_step[2].read, paged.at_step[3].read - paged.at_step[2].read);
}

struct Moved {
  Bytes read = 0, written = 0;
  Nanos time = 0, stall = 0;
};

// In steps 4 to 7 of 8, which have seen enough before them.
Moved later(const char* what, const Program& program, const MachineOptions& options) {
  constexpr std::size_t kFrom = 3, kTo = 7;
  const SimResult result = run(program, options);
  EXPECT_EQ(result.refused_budget, 0);
  const EngineStats &a = result.at_step[kFrom], &b = result.at_step[kTo];
  const Moved moved{b.read - a.read, b.written - a.written, result.time_at_step[kTo] - result.time_at_step[kFrom],
                    result.stall_at_step[kTo] - result.stall_at_step[kFrom]};
  std::printf("[ measured ] %-22s time %6.2f s, stall %5.2f s, up %5ld MiB, down %5ld MiB\n", what,
              static_cast<double>(moved.time) * 1e-9, static_cast<double>(moved.stall) * 1e-9,
              static_cast<long>(moved.read / kMiB), static_cast<long>(moved.written / kMiB));
  return moved;
}

TEST(DeepumBlocks, OnATrainingLoopEachOfItsMeansIsWorthSomething) {
  TrainingOptions loop;
  loop.steps = 8;
  loop.op_time = 20'000'000;
  const Program program = training_program(loop);
  const Bytes peak = peak_bytes(program);
  for (const int percent : {70, 40}) {
    MachineOptions options;
    options.budget = peak * percent / 100;
    std::printf("[ measured ] at %d %%\n", percent);
    const Moved paged = later("uvm", program, options);
    options.model.foresight = true;
    const Moved all = later("deepum-blocks", program, options);
    MachineOptions off[3] = {options, options, options};
    off[0].model.tables.chaining = off[1].model.pre_eviction = off[2].model.invalidation = false;
    const Moved unchained = later("without chaining", program, off[0]);
    const Moved unevicted = later("without pre-eviction", program, off[1]);
    const Moved uninvalidated = later("without invalidation", program, off[2]);
    EXPECT_LT(all.stall * 2, paged.stall);
    EXPECT_LT(all.written, paged.written);
    EXPECT_LT(all.stall, unchained.stall);
    EXPECT_LT(all.stall, unevicted.stall);
    EXPECT_LT(all.written, uninvalidated.written);
  }
}

TEST(UvmMachine, TheTimelineIsToldTheSame) {
  const Program program = training_program({});
  Timeline timeline;
  MachineOptions options;
  options.budget = peak_bytes(program) / 2;
  options.model.foresight = true;
  options.timeline = &timeline;
  const SimResult result = run(program, options);
  EXPECT_EQ(timeline.totals().read, result.stats.read);
  EXPECT_EQ(timeline.totals().written, result.stats.written);
  Nanos stall = 0;
  for (const Nanos each : timeline.totals().stall) stall += each;
  EXPECT_EQ(stall, result.stall);
  EXPECT_EQ(timeline.totals().work + result.stall, result.time);
}

TEST(UvmOptions, TheSettingsStandBehindTheName) {
  EXPECT_TRUE(is_policy("uvm") && is_policy("deepum-blocks:degree=4"));
  EXPECT_FALSE(is_policy("deepum") || is_policy("uvm2") || is_policy(""));
  EXPECT_FALSE(options_of("uvm")->foresight);
  EXPECT_EQ(options_of("uvm:fault-us=20,tree=off")->fault_us, 20U);
  Result<Options> off = options_of("deepum-blocks:chaining=off,pre-eviction=off,invalidation=off");
  EXPECT_TRUE(off->foresight && !off->tables.chaining && !off->pre_eviction && !off->invalidation);
  EXPECT_FALSE(options_of("uvm:invalidation=off").ok());
  EXPECT_EQ(options_of("uvm:batch=0").error().message(),
            "'batch=0' is no setting of policy uvm [policy] Known: fault-us=0 to 1000000, batch=1 to 1048576,"
            " tree=on or off.");
}

}  // namespace
}  // namespace outsize::sim::uvm
