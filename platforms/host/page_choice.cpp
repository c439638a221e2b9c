#include "platforms/host/page_choice.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace outsize::host {
namespace {

constexpr Nanos kSecond = 1'000'000'000;
constexpr Nanos kWindow = 6 * kSecond;  // and a turn, if no step ends just then
constexpr Nanos kSettle = 2 * kSecond;  // what the other side has left is gone by then
constexpr Nanos kStepMax = 60 * kSecond;  // no longer is the end of a step waited for
constexpr Nanos kShare = 96;            // below that part of a window huge pages cost too little to ask
constexpr int kGapMin = 10, kGapMax = 160;  // windows: a minute, a quarter of an hour. At least twice a trial's time
constexpr std::int64_t kFavourMax = 250;    // a thousandth each: so that later trials can overthrow one

// Of both in the middle of the first so many.
template <typename Turns>
Nanos middle_of(Turns turns, std::size_t count) {
  std::sort(turns.begin(), turns.begin() + static_cast<std::ptrdiff_t>(count));
  return turns[count / 2 - 1] + turns[count / 2];
}

// An op took less time in both first turns of the former than in both of the latter, by more than an eighth of the longer of
// those two. Turns of one side differ by up to a sixth (docs/notes/fresh-pages.md), but a program that gets faster or slower
// all the time cannot look so.
template <typename Turns>
bool is_clearly_less(const Turns& turns, const Turns& others) {
  constexpr Nanos kPart = 8;
  const Nanos most = std::max(turns[0], turns[1]), least = std::min(others[0], others[1]);
  return most + most / kPart < least;
}

}  // namespace

void PageChoice::forget() {
  *this = PageChoice(may_choose_, clock_, used_);
}

// Between two looks may lie a long op, or a time in which the program was stopped: where it is long the processors'
// time tells, or what it waited. The former is a system call, and so not asked for at every look.
Nanos PageChoice::ran_since_last(Nanos waited) {
  constexpr Nanos kPause = 250'000'000, kOften = 50'000'000;
  const Nanos now = clock_(), gone = now - std::exchange(seen_, now);
  Nanos waiting = std::max<Nanos>(waited - std::exchange(waited_seen_, waited), 0);
  const Nanos late = std::min(std::exchange(uncounted_, 0), waiting);
  waiting -= late;
  Nanos ran = gone > kPause ? std::clamp(waiting, kPause, gone) : gone;
  if (now - asked_ > kOften) {
    const Nanos used = used_();
    const Nanos busy = used - std::exchange(used_seen_, used);
    if (asked_ > 0 && gone > kPause) ran = std::clamp(busy, ran, gone);
    asked_ = now;
  }
  uncounted_ = gone - ran;
  return ran + late;
}

bool PageChoice::is_over(Nanos least) {
  const bool at_step = std::exchange(at_step_, false);
  return ran_ >= least && (at_step || !tells_steps_ || ran_ >= kStepMax);
}

void PageChoice::look(std::int64_t ops, Nanos waited) {
  if (!may_choose_) return;
  ran_ += ran_since_last(waited);
  if (turn_ == kWatching) {
    const bool dear = wait_ == 0 && remade_ > kWindow / kShare;  // no need to wait for the window's end
    if (dear || ran_ >= kWindow) watch();
    if (turn_ != kWatching) began_at_ = ops;
    return;
  }
  if (!is_over(settling_ ? kSettle : kWindow) || ops <= began_at_) return;
  trial_ran_ += ran_;
  if (settling_) settling_ = false;
  else end_turn(ops);
  ran_ = remade_ = 0;
  began_at_ = ops;
}

void PageChoice::watch() {
  wait_ = std::max(wait_ - 1, 0);
  const bool dear = small_ || remade_ > ran_ / kShare;
  ran_ = remade_ = 0;
  if (wait_ > 0 || !dear) return;
  first_small_ = small_ || gap_ == 0;  // unless one knows better: six runs of six that make many were faster so (docs/notes/fresh-pages.md)
  trial_ran_ = 0;
  begin_turn(0);
}

void PageChoice::begin_turn(int turn) {
  turn_ = turn;
  const bool other = (turn + 1) / 2 % 2 == 1;
  const bool wanted = other != first_small_;
  settling_ = turn == 0 || wanted != small_;  // the first is to begin with a step
  small_ = wanted;
  at_step_ = false;
}

void PageChoice::end_turn(std::int64_t ops) {
  took_[small_ ? 1 : 0][static_cast<std::size_t>(turn_ / 2)] = ran_ * 1000 / (ops - began_at_);  // of each two turns one is a side's
  const int ended = turn_ + 1;
  const bool is_clear = ended == kTurnsIfClear && (is_clearly_less(took_[0], took_[1]) || is_clearly_less(took_[1], took_[0]));
  if (ended < kTurns && !is_clear) begin_turn(ended);
  else decide();
}

void PageChoice::decide() {
  const int ended = turn_ + 1;
  const auto turns = static_cast<std::size_t>(ended / 2);  // of each side
  const Nanos huge = middle_of(took_[0], turns), small = middle_of(took_[1], turns);
  const std::int64_t found = (huge - small) * 1000 / std::max<Nanos>(huge + small, 1);
  favour_ = favour_ / 2 + std::clamp(found, -kFavourMax, kFavourMax);
  small_ = favour_ > 0;
  turn_ = kWatching;
  // One that ended early was clear. If it agrees, it need not be asked again so soon: asking costs the more, the clearer it is.
  const int longer = ended < kTurns && (found > 0) == small_ ? 2 : 1;
  gap_ = std::clamp(2 * longer * gap_, longer * kGapMin, kGapMax);
  wait_ = std::max(gap_, static_cast<int>(2 * trial_ran_ / kWindow));
}

}  // namespace outsize::host
