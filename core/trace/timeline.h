// What happened when: ops at work, transfers, bytes in RAM, and why threads waited. A driver that is
// asked for it tells a Timeline; one that is not pays nothing.
//
// A wait is told in pieces, each with what ended it: the read of what the thread waited for, a write
// after which something could leave, or else that others let go of room. Its pieces add up to it.
//
// Details are kept of the last steps only, and of no more than so many events; totals are of the whole
// run. Times are the driver's, and never decrease. Not thread-safe: the driver serialises.
#pragma once

#include <cstddef>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "core/engine/input.h"
#include "core/trace/trace_event.h"

namespace outsize {

struct TimelineOptions {
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();      // the last so many
  std::int64_t last_step = std::numeric_limits<std::int64_t>::max();  // of those up to this, from 1
  std::size_t events = std::numeric_limits<std::size_t>::max();       // of each kind
};

class Timeline {
 public:
  enum class Cause : std::uint8_t { kRead, kWrite, kRoom };
  static constexpr std::size_t kCauses = 3;
  enum class End : std::uint8_t { kDone, kFailed, kDied };  // kDied: the extent, meanwhile

  struct Work {
    ThreadId thread = 0;
    Nanos begin = 0, end = 0;
    SiteId site = 0;  // 0: between ops
  };
  struct Move {
    ExtentId extent = kNoExtent;
    bool write = false;
    bool ahead = false;   // nobody waited for it when it was asked for
    End outcome = End::kDone;
    Bytes bytes = 0;
    Nanos asked = 0, begin = 0, end = 0;
  };
  struct Stall {
    ThreadId thread = 0;
    trace::WaitCause why = trace::WaitCause::kOperands;
    Cause cause = Cause::kRoom;
    SiteId site = 0;
    Bytes needed = 0;      // by the op or the allocation that waits: what was not there
    Nanos since = 0;       // when its whole wait began
    Nanos begin = 0, end = 0;
    Move by;               // what ended it, but for kRoom
  };
  struct Level {
    Nanos time = 0;
    Bytes resident = 0;
  };
  struct Totals {
    Nanos stall[kCauses] = {};
    std::int64_t stalls[kCauses] = {};
    Bytes read = 0, written = 0;  // of transfers that were done and not for nothing
    Nanos work = 0;
  };

  explicit Timeline(const TimelineOptions& options = {}) : options_(options) {}

  void work(const Work& done);
  void asked(ExtentId extent, bool write, Urgency urgency, Bytes bytes, Nanos now);
  // To be told before what it sets free is granted.
  void ended(ExtentId extent, bool write, End outcome, Nanos began, Nanos now);
  // `extents`: what has to be there; empty where room alone is needed.
  void waits(ThreadId thread, trace::WaitCause why, std::span<const ExtentId> extents, Bytes needed, SiteId site,
             Nanos now);
  void goes_on(ThreadId thread, Nanos now);  // granted or refused
  // After each input: what is in RAM now. Until then, what an ended transfer brings about (its pages move,
  // somebody is granted) is counted as part of waiting for it.
  void resident(Bytes bytes, Nanos now);
  void step(Nanos now);

  const std::deque<Work>& works() const { return works_; }
  const std::deque<Move>& moves() const { return moves_; }
  const std::deque<Stall>& stalls() const { return stalls_; }
  const std::deque<Level>& levels() const { return levels_; }
  const Totals& totals() const { return totals_; }
  Nanos begin() const { return begin_; }
  Nanos end() const { return steps_ > 0 ? step_ends_.back() : latest_; }

  // One JSON object; rows are flat lists of integers, in the order in which the .cpp writes them down.
  std::string json() const;

 private:
  struct Waiting {
    ThreadId thread = 0;
    trace::WaitCause why = trace::WaitCause::kOperands;
    SiteId site = 0;
    Bytes needed = 0;
    Nanos since = 0, piece = 0;
    std::vector<ExtentId> extents;
    bool ending = false;  // `by` has ended, and what follows from that has not been seen to its end
    Cause cause = Cause::kRoom;
    Move by;
  };

  bool past(Nanos begin) const { return steps_ >= options_.last_step && begin >= step_ends_.back(); }
  bool reads_for(const Waiting& waiting) const;
  void ends(Waiting& waiting, Cause cause, const Move& by);
  void settle(Waiting& waiting, Nanos now);
  void piece(const Waiting& waiting, Nanos now);
  template <class Event>
  void keep(std::deque<Event>& events, const Event& event);
  template <class Event>
  void forget_before(std::deque<Event>& events, Nanos time);

  TimelineOptions options_;
  std::vector<Move> under_way_;
  std::vector<Waiting> waiting_;
  std::deque<Work> works_;
  std::deque<Move> moves_;
  std::deque<Stall> stalls_;
  std::deque<Level> levels_;
  std::deque<Nanos> step_ends_;  // of those that are kept, and of the one before
  Totals totals_;
  std::int64_t steps_ = 0;
  Nanos begin_ = 0, latest_ = 0;
  bool cut_ = false;  // there were too many events
};

}  // namespace outsize
