// Plays a modelled program (sim/program.h) for who watches it as the engine's predictor would, where nothing ever has to
// wait or to leave: ops, births, deaths, steps and samples, in the program's own time. For programs of one row of ops.
// What comes after the last step's end is left out.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/plan/predictor.h"
#include "sim/program.h"

namespace outsize::sim::foresight {

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void op(const OpEvent& op) = 0;
  virtual void birth(ExtentId, Bytes) {}
  virtual void death(ExtentId, Bytes) {}
  virtual void step(Nanos now) = 0;
  virtual void sample(std::span<const std::int64_t>) {}
};

class Stage {
 public:
  // `program` must outlive it.
  explicit Stage(const Program& program) : program_(program), extents_(program.objects, kNoExtent) {}
  // Once. False where `cancelled`, which is asked now and then, said so.
  bool play(Watcher& watcher, const std::function<bool()>& cancelled);
  // Bytes of extents, and which of them small storages share.
  const ExtentTable& table() const { return table_; }

 private:
  void perform(const Action& action, Watcher& watcher);
  void op(const Action& action, Watcher& watcher);
  ExtentId enter(const Action& action);
  void leave(const Action& action, Watcher& watcher);

  const Program& program_;
  ExtentTable table_;
  std::vector<ExtentId> extents_;  // by object
  std::vector<ExtentId> free_;
  ExtentId used_ = 0;
  std::vector<ExtentId> operands_;
  std::vector<Access> accesses_;
  Nanos now_ = 0;
};

}  // namespace outsize::sim::foresight
