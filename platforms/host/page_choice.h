// Huge pages or small ones, where whole chunks are wanted and the budget is full: tried in turns.
//
// Warm small pages can fill whole chunks, or be given up for fresh huge ones. Ops and moves gain from huge pages; but where
// tensors differ in size they have to be made time and again, and what that costs does not show in the time that
// making them takes: a host finds memory for them meanwhile, and reads and ops wait (docs/notes/fresh-pages.md). So where
// they are made anew at all, both sides have their turns, small ones first, and the one under which an op took less time
// stays: by the middle turns of each, as one may be disturbed. Half the turns are enough where an op took longer in both of
// one side than in both of the other, by more than an eighth. Programs change, and so do machines: it is tried again,
// more and more seldom, the more so where it was clear, and what earlier trials found counts by halves.
//
// A turn is whole steps, where the program tells of steps of less than a minute, for within one the ops differ.
//
// Threading: not thread-safe; the runtime calls under its lock.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/types.h"
#include "platforms/host/clock.h"

namespace outsize::host {

class PageChoice {
 public:
  using Clock = Nanos (*)();
  // Where there is no choice, it is huge pages. `clock` tells the time, `used` what the program has used of the processors.
  explicit PageChoice(bool may_choose, Clock clock = monotonic_now, Clock used = processors_used)
      : may_choose_(may_choose), clock_(clock), used_(used) {}

  // Another program begins: what the last one taught is forgotten.
  void forget();
  // A step of the program's ends here.
  void step() { at_step_ = tells_steps_ = true; }
  // To be asked often; so many ops began so far, and for so long did the program wait for bytes. Allocates nothing; now
  // and then a system call.
  void look(std::int64_t ops, Nanos waited);
  // Making huge pages in the place of warm small ones took so long.
  void remade(Nanos took) { remade_ += took; }
  Nanos now() const { return clock_(); }
  bool small() const { return small_; }

 private:
  static constexpr int kTurns = 8;  // of both sides as many: a b b a a b b a, for a program gets faster or slower meanwhile
  static constexpr int kTurnsIfClear = 4;
  static constexpr int kWatching = -1;

  Nanos ran_since_last(Nanos waited);
  bool is_over(Nanos least);
  void watch();
  void begin_turn(int turn);
  void end_turn(std::int64_t ops);
  void decide();

  bool may_choose_;
  Clock clock_, used_;
  Nanos seen_ = 0;                   // by the clock, at the last look
  Nanos asked_ = 0, used_seen_ = 0;  // when the processors' time was last asked for, and what it was
  Nanos waited_seen_ = 0, uncounted_ = 0;  // so far; of the last gap, for a wait may be told only after it
  bool at_step_ = false, tells_steps_ = false;
  bool small_ = false;
  Nanos ran_ = 0, remade_ = 0;  // since the window or the turn began: how long the program ran, and made huge pages
  std::int64_t began_at_ = 0;   // op
  int turn_ = kWatching;
  bool settling_ = false, first_small_ = false;
  std::array<std::array<Nanos, kTurns / 2>, 2> took_{};  // a thousand ops with huge pages, with small ones; by turn
  Nanos trial_ran_ = 0;
  std::int64_t favour_ = 0;      // of small pages, in thousandths of a trial's time; older trials by halves
  int wait_ = 0;                 // windows until the next trial
  int gap_ = 0;                  // between the last two, if turns are short
};

}  // namespace outsize::host
