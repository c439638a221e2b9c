#include "planners/weights/exhaustive.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <unordered_map>

namespace outsize::weights {
namespace {

using Mask = std::uint8_t;  // a bit a layer
using Number = std::uint32_t;  // of a node
constexpr std::uint8_t kNone = 0xff;
constexpr Number kNoNode = 0xffffffffU;

// The instant at which something has just ended.
struct State {
  std::uint16_t op_left = 0, up_left = 0, down_left = 0;  // 0: idle
  std::uint8_t next = 0;                                  // op to start
  std::uint8_t held = 0;                  // the op could have started, and waits for a fetch's sake
  std::uint8_t up = kNone, down = kNone;  // layers
  Mask there = 0;                         // or coming
  Mask valid = 0;                         // copies below
  Mask unknown = 0;                       // untouched since the begin: valid or not, as we like
  Mask begins_absent = 0, begins_clean = 0;
  Mask passed_over = 0;  // could have been sent, and the link was left idle instead

  bool operator==(const State&) const = default;
};
static_assert(sizeof(State) == 16);

struct HashState {
  std::size_t operator()(const State& state) const {
    const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(state);
    std::uint64_t h = words[0] * 0x9e3779b97f4a7c15ULL;
    h = ((h ^ (h >> 32)) + words[1]) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 29)) * 0x94d049bb133111ebULL;
    return static_cast<std::size_t>(h ^ (h >> 32));
  }
};

struct Node {
  State state;
  Number parent = kNoNode;
  Nanos at = 0;
  // What started at the parent's instant.
  std::uint8_t sent = kNone, fetched = kNone;
  bool op_started = false;
};

// What the comparison of two states looks at, close together: there are many comparisons.
struct Closed {
  explicit Closed(const Node& node)
      : at(static_cast<std::uint32_t>(node.at)),
        op_end(at + node.state.op_left),
        up_end(at + node.state.up_left),
        down_end(at + node.state.down_left),
        there(node.state.there),
        valid(node.state.valid),
        unknown(node.state.unknown),
        begins_clean(node.state.begins_clean),
        passed_over(node.state.passed_over),
        held(node.state.held) {}

  std::uint32_t at, op_end, up_end, down_end;
  Mask there, valid, unknown, begins_clean, passed_over;
  std::uint8_t held;
};

// A choice in the making: the state it leads to, before time goes on.
struct Choice {
  State state;
  std::uint8_t sent = kNone, fetched = kNone;
  bool op_started = false;
};

constexpr Mask bit(std::size_t layer) { return static_cast<Mask>(1U << layer); }

class Search {
 public:
  Search(const Chain& chain, Bytes memory, const ExhaustiveLimits& limits);
  Result<Exhaustive> run();

 private:
  // Sums over each set of layers.
  using Table = std::array<Nanos, 256>;
  static Table sums(const std::vector<std::int64_t>& values);
  Nanos least_absent(std::size_t op, const Table& cost, Mask free) const;

  void begin();
  void expand(Number number);
  void choose_fetch(const Choice& c);
  void choose_op(const Choice& c);
  void wait(const Choice& c);
  void reach(const Node& node);
  bool dominated(Number number);
  bool over(const State& s) const;
  template <class Then>
  void with_room(const State& from, Bytes need, Mask keep, Then then);
  Nanos estimate(const State& s) const;
  Nanos estimate_up(const State& s) const;
  Nanos estimate_down(const State& s) const;
  Schedule schedule_of(Number end) const;
  void note(const Node& from, const Node& to, Schedule& schedule) const;

  // At least, until the next op starts.
  Nanos to_next(const State& s) const { return s.op_left > 0 ? s.op_left + waits_[s.next] : 0; }
  Bytes rest(const State& s) const {
    return s.op_left > 0 ? line_.running(s.next - 1) : line_.at_rest(s.next);
  }
  std::size_t running_layer(const State& s) const { return line_.layer_of(s.next - 1U); }
  Mask started(const State& s, bool backward) const;  // layers whose F, or B, has started

  const Chain& chain_;
  const Bytes memory_;
  const ExhaustiveLimits limits_;
  const Timeline line_;
  Mask movable_ = 0;
  Table bytes_{}, up_time_{}, down_time_{};
  std::vector<Nanos> waits_;  // least_waits()
  std::vector<Nanos> left_;   // from the start of each op on: the ops, and what they wait at least
  Nanos absent_f_ = 0, absent_b_ = 0;  // least fetch time of what must be absent at F_L, at B_L
  Table sent_by_turn_{};        // by the set of valid copies: least send time of what must be absent
                                // at F_L or at B_L
  std::vector<Node> nodes_;
  std::unordered_map<State, Number, HashState> known_;
  std::unordered_map<std::uint64_t, std::vector<Closed>> closed_;  // what was gone on from
  Number expanded_ = kNoNode;
  std::map<Nanos, std::vector<Number>> open_;  // by estimate of the whole; the newest first
  bool too_many_ = false;
};

Search::Search(const Chain& chain, Bytes memory, const ExhaustiveLimits& limits)
    : chain_(chain), memory_(memory), limits_(limits), line_(chain) {
  std::vector<std::int64_t> bytes, up, down;
  for (std::size_t i = 0; i < line_.layers(); ++i) {
    const Bytes w = chain.layers[i].weight;
    if (w > 0) movable_ |= bit(i);
    bytes.push_back(w);
    up.push_back(transfer_time(w, chain.up));
    down.push_back(transfer_time(w, chain.down));
  }
  bytes_ = sums(bytes);
  up_time_ = sums(up);
  down_time_ = sums(down);
  left_.assign(line_.ops() + 1, 0);
  waits_ = least_waits(chain, memory);
  waits_.push_back(0);
  for (std::size_t op = line_.ops(); op-- > 0;) {
    left_[op] = line_.time_of(op) + waits_[op + 1] + left_[op + 1];
  }
  const std::size_t turn = line_.layers();
  absent_f_ = least_absent(turn - 1, up_time_, 0);
  absent_b_ = least_absent(turn, up_time_, 0);
  for (unsigned valid = 0; valid < 256; ++valid) {
    const auto free = static_cast<Mask>(valid);
    sent_by_turn_[valid] = std::max(least_absent(turn - 1, down_time_, free),
                                    least_absent(turn, down_time_, free));
  }
}

Search::Table Search::sums(const std::vector<std::int64_t>& values) {
  Table table{};
  for (unsigned set = 0; set < 256; ++set) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if ((set & bit(i)) != 0) table[set] += values[i];
    }
  }
  return table;
}

// The least cost of a set that has to be absent while `op` runs; layers of `free` cost nothing.
Nanos Search::least_absent(std::size_t op, const Table& cost, Mask free) const {
  const Bytes room = memory_ - line_.running(op);
  const unsigned all = (1U << line_.layers()) - 1;
  Nanos least = std::numeric_limits<Nanos>::max();
  for (unsigned absent = 0; absent <= all; ++absent) {
    if ((absent & bit(line_.layer_of(op))) != 0 || bytes_[all & ~absent] > room) continue;
    least = std::min(least, cost[absent & ~static_cast<unsigned>(free)]);
  }
  return least;
}

Mask Search::started(const State& s, bool backward) const {
  Mask mask = 0;
  for (std::size_t i = 0; i < line_.layers(); ++i) {
    if ((backward ? line_.backward_op(i) : line_.forward_op(i)) < s.next) mask |= bit(i);
  }
  return mask;
}

// --- the estimate --------------------------------------------------------------------------------

Nanos Search::estimate_up(const State& s) const {
  const Mask f = started(s, false), b = started(s, true);
  const auto absent = static_cast<Mask>(movable_ & ~s.there);
  const Nanos before_f = up_time_[absent & ~f], before_b = up_time_[absent & f & ~b];
  const Nanos before_end = up_time_[absent & b & ~s.begins_absent];
  const Nanos last = line_.time_of(line_.ops() - 1);
  const std::size_t turn = line_.layers();
  const Nanos must_f = s.next < turn ? absent_f_ : 0, must_b = s.next <= turn ? absent_b_ : 0;
  const Nanos late = std::max({before_b, must_f, must_b});
  Nanos whole = s.up_left + before_f + std::max(late > 0 ? late + last : 0, late + before_end);
  if (s.next > turn) return whole;
  // What F demands has come when F_L starts; what is absent at a cut comes after it.
  const Nanos lead = before_f > 0 ? s.up_left + before_f : 0;
  const Nanos forward_end = line_.time_of(turn - 1);
  const auto cut = [&](std::size_t op, Nanos must, Nanos lead_to_cut) {
    const Nanos ops = to_next(s) + left_[s.next] - left_[op];
    return std::max(ops, lead_to_cut) + std::max(left_[op], must > 0 ? must + last : 0);
  };
  if (s.next < turn) {
    whole = std::max(whole, cut(turn - 1, must_f, lead));
    return std::max(whole, cut(turn, must_b, lead > 0 ? lead + forward_end : 0));
  }
  return std::max(whole, cut(turn, must_b, 0));
}

Nanos Search::estimate_down(const State& s) const {
  const Mask b = started(s, true);
  const Mask leaving = s.down == kNone ? 0 : bit(s.down);
  const auto demanded = static_cast<Mask>(s.begins_absent | s.begins_clean);
  // Valid at the end: sent after B.
  const auto to_send = static_cast<Mask>(demanded & ~(b & (s.valid | leaving)));
  const Nanos before_turn =
      s.next < line_.layers() ? sent_by_turn_[static_cast<Mask>(s.valid | leaving)] : 0;
  return s.down_left + before_turn + down_time_[to_send];
}

Nanos Search::estimate(const State& s) const {
  return std::max({to_next(s) + left_[s.next], estimate_up(s), estimate_down(s)});
}

// --- the branches --------------------------------------------------------------------------------

void Search::reach(const Node& node) {
  const Nanos whole = node.at + estimate(node.state);
  if (whole > limits_.at_most) return;
  const auto [place, is_new] = known_.try_emplace(node.state, static_cast<Number>(nodes_.size()));
  if (!is_new) {
    if (nodes_[place->second].at <= node.at) return;
    place->second = static_cast<Number>(nodes_.size());
  }
  if (nodes_.size() >= limits_.states) {
    too_many_ = true;
    return;
  }
  open_[whole].push_back(static_cast<Number>(nodes_.size()));
  nodes_.push_back(node);
}

// Whether whatever can follow `b` can follow `a` as well, no later.
bool dominates(const Closed& a, const Closed& b) {
  if (a.at > b.at || a.op_end > b.op_end || a.up_end > b.up_end || a.down_end > b.down_end ||
      a.held > b.held || (a.passed_over & ~b.passed_over) != 0) {
    return false;
  }
  // Untouched at a: can be taken for dirty, or for valid at the price of the demand.
  const int worse_untouched = a.unknown & ~(b.unknown | b.begins_clean | (b.there & ~b.valid));
  const int worse_than_untouched = ~a.unknown & b.unknown & ~(a.there & a.valid & ~a.begins_clean);
  const int worse = ~a.unknown & ~b.unknown & ((a.begins_clean & ~b.begins_clean) |
                                               (b.valid & ~a.valid) | (b.there & ~a.there));
  return ((worse_untouched | worse_than_untouched | worse) & 0xff) == 0;
}

bool Search::dominated(Number number) {
  const Node& node = nodes_[number];
  const State& s = node.state;
  const std::uint64_t key = (((static_cast<std::uint64_t>(s.begins_absent) << 8 | s.next) << 8 | s.up)
                             << 8 | s.down) << 1 | (s.op_left > 0);
  const Closed closed(node);
  auto& others = closed_[key];
  for (const Closed& other : others) {
    if (dominates(other, closed)) return true;
  }
  others.push_back(closed);
  return false;
}

void Search::begin() {
  const unsigned all = (1U << line_.layers()) - 1;
  for (unsigned absent = 0; absent <= all; ++absent) {
    if ((absent & ~static_cast<unsigned>(movable_)) != 0) continue;
    if (bytes_[all & ~absent] + line_.at_rest(0) > memory_) continue;
    State s;
    s.there = static_cast<Mask>(all & ~absent);
    s.valid = s.begins_absent = static_cast<Mask>(absent);
    s.unknown = static_cast<Mask>(s.there & movable_);
    reach({s});
  }
}

// Calls then(state) with each least set of drops after which `need` more bytes fit.
template <class Then>
void Search::with_room(const State& from, Bytes need, Mask keep, Then then) {
  const Bytes lacking = bytes_[from.there] + need - memory_;
  if (lacking <= 0) return then(from);
  unsigned may = from.there & (from.valid | from.unknown) & movable_ & ~static_cast<unsigned>(keep);
  if (from.up != kNone) may &= ~static_cast<unsigned>(bit(from.up));
  if (from.down != kNone) may &= ~static_cast<unsigned>(bit(from.down));
  if (from.op_left > 0) may &= ~static_cast<unsigned>(bit(running_layer(from)));
  for (unsigned set = may; set != 0; set = (set - 1) & may) {
    if (bytes_[set] < lacking) continue;
    bool least = true;
    for (std::size_t i = 0; i < line_.layers(); ++i) {
      if ((set & bit(i)) != 0 && bytes_[set & ~static_cast<unsigned>(bit(i))] >= lacking) least = false;
    }
    if (!least) continue;
    State s = from;
    s.there &= static_cast<Mask>(~set);
    s.begins_clean |= static_cast<Mask>(set & from.unknown);  // so it was valid all along
    s.unknown &= static_cast<Mask>(~set);
    s.valid |= static_cast<Mask>(set);
    then(s);
  }
}

// What may start at this instant: a send, then a fetch, then the op. One order suffices, since what
// starts at the same instant commutes.
void Search::expand(Number number) {
  expanded_ = number;
  const State s = nodes_[number].state;
  Mask can = 0;
  if (s.down == kNone) {
    can = static_cast<Mask>(movable_ & s.there & ~s.valid);
    if (s.up != kNone) can &= static_cast<Mask>(~bit(s.up));
    if (s.op_left > 0 && line_.is_backward(s.next - 1U)) can &= static_cast<Mask>(~bit(running_layer(s)));
  }
  Choice idle{s};
  if (limits_.shortcuts) idle.state.passed_over |= can;
  choose_fetch(idle);
  for (std::size_t i = 0; i < line_.layers(); ++i) {
    // Nothing speaks against sending it as soon as the link is idle, so it is now or after B_i.
    if ((can & ~s.passed_over & bit(i)) == 0) continue;
    Choice c{s};
    c.sent = c.state.down = static_cast<std::uint8_t>(i);
    c.state.down_left = static_cast<std::uint16_t>(down_time_[bit(i)]);
    c.state.unknown &= static_cast<Mask>(~bit(i));
    c.state.passed_over = 0;
    choose_fetch(c);
  }
}

void Search::choose_fetch(const Choice& c) {
  choose_op(c);
  const State& s = c.state;
  if (s.up != kNone) return;
  for (std::size_t i = 0; i < line_.layers(); ++i) {
    if ((movable_ & ~s.there & bit(i)) == 0) continue;
    // After B_i it is wanted only where the step must end with it.
    if (line_.backward_op(i) < s.next && (s.begins_absent & bit(i)) != 0) continue;
    with_room(s, rest(s) + bytes_[bit(i)], 0, [&](const State& with) {
      Choice d = c;
      d.state = with;
      d.state.there |= bit(i);
      d.fetched = d.state.up = static_cast<std::uint8_t>(i);
      d.state.up_left = static_cast<std::uint16_t>(up_time_[bit(i)]);
      if (d.state.held != 0) {
        // It was worth holding the op back if the two do not fit together.
        const auto both = static_cast<Mask>(d.state.there | bit(line_.layer_of(s.next)));
        if (bytes_[both] + line_.running(s.next) > memory_) d.state.held = 0;
      }
      choose_op(d);
    });
  }
}

void Search::choose_op(const Choice& c) {
  const State& s = c.state;
  const bool none = s.op_left > 0 || s.next == line_.ops();
  const std::size_t layer = none ? 0 : line_.layer_of(s.next);
  const bool backward = !none && line_.is_backward(s.next);
  if (none || (s.there & bit(layer)) == 0 || s.up == layer || (backward && s.down == layer)) {
    return wait(c);
  }
  Choice held = c;
  if (limits_.shortcuts && bytes_[s.there] + line_.running(s.next) <= memory_) held.state.held = 1;
  wait(held);
  if (s.held != 0) return;
  with_room(s, line_.running(s.next), bit(layer), [&](const State& with) {
    Choice d = c;
    d.state = with;
    d.op_started = true;
    d.state.op_left = static_cast<std::uint16_t>(line_.time_of(s.next));
    ++d.state.next;
    if (backward) {
      d.state.valid &= static_cast<Mask>(~bit(layer));
      d.state.unknown &= static_cast<Mask>(~bit(layer));
      d.state.passed_over &= static_cast<Mask>(~bit(layer));
    }
    wait(d);
  });
}

// On to the next end of anything.
void Search::wait(const Choice& c) {
  State s = c.state;
  std::uint16_t time = 0xffff;
  for (const std::uint16_t left : {s.op_left, s.up_left, s.down_left}) {
    if (left > 0) time = std::min(time, left);
  }
  if (s.op_left == 0 && s.up == kNone && s.down == kNone) return;
  if (s.op_left > 0) s.op_left = static_cast<std::uint16_t>(s.op_left - time);
  if (s.up != kNone && (s.up_left = static_cast<std::uint16_t>(s.up_left - time)) == 0) s.up = kNone;
  if (s.down != kNone && (s.down_left = static_cast<std::uint16_t>(s.down_left - time)) == 0) {
    s.valid |= bit(s.down);
    s.down = kNone;
  }
  reach({s, expanded_, nodes_[expanded_].at + time, c.sent, c.fetched, c.op_started});
}

// The step is over, and may begin again.
bool Search::over(const State& s) const {
  if (s.next < line_.ops() || s.op_left > 0 || s.up != kNone || s.down != kNone) return false;
  const auto demanded = static_cast<Mask>(s.begins_absent | s.begins_clean);
  return (demanded & ~s.valid) == 0 && (movable_ & ~s.begins_absent & ~s.there) == 0;
}

// --- the answer ----------------------------------------------------------------------------------

// What was started at the instant of `from`, on the way to `to`.
void Search::note(const Node& from, const Node& to, Schedule& schedule) const {
  for (std::size_t i = 0; i < line_.layers(); ++i) {
    if ((from.state.there & ~to.state.there & bit(i)) != 0) {
      schedule.transfers.push_back({Move::kDrop, i, from.at});
    }
  }
  if (to.sent != kNone) schedule.transfers.push_back({Move::kDown, to.sent, from.at});
  if (to.fetched != kNone) schedule.transfers.push_back({Move::kUp, to.fetched, from.at});
  if (to.op_started) schedule.op_start[from.state.next] = from.at;
  // What holds from this instant to the next.
  const Bytes running = to.op_started ? line_.running(from.state.next) : rest(from.state);
  schedule.peak = std::max(schedule.peak, bytes_[to.state.there] + running);
}

Schedule Search::schedule_of(Number end) const {
  std::vector<Number> path;
  for (Number n = end; n != kNoNode; n = nodes_[n].parent) path.push_back(n);
  std::reverse(path.begin(), path.end());
  const State& last = nodes_[end].state;
  Schedule schedule;
  schedule.op_start.assign(line_.ops(), 0);
  schedule.time = nodes_[end].at;
  for (std::size_t i = 0; i < line_.layers(); ++i) {
    schedule.border.push_back((last.begins_absent & bit(i)) != 0  ? Border::kAbsent
                              : (last.begins_clean & bit(i)) != 0 ? Border::kClean
                                                                  : Border::kDirty);
  }
  for (std::size_t k = 0; k + 1 < path.size(); ++k) {
    note(nodes_[path[k]], nodes_[path[k + 1]], schedule);
  }
  for (std::size_t i = 0; i < line_.layers(); ++i) {
    if ((last.begins_absent & last.there & bit(i)) != 0) {
      schedule.transfers.push_back({Move::kDrop, i, schedule.time});
    }
  }
  return schedule;
}

Result<Exhaustive> Search::run() {
  begin();
  while (!open_.empty() && !too_many_) {
    const auto first = open_.begin();
    const Number number = first->second.back();
    first->second.pop_back();
    if (first->second.empty()) open_.erase(first);
    const Node node = nodes_[number];
    if (known_.at(node.state) != number) continue;  // a quicker way to the same was found
    if (over(node.state)) return Exhaustive{schedule_of(number), nodes_.size()};
    if (!limits_.shortcuts || !dominated(number)) expand(number);
  }
  if (too_many_) {
    return Error{ErrorCode::kUnsupported, "The search was given up: too many states.", "exhaustive", ""};
  }
  return Error{ErrorCode::kOutOfBudget, "No schedule exists for this memory and time.", "exhaustive", ""};
}

}  // namespace

Result<Exhaustive> exhaustive(const Chain& chain, Bytes memory, const ExhaustiveLimits& limits) {
  if (Status valid = validate(chain); !valid) return valid.error();
  if (chain.length() > kExhaustiveLayersMax) {
    return Error{ErrorCode::kInvalidArgument, "Too many layers for an exhaustive search.", "exhaustive", ""};
  }
  for (const Layer& l : chain.layers) {
    const Nanos longest = std::max({l.forward, l.backward, transfer_time(l.weight, chain.up),
                                    transfer_time(l.weight, chain.down)});
    if (longest >= 0xffff) {
      return Error{ErrorCode::kInvalidArgument, "A time is too long for an exhaustive search.",
                   "exhaustive", "Use larger units."};
    }
  }
  if (memory < memory_range(chain).least) {
    return Error{ErrorCode::kOutOfBudget, "An op and its weight do not fit.", "exhaustive", ""};
  }
  return Search(chain, memory, limits).run();
}

}  // namespace outsize::weights
