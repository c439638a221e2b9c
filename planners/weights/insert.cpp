#include "planners/weights/insert.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace outsize::weights {
namespace {

constexpr int kRounds = 8;
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

struct Weight {
  bool there = true;     // or coming
  bool coming = false, leaving = false;
  bool valid = false;    // the copy below
  bool early = false;    // above although the selection has it away: it stays until its use
};

// Plays one step.
class Player {
 public:
  Player(const Chain& chain, Bytes memory, const std::vector<Away>& away);

  struct Played {
    bool ended = false;  // false: nothing could go on
    Schedule schedule;
    std::vector<Border> left;  // the state before it was closed
  };
  Played play(const std::vector<Border>& border);

 private:
  void begin(const std::vector<Border>& border);
  bool advance();
  void end_op();
  void end_up();
  void end_down();
  void settle(std::size_t layer);
  bool start_op();
  void start_up();
  void start_down();
  void start_all();
  bool close();
  bool close_starts();

  bool away_at(std::size_t layer, std::size_t op) const;
  std::size_t next_use(std::size_t layer) const;
  bool fits_until_use(std::size_t layer) const;
  Bytes bytes_now() const;
  Nanos compute_end() const;
  std::vector<Border> border_now() const;
  Bytes weight(std::size_t layer) const { return chain_.layers[layer].weight; }
  void send(std::size_t layer);
  void fetch(std::size_t layer);
  void drop(std::size_t layer);

  const Chain& chain_;
  const Bytes memory_;
  const std::vector<Away>& away_;
  const Timeline line_;
  std::vector<Bytes> planned_;  // of each op, with the weights that the selection keeps

  std::vector<Weight> weights_;
  std::deque<std::size_t> sends_;  // layers, produced earliest first
  Bytes above_ = 0;                // bytes of weights
  Nanos now_ = 0;
  std::size_t next_ = 0, running_ = kNone;  // ops
  std::size_t up_ = kNone, down_ = kNone;   // layers
  Nanos op_end_ = kNever, up_end_ = kNever, down_end_ = kNever;
  Schedule schedule_;
};

Player::Player(const Chain& chain, Bytes memory, const std::vector<Away>& away)
    : chain_(chain), memory_(memory), away_(away), line_(chain) {
  for (std::size_t op = 0; op < line_.ops(); ++op) {
    planned_.push_back(line_.running(op));
    for (std::size_t i = 0; i < line_.layers(); ++i) {
      if (!away_at(i, op)) planned_[op] += weight(i);
    }
  }
}

bool Player::away_at(std::size_t layer, std::size_t op) const {
  const Away& away = away_[layer];
  return (away.in[kForwardToBackward] && within(line_, layer, kForwardToBackward, op)) ||
         (away.in[kBackwardToForward] && within(line_, layer, kBackwardToForward, op));
}

// In ops from the next one; the step repeats.
std::size_t Player::next_use(std::size_t layer) const {
  const std::size_t forward = line_.forward_op(layer), backward = line_.backward_op(layer);
  if (next_ <= forward) return forward - next_;
  if (next_ <= backward) return backward - next_;
  return line_.ops() - next_ + forward;
}

// Whether the weight fits beside what the selection keeps, and beside what stays early, at each op
// from the next one up to its use.
bool Player::fits_until_use(std::size_t layer) const {
  const std::size_t use = next_use(layer);
  for (std::size_t d = 0; d < use; ++d) {
    const std::size_t op = (next_ + d) % line_.ops();
    Bytes bytes = planned_[op] + (away_at(layer, op) ? weight(layer) : 0);
    for (std::size_t j = 0; j < line_.layers(); ++j) {
      if (j != layer && weights_[j].early && away_at(j, op) && next_use(j) > d) bytes += weight(j);
    }
    if (bytes > memory_) return false;
  }
  return true;
}

Bytes Player::bytes_now() const {
  return above_ + (running_ == kNone ? line_.at_rest(next_) : line_.running(running_));
}

// When the last op ends if none has to wait any more.
Nanos Player::compute_end() const {
  Nanos end = running_ == kNone ? now_ : op_end_;
  for (std::size_t op = next_; op < line_.ops(); ++op) end += line_.time_of(op);
  return end;
}

void Player::send(std::size_t layer) {
  weights_[layer].leaving = true;
  down_ = layer;
  down_end_ = now_ + transfer_time(weight(layer), chain_.down);
  schedule_.transfers.push_back({Move::kDown, layer, now_});
}

void Player::fetch(std::size_t layer) {
  weights_[layer].there = weights_[layer].coming = true;
  above_ += weight(layer);
  up_ = layer;
  up_end_ = now_ + transfer_time(weight(layer), chain_.up);
  schedule_.transfers.push_back({Move::kUp, layer, now_});
}

void Player::drop(std::size_t layer) {
  weights_[layer].there = weights_[layer].early = false;
  above_ -= weight(layer);
  schedule_.transfers.push_back({Move::kDrop, layer, now_});
}

// The weight's gap may have begun, or its send may have ended.
void Player::settle(std::size_t layer) {
  const Weight& w = weights_[layer];
  const std::size_t here = running_ == kNone ? next_ % line_.ops() : running_;
  if (!w.there || w.coming || w.leaving || !w.valid || w.early || !away_at(layer, here)) return;
  if (fits_until_use(layer)) {
    weights_[layer].early = true;
  } else {
    drop(layer);
  }
}

void Player::end_op() {
  const std::size_t op = running_, layer = line_.layer_of(op);
  running_ = kNone;
  op_end_ = kNever;
  if (line_.is_backward(op) && away_[layer].any()) sends_.push_back(layer);
  settle(layer);
}

void Player::end_up() {
  weights_[up_].coming = false;
  up_ = kNone;
  up_end_ = kNever;
}

void Player::end_down() {
  const std::size_t layer = down_;
  weights_[layer].leaving = false;
  weights_[layer].valid = true;
  down_ = kNone;
  down_end_ = kNever;
  settle(layer);
}

// To the next end of anything. False if nothing is under way.
bool Player::advance() {
  const Nanos next = std::min({op_end_, up_end_, down_end_});
  if (next == kNever) return false;
  now_ = next;
  if (op_end_ == now_) end_op();
  if (up_end_ == now_) end_up();
  if (down_end_ == now_) end_down();
  return true;
}

bool Player::start_op() {
  if (running_ != kNone || next_ == line_.ops()) return false;
  const std::size_t layer = line_.layer_of(next_);
  Weight& w = weights_[layer];
  if (!w.there || w.coming || above_ + line_.running(next_) > memory_) return false;
  if (line_.is_backward(next_)) {
    if (w.leaving) return false;
    w.valid = false;
    std::erase(sends_, layer);
  }
  w.early = false;
  running_ = next_++;
  op_end_ = now_ + line_.time_of(running_);
  schedule_.op_start[running_] = now_;
  return true;
}

void Player::start_up() {
  if (up_ != kNone) return;
  std::size_t first = kNone;
  for (std::size_t i = 0; i < line_.layers(); ++i) {
    if (!weights_[i].there && (first == kNone || next_use(i) < next_use(first))) first = i;
  }
  if (first == kNone || bytes_now() + weight(first) > memory_ || !fits_until_use(first)) return;
  const bool this_step = next_ + next_use(first) < line_.ops();
  if (!this_step && now_ + transfer_time(weight(first), chain_.up) > compute_end()) return;
  fetch(first);
  weights_[first].early = true;
}

void Player::start_down() {
  if (down_ != kNone || sends_.empty()) return;
  const std::size_t layer = sends_.front();
  const bool op_waits = running_ == kNone && next_ < line_.ops();
  if (!op_waits && now_ + transfer_time(weight(layer), chain_.down) > compute_end()) return;
  sends_.pop_front();
  send(layer);
}

void Player::start_all() {
  start_op();
  start_up();
  start_down();
  schedule_.peak = std::max(schedule_.peak, bytes_now());
}

void Player::begin(const std::vector<Border>& border) {
  schedule_ = {};
  schedule_.border = border;
  schedule_.op_start.assign(line_.ops(), 0);
  weights_.assign(line_.layers(), {});
  sends_.clear();
  above_ = now_ = 0;
  next_ = 0;
  for (std::size_t i = line_.layers(); i-- > 0;) {
    weights_[i].there = border[i] != Border::kAbsent;
    weights_[i].valid = border[i] != Border::kDirty;
    if (weights_[i].there) above_ += weight(i);
    if (border[i] == Border::kDirty && away_[i].any()) sends_.push_back(i);
  }
  for (std::size_t i = 0; i < line_.layers(); ++i) settle(i);
}

std::vector<Border> Player::border_now() const {
  std::vector<Border> border;
  for (const Weight& w : weights_) {
    border.push_back(!w.there ? Border::kAbsent : w.valid ? Border::kClean : Border::kDirty);
  }
  return border;
}

// What must still move for the step to end as it began. False if nothing must.
bool Player::close_starts() {
  bool open = false;
  for (std::size_t i = line_.layers(); i-- > 0;) {  // as they were produced
    const Border wanted = schedule_.border[i];
    Weight& w = weights_[i];
    if (wanted == Border::kDirty || w.valid) continue;
    open = true;
    if (down_ == kNone) send(i);
  }
  for (std::size_t i = 0; i < line_.layers(); ++i) {
    if (schedule_.border[i] == Border::kAbsent && weights_[i].there && weights_[i].valid) drop(i);
  }
  for (std::size_t i = 0; i < line_.layers(); ++i) {  // as they are needed
    if (schedule_.border[i] == Border::kAbsent || weights_[i].there) continue;
    open = true;
    if (up_ == kNone && bytes_now() + weight(i) <= memory_) fetch(i);
  }
  return open || up_ != kNone || down_ != kNone;
}

bool Player::close() {
  while (close_starts()) {
    schedule_.peak = std::max(schedule_.peak, bytes_now());
    if (!advance()) return false;
  }
  schedule_.peak = std::max(schedule_.peak, bytes_now());
  return true;
}

Player::Played Player::play(const std::vector<Border>& border) {
  begin(border);
  Played played;
  do {
    if (next_ < line_.ops() || running_ != kNone) start_all();
  } while (advance());
  if (next_ < line_.ops()) return played;
  sends_.clear();
  played.left = border_now();
  played.ended = close();
  schedule_.time = now_;
  played.schedule = std::move(schedule_);
  return played;
}

}  // namespace

Result<Schedule> insert_transfers(const Chain& chain, Bytes memory, const std::vector<Away>& away) {
  std::vector<Border> border;
  for (std::size_t i = 0; i < away.size(); ++i) {
    // Layer 1 is used on both sides of the border, so there it has no time to be away.
    border.push_back(i > 0 && away[i].in[kBackwardToForward] ? Border::kAbsent : Border::kDirty);
  }
  Player player(chain, memory, away);
  std::vector<std::vector<Border>> seen;
  Result<Schedule> best = Error{ErrorCode::kInternal, "No step came to its end.", "weights", ""};
  for (int round = 0; round < kRounds; ++round) {
    if (std::find(seen.begin(), seen.end(), border) != seen.end()) break;
    seen.push_back(border);
    auto played = player.play(border);
    if (!played.ended) return best;
    if (!best || played.schedule.time < best->time) best = std::move(played.schedule);
    border = std::move(played.left);
  }
  return best;
}

}  // namespace outsize::weights
