#include "sim/window_limit.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace outsize::sim {
namespace {

constexpr std::size_t kPlacesAStep = 128;
constexpr std::size_t kLeastPlacesAStep = 8;
constexpr std::size_t kVisits = 100'000'000;  // actions looked at, about, in all windows
constexpr std::size_t kStepsAWindow = 2;

Nanos time_of(Bytes bytes, Bytes rate) {
  return static_cast<Nanos>(static_cast<__int128>(bytes) * 1'000'000'000 / std::max<Bytes>(rate, 1));
}

// What a window has moved so far. Objects are as the window finds them while its actions pass in order.
class Window {
 public:
  Window(const std::vector<Action>& actions, ObjectId objects) : actions_(actions), objects_(objects) {
    for (std::size_t at = 0; at < actions.size(); ++at) {
      const Action& action = actions[at];
      for (const ObjectRef& ref : action.operands) objects_[ref.object].last_use = at;
      if (action.kind == Action::Kind::kRawAccess) objects_[action.object].last_use = at;
      if (action.kind == Action::Kind::kBirth || action.kind == Action::Kind::kAdopt) {
        objects_[action.object].born = at;
        objects_[action.object].bytes = action.bytes;
      }
    }
  }

  void begin(std::size_t at) {
    begin_ = at;
    ++name_;
    used_ = changed_ = 0;
  }
  void pass(std::size_t at) {
    const Action& action = actions_[at];
    switch (action.kind) {
      case Action::Kind::kOpBegin:
        for (const ObjectRef& ref : action.operands) use(ref.object, ref.access == Access::kWrite, at);
        break;
      case Action::Kind::kRawAccess: use(action.object, action.flag, at); break;
      case Action::Kind::kBirth: change(objects_[action.object], at); break;
      default: break;
    }
  }
  // Of what lived when it began.
  Bytes used() const { return used_; }
  // And is used later.
  Bytes changed() const { return changed_; }

 private:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  struct Object {
    Bytes bytes = 0;
    std::size_t born = kNever, last_use = 0;
    std::uint32_t used_in = 0, changed_in = 0;  // windows, by name
  };

  void use(ObjectId id, bool write, std::size_t at) {
    Object& object = objects_[id];
    if (object.born < begin_ && object.used_in != name_) {
      object.used_in = name_;
      used_ += object.bytes;
    }
    if (write) change(object, at);
    if (at >= object.last_use) forget(object);
  }
  void change(Object& object, std::size_t at) {
    if (object.changed_in == name_ || at >= object.last_use) return;
    object.changed_in = name_;
    changed_ += object.bytes;
  }
  void forget(Object& object) {
    if (object.changed_in != name_) return;
    object.changed_in = 0;
    changed_ -= object.bytes;
  }

  const std::vector<Action>& actions_;
  std::vector<Object> objects_;
  std::size_t begin_ = 0;
  std::uint32_t name_ = 0;
  Bytes used_ = 0, changed_ = 0;
};

// Where windows may begin and end: action `at` is the first of the next.
struct Place {
  std::size_t at;
  std::size_t step;
};

std::vector<Place> places_of(const std::vector<Action>& actions, std::size_t after_step) {
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at < actions.size(); ++at) {
    if (actions[at].kind == Action::Kind::kStep) ends.push_back(at + 1);
  }
  std::vector<Place> places;
  if (ends.size() <= after_step) return places;
  const std::size_t fit = kVisits / (kStepsAWindow * actions.size() + 1);
  const std::size_t a_step = std::clamp(fit, kLeastPlacesAStep, kPlacesAStep);
  for (std::size_t step = after_step; step < ends.size(); ++step) {
    const std::size_t from = ends[step - 1], length = ends[step] - from;
    for (std::size_t k = 0; k < std::min(a_step, length); ++k) {
      places.push_back({from + length * k / std::min(a_step, length), step});
    }
  }
  places.push_back({ends.back(), ends.size()});
  return places;
}

std::vector<Nanos> compute_until(const std::vector<Action>& actions, const std::vector<Place>& places) {
  std::vector<Nanos> until(places.size(), 0);
  for (std::size_t place = 1; place < places.size(); ++place) {
    until[place] = until[place - 1];
    for (std::size_t at = places[place - 1].at; at < places[place].at; ++at) {
      if (actions[at].kind == Action::Kind::kWork) until[place] += actions[at].duration;
    }
  }
  return until;
}

}  // namespace

// A linear program in the time in which both ways are busy and that in which one is alone: the least of its corners. No
// time both; as long as both have something to do, and then one alone; or always both, which is the least only where a way is
// no slower beside the other.
Nanos least_transfer_time(Bytes read, Bytes written, const LinkOptions& link) {
  if (read <= 0 && written <= 0) return 0;
  const Bytes reads = mixed_rate(link, false), writes = mixed_rate(link, true);
  const Nanos apart = time_of(read, link.read_rate) + time_of(written, link.write_rate);
  const Nanos together = std::min(time_of(read, reads), time_of(written, writes));
  // A nanosecond's bytes more than it is: rounded for the bound, not against it.
  const auto left = [&](Bytes bytes, Bytes rate) {
    return bytes - std::min(bytes, static_cast<Bytes>(static_cast<__int128>(rate) * (together + 1) / 1'000'000'000));
  };
  const Nanos then_one = together + time_of(left(read, reads), link.read_rate) +
                         time_of(left(written, writes), link.write_rate);
  return std::min({apart, then_one, std::max(time_of(read, reads), time_of(written, writes))});
}

WindowLimit window_limit(const Program& program, Bytes budget, const LinkOptions& link, std::size_t after_step,
                         const std::function<bool()>& cancelled) {
  const std::vector<Action>& actions = program.threads.at(0);
  const std::vector<Place> places = places_of(actions, std::max<std::size_t>(after_step, 1));
  if (places.empty()) return {};
  const std::vector<Nanos> compute = compute_until(actions, places);
  std::vector<Nanos> least(places.size(), 0);
  Window window(actions, program.objects);
  for (std::size_t from = 0; from + 1 < places.size(); ++from) {
    if (cancelled && cancelled()) return {};
    window.begin(places[from].at);
    for (std::size_t to = from + 1; to < places.size() && places[to - 1].step < places[from].step + kStepsAWindow; ++to) {
      for (std::size_t at = places[to - 1].at; at < places[to].at; ++at) window.pass(at);
      const Nanos moving = least_transfer_time(std::max<Bytes>(window.used() - budget, 0),
                                               std::max<Bytes>(window.changed() - budget, 0), link);
      least[to] = std::max(least[to], least[from] + std::max(compute[to] - compute[from], moving));
    }
  }
  return {least.back(), compute.back(), places.back().step - places.front().step};
}

}  // namespace outsize::sim
