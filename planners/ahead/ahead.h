// What planners share that act ahead of need on foresight: an order of victims, Belady's unless a planner
// says otherwise, and how bytes are written, leave and come before they have to.
//
// Ahead of need, but not earlier than that: what comes too early takes room from what is used before
// it and so is paid for twice; what is written too early may be changed again. Both are begun when
// the time left is a small multiple of what the transfers up to there take.
//
// Where the link has more to do than time allows, nothing that it brings comes too late for want of a
// margin, and every byte that moves needlessly is paid for: then margins are short, and no clean
// extent leaves in place of a changed one that is used later.
//
// What comes takes the place of what was used since it was asked for, which is clean as a rule: only so much as is on
// its way at once needs room that has to be written free (docs/notes/write-ahead.md).
//
// Nothing leaves for a birth alone: letting go of clean bytes takes no time then either, and the birth
// may not come. What comes leaves free what the births just ahead take, or it would come in their place.
//
// What came ahead of need and went without having been used cost the link twice what a used one saves,
// or more; where more than a third of what comes does so, hardly anything comes any more, but for a share
// of what is waited for, by which better times are noticed.
//
// What came ahead of need and was not used yet leaves for nothing else that comes ahead of need: where
// it would, one of the two forecasts was wrong, and bytes would go to and fro.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "core/plan/planner.h"
#include "core/residency/victim_order.h"

namespace outsize::ahead {

class AheadPlanner : public Planner {
 public:
  AheadPlanner(const ExtentTable& table, const Predictor& predictor)
      : table_(table), predictor_(predictor) {}
  void on_resident(ExtentId id) override { leaving_.put(id, key_of(id)); }
  void on_gone(ExtentId id) override { leaving_.remove(id); }
  void on_rekey() override;
  void victims(bool last_choice, std::size_t limit, std::vector<ExtentId>& out) override;
  bool needed_soon(ExtentId id) const override;
  void plan(const PlanState& state, std::vector<Decision>& out) override;

 protected:
  struct Pace {  // how far ahead of need things are begun
    Nanos headroom;                   // what comes leaves room for the births of this time ahead
    Nanos read_margin, write_margin;
    Nanos read_factor, write_factor;  // of the transfers' own time
  };
  static constexpr Pace kRelaxed{30'000'000, 30'000'000, 30'000'000, 4, 2};
  static constexpr Pace kPressed{10'000'000, 10'000'000, 10'000'000, 2, 2};  // the link is the wall
  struct Draft {  // what one plan has taken so far
    explicit Draft(const PlanState& at, std::vector<Decision>& decisions)
        : state(at), out(decisions), free(at.free), reading(at.reading), writing(at.writing) {}
    const PlanState& state;
    std::vector<Decision>& out;
    Bytes free, reading, writing;
    Bytes trust = std::numeric_limits<Bytes>::max();  // that may come ahead of need yet
    std::size_t next_victim = 0;  // in order_
    Bytes evicted = 0;            // bytes of order_ that this plan lets go
    std::uint64_t read_rate = kRate, write_rate = kRate;
    std::size_t coming = 0;       // entries of upcoming_
    std::size_t absent = 0;       // entries of absent_
    Bytes absent_bytes = 0;
    std::size_t sought = 0;       // so many victims were looked for: order_ is of this plan; 0: it is not
    bool bound = false;           // by the link
    Pace pace = kRelaxed;

    bool can_write(Bytes bytes) const {
      return writing == 0 || writing + bytes <= state.writing_max;
    }
    bool can_read(Bytes bytes) const {
      return reading == 0 || reading + bytes <= state.reading_max;
    }
    void evict(ExtentId id, const Extent& e);
    void clean(ExtentId id, const Extent& e, Decision::Reason reason);
    void prefetch(ExtentId id, const Extent& e);
  };

  // Keys are the positions of next uses. A planner may let some leave before all others by adding
  // kLeavesFirst to theirs.
  virtual Position key_of(ExtentId id) const { return next_use(id); }
  static constexpr Position kLeavesFirst = Position{1} << 62;
  Position next_use(ExtentId id) const {  // with a hint that it is soon, before all that is foreseen
    return hinted_use(table_[id], 0, predictor_.next_use(id));
  }
  // What `bytes` take at `rate` bytes a second.
  static Nanos time_of(Bytes bytes, std::uint64_t rate) {
    return bytes * 1'000 / static_cast<Bytes>(std::max<std::uint64_t>(rate / 1'000'000, 1));
  }
  // Could be fetched for a use that is foreseen.
  static bool awaited(const Extent& e) {
    return e.where == Where::kAbsent && !e.wanted && !e.dying && e.hint != Hint::kLater;
  }
  void foresee(Draft& draft, std::size_t most = kUpcoming);  // so many uses ahead
  bool reaches(Draft& draft, std::size_t at);
  Nanos write_begin(const Draft& draft, Bytes by_then) const;
  static Bytes room_wanted(const Draft& draft, Bytes absent, Bytes births);
  bool link_bound(const Draft& draft) const;
  void keep_pace(Draft& draft) const;
  void weigh_trust(Draft& draft);
  void prefetch(Draft& draft);
  void write_ahead(Draft& draft);
  bool free_up(Draft& draft, Bytes need, Position beyond, bool for_prefetch = false);
  void write_victims(Draft& draft, Bytes need, Position beyond);

  const ExtentTable& table_;
  const Predictor& predictor_;
  VictimOrder leaving_;
  Bytes trust_ = -1;  // that may have come ahead of need at once; -1: as much as the budget
  PlanState judged_;  // up to here
  std::vector<ExtentId> order_;  // scratch: victims of one plan, best first
  static constexpr std::size_t kUpcoming = 1024;
  std::array<Upcoming, kUpcoming> upcoming_{};
  std::array<std::uint16_t, kUpcoming> absent_{};  // those of upcoming_ that are below, soonest first

 private:
  static constexpr Position kSoonOps = 12;
  static constexpr Nanos kWriteAhead = 2'000'000'000; // what must leave within it is written now
  static constexpr std::uint64_t kRate = 500'000'000;  // bytes a second, until measured
  static constexpr Bytes kTrustLost = 2;       // for a byte that came for nothing
  static constexpr Bytes kTrustRegained = 16;  // bytes waited for, for one that may come on trial
  static constexpr Bytes kOnTheWay = 4;        // one part in so many of the transfer slots is on its way at once
  static constexpr Nanos kBusyPercent = 60;  // of the time ahead, from which on the link is the wall
  static constexpr std::size_t kVictims = 512;        // looked at in one plan, where the first few are not enough
  static constexpr std::size_t kVictimsFirst = 64;
};

}  // namespace outsize::ahead
