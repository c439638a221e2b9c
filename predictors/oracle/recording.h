// A recorded run as the predictor `oracle` reads it (oracle.h): one long step, whose objects are storages. An op's
// accesses are its operands, in order and as often as it has them, then what the program touched by itself since the op
// before. The first op stands for all that was before any op.
//
// Made by whoever reads a trace (TraceReading), or has the program that will run. It names no extent: those mean
// nothing in another run.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/trace/trace_event.h"
#include "predictors/steps/step_record.h"

namespace outsize::oracle {

using steps::kNone;

class Recording {
 public:
  // How a live run holds a storage.
  enum class Part : std::uint8_t {
    kOwn,     // in an extent of its own
    kSmall,   // in an extent that it shares with others
    kShared,  // it is such an extent: programs that are simulated know them
    kPiece,   // it is one piece of memory that was taken over as it lay
    kFile,    // all of a mapped file, in pieces of which no trace says which an op touches
  };
  struct Object {
    Part part = Part::kOwn;
    Bytes whole = 0;  // of a first piece: bytes of all of them, where they may be one extent
  };
  // What comes after so many ops is left out.
  static constexpr std::size_t kOpsMax = std::size_t{1} << 24;

  Recording();

  // --- in the order of the run; answers the new object
  std::uint32_t bear(Part part, Bytes bytes, Bytes whole = 0);
  void bury(std::uint32_t object);
  void touch(std::uint32_t object);
  void begin_op(SiteId site, Nanos at, std::span<const std::uint32_t> operands);
  void finish(Nanos at);

  // --- once it is finished
  const steps::StepRecord& run() const { return run_; }
  const Object& object(std::uint32_t id) const { return objects_[id]; }
  std::span<const std::uint32_t> operands(std::uint32_t op) const {
    return std::span(run_.accesses).subspan(run_.ops[op].first_access, operands_[op]);
  }

 private:
  steps::StepRecord run_;
  std::vector<Object> objects_;          // by object
  std::vector<std::uint32_t> operands_;  // by op: how many of its accesses are operands
  std::vector<std::uint32_t> touched_;   // since the last op
  bool full_ = false;
};

// Makes one of the events of a trace, whatever they are: what makes no sense is left out.
class TraceReading {
 public:
  void see(const trace::Event& event);
  std::unique_ptr<const Recording> finish();

 private:
  struct Objects {  // of a storage
    std::uint32_t first = 0, count = 0;
  };
  void birth(const trace::Event& event);
  Objects objects_of(trace::StorageId storage) const {
    return storage < objects_.size() ? objects_[storage] : Objects{};
  }
  void op_begin(const trace::Event& event);

  std::unique_ptr<Recording> out_ = std::make_unique<Recording>();
  std::vector<Objects> objects_;         // by storage
  std::vector<std::uint32_t> operands_;  // scratch
  Nanos latest_ = 0, waited_ = 0;
};

}  // namespace outsize::oracle
