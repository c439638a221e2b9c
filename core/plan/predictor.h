// What a predictor is: it watches ops, births and deaths, and says when an extent is used next and
// what comes soon. It is never trusted for correctness, only for time.
//
// Positions count ops: position() is now; the next op of this step stands at position().
// Called by the engine only, on one thread at a time; allocates nothing per op once warm.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/engine/input.h"
#include "core/plan/cycle.h"
#include "core/residency/extent.h"

namespace outsize {

struct OpEvent {
  SiteId site = 0;
  std::span<const ExtentId> extents;  // distinct, in operand order
  bool in_backward = false;
  Nanos now = 0;
  std::span<const Access> accesses = {};  // by extent; empty where nobody knows
  GraphPlace graph = 0;
  std::span<const OperandRef> operands = {};  // as the op has them: an extent may stand there twice
};

struct Upcoming {
  ExtentId extent = kNoExtent;
  std::uint32_t gap = kNoGap;  // of the extent now, where its predictor knows cycles: as Predictor::gap_of
  Position position = 0;       // when it is used
  Nanos in = 0;                // how long from now, as measured in earlier steps
  Bytes demand = 0;            // most that births before it will hold at once, less what died
};

class Predictor {
 public:
  virtual ~Predictor() = default;
  virtual const char* name() const = 0;

  virtual void on_op(const OpEvent& op) = 0;
  virtual void on_birth(ExtentId id, Bytes bytes) = 0;
  virtual void on_death(ExtentId id, Bytes bytes) = 0;
  virtual void on_step(Nanos now) = 0;
  // Memory that was there before the session is taken over as an extent: no birth.
  virtual void on_adopt(ExtentId, Bytes) {}
  // A small storage is born in the extent. True where that may have brought its next use nearer.
  virtual bool on_share(ExtentId) { return false; }
  // What the sample says that the next ops work on. For each feature: the hash of its name, the number of
  // its values, these (core/trace/sample.h). Told whenever the engine is watching, as ops are.
  virtual void on_sample(std::span<const std::int64_t>) {}

  virtual Position position() const = 0;
  // Absolute position of the next use as foreseen now; kNever where none is foreseen. It may lie before
  // position(): what is overdue, or was used so lately that it is taken to be needed at once.
  virtual Position next_use(ExtentId id) const = 0;
  // It was used so lately that next_use takes it to be needed at once, though upcoming may tell of a later use.
  virtual bool wanted_at_once(ExtentId) const { return false; }
  // Fills `out` with what will be used, soonest first, as far as it is foreseen; returns how many.
  virtual std::size_t upcoming(std::span<Upcoming> out) const = 0;
  // How many of these, the soonest, are to come ahead of their use: who is wrong the more often the further he looks says
  // fewer than he foresees.
  virtual std::size_t to_bring(std::span<const Upcoming> upcoming) const { return upcoming.size(); }
  // The largest sum of births less deaths within the next `nanos`.
  virtual Bytes demand_within(Nanos nanos) const = 0;
  // True once after next_use changed for many extents at once (a new step, a jump).
  virtual bool take_rekeyed() = 0;
  // The step that has just ended, as what every coming step will be like; false where it was not like
  // the one before. To be asked between two steps.
  virtual bool read_cycle(const ExtentTable&, Cycle&) const { return false; }
  // The step that has just ended was to the letter like the one before: read_cycle would say what it said then, but
  // for the bytes of extents that lived before it.
  virtual bool cycle_repeats() const { return false; }
  // Where the running step stands in that cycle: the op that comes next; kNoPlace once it goes otherwise.
  virtual std::uint32_t cycle_place() const { return kNoPlace; }
  // The number of the gap in which the extent is; kNoGap where it has no part in the cycle.
  virtual std::uint32_t gap_of(ExtentId) const { return kNoGap; }
  // It is to be told from the first op on, also while everything fits.
  virtual bool from_start() const { return false; }
  // What it has learnt, as bytes that a later run may begin with; empty where it keeps nothing.
  virtual std::string learnt() const { return {}; }
  // Where it began with what an earlier run had learnt: ops of the first steps, and those that were known.
  struct Recognized {
    std::uint64_t ops = 0, known = 0;
    bool given_up = false;  // too few were: it has begun anew
  };
  virtual Recognized recognized() const { return {}; }
  // Bytes that bounded tables hold, where it keeps such.
  virtual Bytes table_bytes() const { return 0; }
  // For a person: who foresees now, and how well, where that may change; else empty.
  virtual std::string foresight() const { return {}; }
};

}  // namespace outsize
