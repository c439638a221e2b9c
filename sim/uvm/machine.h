// A device with unified memory: runs a modelled program (program.h) whose objects are storages, on the modelled link, in
// integer time. Not our engine's driver: the model of another system, to compare with.
//
// An op uses its operands and what it has borne whenever it works. What of that is not on the device faults: leaves of all
// of its storages in step, in batches. A batch takes its latency, then its blocks get room and come; the op waits for them.
// Room is made by the block that was migrated longest ago, whose leaves are all written down, changed or not: a page is in
// one place only. The running op's blocks stay; an op whose blocks are more than the device's is refused, as everywhere here.
//
// With foresight, blocks that are expected come ahead whenever no fault waits, those not expected leave ahead or first, and
// what lies in no piece of the allocator is dropped when its block leaves (invalidation).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/trace/timeline.h"
#include "sim/caching_allocator.h"
#include "sim/link.h"
#include "sim/program.h"
#include "sim/sim_driver.h"
#include "sim/uvm/device_memory.h"
#include "sim/uvm/foresight.h"
#include "sim/uvm/options.h"

namespace outsize::sim::uvm {

struct MachineOptions {
  Bytes budget = 0;
  Options model;
  LinkOptions link;
  Timeline* timeline = nullptr;     // is told what happens when, blocks as extents; outlives the machine
  std::function<bool()> cancelled;  // asked now and then; true ends the run
};

class Machine {
 public:
  // The program has one thread and must outlive the machine.
  Machine(const Program& program, const MachineOptions& options);
  SimResult run();
  const DeviceMemory& memory() const { return memory_; }
  const CachingAllocator& allocator() const { return allocator_; }

 private:
  struct Object {
    Bytes begin = 0, end = 0;  // what the program uses of its piece
    bool there = false;
  };
  struct Frame {
    SiteId site = 0;
    std::vector<ObjectId> uses;
    bool to_use = true;   // something is new since they were used
    bool leaf = true;     // no op ran inside
    bool refused = false;
  };
  // Where an object's faults have come to.
  struct Cursor {
    Bytes at = 0, begin = 0, end = 0;
  };

  // actions
  void act(const Action& action);
  bool use_again();
  void use_raw(ObjectId id);
  void op_begin(const Action& action);
  void op_end();
  void birth(ObjectId id, Bytes bytes);
  void adopt(ObjectId id, Bytes bytes);
  void death(ObjectId id);
  void work(Nanos duration);
  void step();
  void problem(std::string what);

  // touching (machine_faults.cpp)
  bool use(std::span<const ObjectId> objects);
  bool pin(std::span<const ObjectId> objects);
  bool gather_batch();
  bool next_leaf(Cursor& cursor);
  void serve_batch();
  void serve_block(BlockId id, Leaves faulted);
  Leaves there(BlockId id) { return memory_[id].device | memory_[id].coming; }  // or on its way
  void bring(BlockId id, Leaves leaves, Urgency urgency);
  bool make_room();
  BlockId choose_victim(bool expected_too);
  void evict(BlockId id, Urgency urgency);

  // ahead of need (machine_ahead.cpp)
  void foresee(const Action& action);
  void ahead();
  void fetch_ahead();
  void evict_ahead();

  // time and transfers
  void pass_until(Nanos time);
  bool pass_transfer();
  void finish(const Transfer& transfer);
  void tell_resident();
  SiteId site() const { return frames_.empty() ? 0 : frames_.back().site; }

  const Program& program_;
  MachineOptions options_;
  CachingAllocator allocator_;
  DeviceMemory memory_;
  Link link_;
  std::optional<Foresight> foresight_;
  std::vector<Object> objects_;
  std::vector<Frame> frames_;
  std::uint64_t use_ = 1;               // blocks pinned at this use stay
  std::vector<BlockId> batch_;          // blocks, in the order of their first fault
  std::vector<Leaves> faulted_;         // of these
  std::vector<Cursor> cursors_;         // scratch
  std::vector<Bytes> addresses_;        // scratch
  std::vector<Leaves> written_;         // by block: what its write brings down
  std::uint64_t expecting_ = 0;         // blocks expected at this op
  std::vector<BlockId> queue_;          // what is expected, soonest first
  std::size_t next_ahead_ = 0;          // in queue_
  std::int64_t reading_ahead_ = 0;      // reads that nobody has waited for
  Nanos now_ = 0;
  Timeline* timeline_ = nullptr;
  SimResult result_;
};

}  // namespace outsize::sim::uvm
