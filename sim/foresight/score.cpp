#include "sim/foresight/score.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "sim/foresight/stage.h"

namespace outsize::sim::foresight {
namespace {

Nanos clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Sets of roles, one after the other.
class Roles {
 public:
  explicit Roles(const Path& path) : path_(path), since_(path.lasting.size(), 0) {}
  void clear() { ++now_; }
  // Tells of each role that such ops work on and that is not in the set yet.
  template <class Tell>
  void add(std::span<const Place> places, const Tell& tell) {
    for (const Place place : places) {
      if (place >= path_.roles.size()) continue;
      for (const RoleNumber role : path_.roles[place]) {
        if (std::exchange(since_[role], now_) != now_) tell(role);
      }
    }
  }
  bool has(RoleNumber role) const { return since_[role] == now_; }

 private:
  const Path& path_;
  std::vector<std::uint64_t> since_;
  std::uint64_t now_ = 1;
};

std::span<const Place> ops_of(const Path& path, const Window& window) {
  return std::span(path.ops).subspan(window.first, window.end - window.first);
}

class Judge final : public Watcher {
 public:
  Judge(const Path& path, std::size_t from_step, Forecaster& forecaster, const Dependent& dependent)
      : path_(path), from_step_(from_step), forecaster_(forecaster), dependent_(dependent), used_(path),
        foreseen_(path) {}

  void op(const OpEvent& op) override {
    const Place place = path_.ops[at_];
    ask_next(place);
    if (window_ < path_.windows.size() && path_.windows[window_].first == at_) ask_path(path_.windows[window_++]);
    timed([&] { forecaster_.op(op, place); });
    last_ = place;
    ++at_;
    ++score_.ops;
  }
  void birth(ExtentId id, Bytes bytes) override {
    timed([&] { forecaster_.birth(id, bytes); });
  }
  void death(ExtentId id, Bytes bytes) override {
    timed([&] { forecaster_.death(id, bytes); });
  }
  void sample(std::span<const std::int64_t> sample) override {
    timed([&] { forecaster_.sample(sample); });
  }
  void step(Nanos now) override {
    ask_next(kStepEnd);
    longest_ = std::max(longest_, at_ - path_.step_begin(step_));
    timed([&] { forecaster_.step(now); });
    last_ = kStepEnd;
    ++step_;
  }
  Score score() const {
    Score score = score_;
    score.recognized = forecaster_.recognized();
    return score;
  }

 private:
  template <class Work>
  void timed(const Work& work) {
    const Nanos began = clock_now();
    work();
    score_.learning += clock_now() - began;
  }

  void ask_next(Place truth) {
    if (step_ < from_step_ || last_ == kStepEnd || !path_.is_choice(last_)) return;
    row_.clear();
    forecaster_.foresee(1, row_);
    const bool right = !row_.empty() && row_[0] == truth;
    ++score_.choices;
    score_.right += right;
    ++here().choices;
    here().right += right;
  }

  // What goes round in circles is stopped at twice as many ops as any step has had.
  void ask_path(const Window& window) {
    if (step_ < from_step_) return;
    constexpr std::size_t kPathMin = 4096;
    row_.clear();
    const Nanos began = clock_now();
    forecaster_.foresee(std::max(kPathMin, 2 * longest_), row_);
    score_.foreseeing += clock_now() - began;
    ++score_.windows;
    const std::span<const Place> truth = ops_of(path_, window);
    const std::size_t full = truth.size() + (window.ends_step ? 1 : 0);
    if (!window.ends_step && row_.size() > full) row_.resize(full);
    const bool same = row_.size() == full && std::equal(truth.begin(), truth.end(), row_.begin());
    score_.whole += same && (!window.ends_step || row_.back() == kStepEnd);
    compare(window, truth);
  }

  void compare(const Window& window, std::span<const Place> truth) {
    const std::vector<bool>& dependent = dependent_.roles[window.ends_step];
    const auto counts = [&](RoleNumber role) { return dependent[role] && window.there[role]; };
    StepScore found;
    used_.clear();
    used_.add(truth, [&](RoleNumber role) {
      if (counts(role)) found.used += path_.lasting[role].bytes;
    });
    foreseen_.clear();
    foreseen_.add(row_, [&](RoleNumber role) {
      if (!counts(role)) return;
      found.foreseen += path_.lasting[role].bytes;
      if (used_.has(role)) found.both += path_.lasting[role].bytes;
    });
    for (const auto sum : {&StepScore::used, &StepScore::foreseen, &StepScore::both}) here().*sum += found.*sum;
    score_.used += found.used;
    score_.foreseen += found.foreseen;
    score_.both += found.both;
  }

  StepScore& here() {
    score_.steps.resize(std::max(score_.steps.size(), step_ - from_step_ + 1));
    return score_.steps[step_ - from_step_];
  }

  const Path& path_;
  std::size_t from_step_;
  Forecaster& forecaster_;
  const Dependent& dependent_;
  Roles used_, foreseen_;
  Score score_;
  std::size_t at_ = 0, step_ = 0, window_ = 0, longest_ = 0;
  Place last_ = kStepEnd;
  std::vector<Place> row_;
};

}  // namespace

Dependent path_dependent(const Path& path) {
  struct Count {
    std::uint32_t there = 0, used = 0;
  };
  std::vector<Count> counts[2];
  for (auto& each : counts) each.resize(path.lasting.size());
  Roles used(path);
  for (const Window& window : path.windows) {
    std::vector<Count>& of = counts[window.ends_step];
    for (RoleNumber role = 0; role < path.lasting.size(); ++role) of[role].there += window.there[role];
    used.clear();
    used.add(ops_of(path, window), [&](RoleNumber role) { of[role].used += window.there[role]; });
  }
  Dependent dependent;
  for (RoleNumber role = 0; role < path.lasting.size(); ++role) {
    bool any = false;
    for (int kind = 0; kind < 2; ++kind) {
      const Count& count = counts[kind][role];
      dependent.roles[kind].push_back(count.used > 0 && count.used < count.there);
      any = any || dependent.roles[kind].back();
    }
    if (!any) continue;
    ++dependent.count;
    dependent.bytes += path.lasting[role].bytes;
  }
  return dependent;
}

Result<Score> judge(std::string_view name, const Program& program, const Path& path, std::size_t from_step,
                    const std::function<bool()>& cancelled, std::string_view model) {
  Stage stage(program);
  Result<std::unique_ptr<Forecaster>> forecaster = make_forecaster(name, path, stage.table(), model);
  if (!forecaster) return forecaster.error();
  const Dependent dependent = path_dependent(path);
  Judge watcher(path, from_step, **forecaster, dependent);
  stage.play(watcher, cancelled);
  return watcher.score();
}

}  // namespace outsize::sim::foresight
