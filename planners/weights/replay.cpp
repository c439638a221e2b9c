#include "planners/weights/replay.h"

#include <algorithm>
#include <string>

namespace outsize::weights {
namespace {

// What happens at one instant, in this order: what ends frees bytes, drops free bytes, what starts
// takes them.
enum class Turn : unsigned char { kOpEnd, kTransferEnd, kDrop, kTransferStart, kOpStart };

struct Happening {
  Nanos at = 0;
  Turn turn = Turn::kOpEnd;
  std::size_t index = 0;  // of the op or of the transfer
};

enum class Place : unsigned char { kAbsent, kComing, kThere };

struct Weight {
  Place place = Place::kThere;
  bool valid_below = false;
  bool leaving = false;  // a send reads it
};

class Judge {
 public:
  Judge(const Chain& chain, Bytes memory, const Schedule& schedule)
      : chain_(chain), memory_(memory), schedule_(schedule), ops_(2 * chain.length()) {}

  Result<Replayed> judge();

 private:
  bool well_formed();
  void gather();
  bool happen(const Happening& h);
  bool begin();
  bool start_op(std::size_t op);
  void end_op(std::size_t op);
  bool start_transfer(const Transfer& t);
  void end_transfer(const Transfer& t);
  bool drop(const Transfer& t);
  bool ends_as_it_began();
  bool count();

  // Written here once more, and differently from Timeline: the judge trusts no sums of others.
  bool backward(std::size_t op) const { return op >= chain_.length(); }
  std::size_t layer(std::size_t op) const { return backward(op) ? ops_ - 1 - op : op; }
  Nanos length(std::size_t op) const {
    const Layer& l = chain_.layers[layer(op)];
    return backward(op) ? l.backward : l.forward;
  }
  Nanos length(const Transfer& t) const {
    return transfer_time(chain_.layers[t.layer].weight, t.move == Move::kUp ? chain_.up : chain_.down);
  }
  bool refuse(const std::string& what, ErrorCode code = ErrorCode::kInvalidArgument) {
    error_ = {code, what, "at " + std::to_string(now_), ""};
    return false;
  }
  std::string weight_name(std::size_t layer) const { return "weight " + std::to_string(layer + 1); }
  std::string name(std::size_t op) const {
    return (backward(op) ? "B" : "F") + std::to_string(layer(op) + 1);
  }

  const Chain& chain_;
  const Bytes memory_;
  const Schedule& schedule_;
  const std::size_t ops_;

  std::vector<Happening> happenings_;
  std::vector<Weight> weights_;
  std::vector<bool> activation_lives_;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t running_ = kNone;  // op
  bool up_busy_ = false, down_busy_ = false;
  Nanos now_ = 0;
  Replayed result_;
  Error error_;
};

bool Judge::well_formed() {
  if (schedule_.border.size() != chain_.length() || schedule_.op_start.size() != ops_) {
    return refuse("The schedule is for another chain.");
  }
  for (std::size_t op = 0; op < ops_; ++op) {
    const Nanos ready = op == 0 ? 0 : schedule_.op_start[op - 1] + length(op - 1);
    now_ = schedule_.op_start[op];
    if (now_ < ready) return refuse(name(op) + " starts before the op before it has ended.");
  }
  for (const Transfer& t : schedule_.transfers) {
    now_ = t.start;
    if (t.layer >= chain_.length()) return refuse("No such layer.");
    if (t.start < 0) return refuse("A transfer starts before the step.");
    if (chain_.layers[t.layer].weight == 0) {
      return refuse("Layer " + std::to_string(t.layer + 1) + " has no weight to move.");
    }
  }
  return true;
}

void Judge::gather() {
  for (std::size_t op = 0; op < ops_; ++op) {
    happenings_.push_back({schedule_.op_start[op], Turn::kOpStart, op});
    happenings_.push_back({schedule_.op_start[op] + length(op), Turn::kOpEnd, op});
  }
  for (std::size_t i = 0; i < schedule_.transfers.size(); ++i) {
    const Transfer& t = schedule_.transfers[i];
    if (t.move == Move::kDrop) {
      happenings_.push_back({t.start, Turn::kDrop, i});
    } else {
      happenings_.push_back({t.start, Turn::kTransferStart, i});
      happenings_.push_back({t.start + length(t), Turn::kTransferEnd, i});
    }
  }
  std::stable_sort(happenings_.begin(), happenings_.end(), [](const auto& a, const auto& b) {
    return a.at != b.at ? a.at < b.at : a.turn < b.turn;
  });
}

bool Judge::begin() {
  now_ = 0;
  for (std::size_t i = 0; i < chain_.length(); ++i) {
    const Border border = schedule_.border[i];
    if (border == Border::kAbsent && chain_.layers[i].weight == 0) {
      return refuse("Layer " + std::to_string(i + 1) + " has no weight that could be absent.");
    }
    weights_.push_back({border == Border::kAbsent ? Place::kAbsent : Place::kThere,
                        border != Border::kDirty, false});
  }
  activation_lives_.assign(chain_.length(), false);
  return count();
}

// The bytes of this instant.
bool Judge::count() {
  Bytes bytes = chain_.fixed;
  for (std::size_t i = 0; i < chain_.length(); ++i) {
    if (weights_[i].place != Place::kAbsent) bytes += chain_.layers[i].weight;
    if (activation_lives_[i]) bytes += chain_.layers[i].activation;
  }
  if (running_ != kNone) {
    const Layer& l = chain_.layers[layer(running_)];
    bytes += backward(running_) ? l.backward_scratch : l.forward_scratch;
  }
  result_.peak = std::max(result_.peak, bytes);
  if (bytes <= memory_) return true;
  return refuse(std::to_string(bytes) + " bytes are more than the memory of " +
                    std::to_string(memory_) + ".",
                ErrorCode::kOutOfBudget);
}

bool Judge::start_op(std::size_t op) {
  const std::size_t i = layer(op);
  if (weights_[i].place != Place::kThere) return refuse(name(op) + " starts without its weight.");
  if (backward(op)) {
    if (weights_[i].leaving) return refuse(name(op) + " changes its weight while it is sent.");
    weights_[i].valid_below = false;
  } else {
    activation_lives_[i] = true;
  }
  running_ = op;
  return true;
}

void Judge::end_op(std::size_t op) {
  if (backward(op)) activation_lives_[layer(op)] = false;
  running_ = kNone;
}

bool Judge::start_transfer(const Transfer& t) {
  Weight& w = weights_[t.layer];
  if (t.move == Move::kUp) {
    if (up_busy_) return refuse("Two transfers up overlap: " + weight_name(t.layer) + ".");
    if (w.place != Place::kAbsent) return refuse("It is there already: " + weight_name(t.layer) + ".");
    up_busy_ = true;
    w.place = Place::kComing;
    result_.up += chain_.layers[t.layer].weight;
    return true;
  }
  if (down_busy_) return refuse("Two transfers down overlap: " + weight_name(t.layer) + ".");
  if (w.place != Place::kThere) return refuse("Sent while it is not there: " + weight_name(t.layer) + ".");
  if (running_ != kNone && backward(running_) && layer(running_) == t.layer) {
    return refuse("Sent while it is changed: " + weight_name(t.layer) + ".");
  }
  down_busy_ = true;
  w.leaving = true;
  result_.down += chain_.layers[t.layer].weight;
  return true;
}

void Judge::end_transfer(const Transfer& t) {
  Weight& w = weights_[t.layer];
  if (t.move == Move::kUp) {
    up_busy_ = false;
    w.place = Place::kThere;
  } else {
    down_busy_ = false;
    w.leaving = false;
    w.valid_below = true;
  }
}

bool Judge::drop(const Transfer& t) {
  Weight& w = weights_[t.layer];
  if (w.place != Place::kThere) return refuse("Dropped while it is not there: " + weight_name(t.layer) + ".");
  if (running_ != kNone && layer(running_) == t.layer) {
    return refuse("Dropped while an op uses it: " + weight_name(t.layer) + ".");
  }
  if (w.leaving || !w.valid_below) {
    return refuse("Dropped without a valid copy below: " + weight_name(t.layer) + ".");
  }
  w.place = Place::kAbsent;
  return true;
}

bool Judge::happen(const Happening& h) {
  now_ = h.at;
  switch (h.turn) {
    case Turn::kOpEnd: end_op(h.index); return true;
    case Turn::kTransferEnd: end_transfer(schedule_.transfers[h.index]); return true;
    case Turn::kDrop: return drop(schedule_.transfers[h.index]);
    case Turn::kTransferStart: return start_transfer(schedule_.transfers[h.index]);
    case Turn::kOpStart: return start_op(h.index);
  }
  return false;
}

bool Judge::ends_as_it_began() {
  for (std::size_t i = 0; i < chain_.length(); ++i) {
    const bool absent = weights_[i].place == Place::kAbsent;
    const Border border = schedule_.border[i];
    // A copy that is valid without having been asked for does no harm.
    if (absent != (border == Border::kAbsent) || (border == Border::kClean && !weights_[i].valid_below)) {
      return refuse("The step does not end as it began: " + weight_name(i) + ".");
    }
  }
  return true;
}

Result<Replayed> Judge::judge() {
  if (!well_formed()) return error_;
  gather();
  if (!begin()) return error_;
  Nanos busy = 0;
  for (std::size_t i = 0; i < happenings_.size(); ++i) {
    if (!happen(happenings_[i])) return error_;
    const bool instant_over = i + 1 == happenings_.size() || happenings_[i + 1].at > now_;
    if (instant_over && !count()) return error_;
  }
  if (!ends_as_it_began()) return error_;
  for (std::size_t op = 0; op < ops_; ++op) busy += length(op);
  result_.time = now_;
  result_.stall = now_ - busy;
  return result_;
}

}  // namespace

Result<Replayed> replay(const Chain& chain, Bytes memory, const Schedule& schedule) {
  if (Status valid = validate(chain); !valid) return valid.error();
  return Judge(chain, memory, schedule).judge();
}

}  // namespace outsize::weights
