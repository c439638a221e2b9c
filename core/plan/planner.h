// What a planner is: it decides which extents leave, which come ahead of need and which are
// written ahead. Policy lives here and nowhere else. It reads the table and the predictor, and
// answers with decisions; the engine checks each one and carries it out, or refuses it.
//
// Called by the engine only, on one thread at a time.
#pragma once

#include <vector>

#include "core/plan/predictor.h"
#include "core/residency/extent.h"

namespace outsize {

// Of the bytes that planners brought ahead of need so far; those that the program asked for are in none.
struct PrefetchAccount {
  Bytes hit = 0;     // used
  Bytes missed = 0;  // left, failed or died unused
  Bytes open = 0;    // neither yet
};

struct PlanState {
  Bytes budget = 0;
  Bytes free = 0;              // budget less resident, reserved and in flight
  Bytes reading = 0, writing = 0;          // in flight
  Bytes reading_max = 0, writing_max = 0;  // what the transfer slots allow
  std::uint64_t read_rate = 0, write_rate = 0;  // bytes a second, as measured
  Bytes demanded = 0;          // so far, waited for
  PrefetchAccount foreseen;
};

struct Decision {
  enum class Kind : std::uint8_t { kPrefetch, kClean, kEvict };
  enum class Reason : std::uint8_t { kForeseenUse, kFarthestUse, kRoomForBirths, kLeastRecent };
  Kind kind = Kind::kPrefetch;
  Reason reason = Reason::kForeseenUse;
  ExtentId extent = kNoExtent;
};

class Planner {
 public:
  virtual ~Planner() = default;
  virtual const char* name() const = 0;

  // Keeping its order of victims up to date.
  virtual void on_resident(ExtentId id) = 0;  // became resident, or its next use changed
  virtual void on_gone(ExtentId id) = 0;      // absent, fetching or dead
  virtual void on_rekey() = 0;                // next uses changed at large

  // Fills `out` with up to `limit` victims, best first: extents that are free to leave, or with
  // `last_choice` also those that a suspended frame or a recent raw access would rather keep.
  virtual void victims(bool last_choice, std::size_t limit, std::vector<ExtentId>& out) = 0;
  // Whether `id` is needed so soon that waiting for a write elsewhere is the better choice.
  virtual bool needed_soon(ExtentId id) const = 0;
  // What to do ahead of need. Called when transfer slots are free.
  virtual void plan(const PlanState& state, std::vector<Decision>& out) = 0;
};

// Nobody touches it: it can leave once a valid copy exists.
inline bool may_leave(const Extent& e) {
  return e.where == Where::kResident && e.pins == 0 && !e.dying;
}
// ... and nobody would rather have it stay.
inline bool evictable(const Extent& e) {
  return may_leave(e) && e.soft == 0 && !e.wanted && !e.hot;
}
inline bool clean(const Extent& e) { return e.below == Below::kValid; }
// The program's own word on the next use comes before what was foreseen; what it says it uses later
// leaves even before what nobody foresees.
inline Position hinted_use(const Extent& e, Position now, Position foreseen) {
  if (e.hint == Hint::kNone) return foreseen == kNever ? kNever - 1 : foreseen;
  return e.hint == Hint::kSoon ? now : kNever;
}

}  // namespace outsize
