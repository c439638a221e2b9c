// The simulated driver: runs a modelled program on a modelled disk through the same engine as the
// live driver, in integer time. It is the tests' driver and the ground for comparing policies.
//
// It keeps modelled bytes (sim_memory.h), so that a decision which would show an op wrong bytes is
// found, and lets the judge of core/check watch every step. What goes wrong is in
// SimResult::problems, a sentence each; a run without problems kept its invariants.
//
// What a refused op means: the op does not run, nor what is inside it; objects that it would have
// borne do not exist, and later ops do without them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/check/checker.h"
#include "core/engine/engine.h"
#include "core/trace/timeline.h"
#include "planners/registry/policies.h"
#include "sim/link.h"
#include "sim/move_work.h"
#include "sim/program.h"
#include "sim/sim_memory.h"

namespace outsize::sim {

struct SimOptions {
  Bytes budget = 0;
  std::string policy = "lookahead";  // or "mad" (mad_policy.h); "oracle" is told the program (oracle.h)
  std::string model, model_name;     // what the policy begins with, and what the log calls it
  Bytes reading_max = 64 * kMiB, writing_max = 64 * kMiB;
  LinkOptions link;
  std::uint64_t no_slot_one_in = 0;  // transfers that fail before they begin, for want of room excepted
  Bytes spill_limit = 0;             // room below; 0: as much as is wanted
  Nanos plan_every = 150'000;        // between plans on the op path
  MoveCosts costs;                   // of the program, for what moves
  bool judge = true;
  bool keep_log = false;
  Timeline* timeline = nullptr;      // is told what happens when; outlives the driver
  std::function<bool()> cancelled;   // asked now and then; true ends the run
};

struct SimResult {
  Nanos time = 0, stall = 0;
  Bytes peak = 0;              // as the judge counts it
  Bytes spilled_peak = 0;      // where there is a spill limit
  EngineStats stats;
  std::vector<EngineStats> at_step;  // stats when each step ended
  std::vector<Nanos> time_at_step, stall_at_step;
  std::int64_t refused_budget = 0, refused_io = 0, faults_in_ops = 0;
  Predictor::Recognized recognized;
  bool fatal = false;          // a raw access could not be served
  bool cancelled = false;      // what is here is of the run until then
  std::vector<std::string> problems;
  std::string log;
  std::string foresight;       // who foresaw in the end (Predictor::foresight)
};

class SimDriver {
 public:
  // The program must outlive the driver.
  SimDriver(const Program& program, const SimOptions& options);
  SimDriver(Program&&, const SimOptions&) = delete;
  ~SimDriver();
  SimResult run();
  const Engine& engine() const { return *engine_; }

 private:
  enum class State : std::uint8_t { kReady, kWaits, kFaults, kDone };
  struct Thread {
    State state = State::kReady;
    std::size_t at = 0;          // next action
    Nanos time = 0;
    Nanos since = 0;             // waits since
    std::vector<std::size_t> ops;  // actions of the ops it is in
    int skip = 0;                // depth below a refused op
    bool pinning = false;        // the op that precedes a pin was granted
    bool skip_rest = false;      // an allocation was refused: skip to this op's end
    std::size_t touched = 0;     // operands touched so far at an op's end
    ExtentId extent = kNoExtent; // it waits for: new extent, or the one it touches raw
  };
  struct Object {
    ExtentId extent = kNoExtent;
    int pins = 0;
    bool dead = false;
  };

  // actions (sim_driver.cpp)
  void act(ThreadId id);
  void settle();
  bool skipped(Thread& t, const Action& action);
  bool perform(ThreadId id, Thread& t, const Action& action);
  bool begin_op(ThreadId id, Thread& t, const Action& action);
  bool end_op(ThreadId id, Thread& t, const Action& action);
  bool birth(ThreadId id, Thread& t, const Action& action);
  void adopt(const Action& action);
  void death(const Action& action);
  bool pin(ThreadId id, Thread& t, const Action& action);
  bool access(Thread& t, ExtentId extent, bool write);
  bool loose(ExtentId extent) const;
  void op_runs(const Action& action);
  ExtentId extent_of(ObjectId id) const { return objects_[id].extent; }
  ExtentId new_extent();
  void granted(ThreadId id);
  void refused(ThreadId id, Refusal refusal);
  void after_step(const Action& action);

  // what the timeline is told (sim_driver_timeline.cpp)
  void tell_work(const Thread& t, Nanos duration);
  void tell_wait(ThreadId id);
  void tell_raw_wait(const Thread& t);
  void tell_transfer(const Transfer& transfer);
  ThreadId id_of(const Thread& t) const { return static_cast<ThreadId>(&t - threads_.data()); }
  SiteId site_of(const Thread& t) const;

  // commands and transfers (sim_driver_commands.cpp)
  Outcome feed(const Input& input);
  void obey(const Command& command);
  void judge_full(Bytes missing);
  void judge_fatal(ExtentId id);
  Bytes spare_below(Bytes bytes) const;
  bool room_below(Bytes bytes) const;
  void take_pages(ExtentId id);
  void counts(ExtentId id);
  void counts_file(ExtentId id, bool is_one);
  Bytes wanted(ThreadId id) const;
  bool take_slot(ExtentId id);
  void give_slot(ExtentId id);
  void wake_raw(ExtentId id);
  void finish_transfer();
  void plan();
  bool mad() const { return options_.policy == "mad"; }
  Policy policy() const;
  void judge_foresight();
  void judge_rights();
  void judge_prefetches();
  void problem(const std::string& what);

  const Program& program_;
  SimOptions options_;
  ExtentTable table_;
  DecisionLog log_;
  const Predictor* predictor_ = nullptr;  // the engine's
  std::unique_ptr<Engine> engine_;
  check::Checker checker_;
  SimMemory memory_;
  Link link_;
  MoveWork work_;
  Random random_;
  std::vector<Thread> threads_;
  std::vector<Object> objects_;
  std::vector<Bytes> bytes_;          // by extent
  std::vector<ExtentId> free_ids_;
  std::vector<ExtentId> unslotted_[2];  // transfers that never began, by direction
  std::vector<ExtentId> roomless_;    // writes for which there is no room below
  std::vector<Bytes> slots_;          // by extent: its room below
  Bytes spilled_ = 0;                 // their sum
  std::vector<bool> staged_;          // by extent: it is being read
  std::vector<bool> counted_;         // by extent: it is alive, and no file that is as it was
  std::vector<bool> of_file_;         // by extent: it is alive, and a file that is as it was
  int files_ = 0;                     // of these
  Bytes largest_file_ = 0;            // that ever was and fits in RAM at all
  Bytes alive_ = 0, largest_ = 0;     // of what was born and has not died; the largest that ever was
  std::vector<const Action*> late_;   // births of what had died before
  std::vector<OperandRef> operands_;  // scratch
  Commands commands_;
  int told_ = 0;                      // refusals in this step
  Nanos now_ = 0, last_plan_ = 0;
  std::uint64_t plans_ = 0;
  Timeline* timeline_ = nullptr;
  SimResult result_;
};

}  // namespace outsize::sim
