#include "sim/belady.h"

#include <limits>
#include <set>
#include <utility>

namespace outsize::sim {
namespace {

constexpr std::size_t kAskEvery = 1024;  // actions between two looks at `cancelled`

class Belady {
 public:
  Belady(const std::vector<Action>& actions, ObjectId objects, Bytes budget)
      : actions_(actions), objects_(objects), free_(budget) {
    for (std::size_t at = 0; at < actions.size(); ++at) {
      for (const ObjectRef& ref : actions[at].operands) objects_[ref.object].uses.push_back(at);
      if (actions[at].kind == Action::Kind::kRawAccess) objects_[actions[at].object].uses.push_back(at);
    }
  }

  BeladyResult run(const std::function<bool()>& cancelled) {
    for (at_ = 0; at_ < actions_.size(); ++at_) {
      if (at_ % kAskEvery == 0 && cancelled && cancelled()) break;
      step(actions_[at_]);
    }
    return std::move(result_);
  }

 private:
  struct Object {
    Bytes bytes = 0;
    bool resident = false, changed = true;
    std::uint32_t held = 0;
    std::vector<std::size_t> uses;
    std::size_t passed = 0;  // uses behind us
  };
  // What may leave, by its next use.
  using Place = std::pair<std::size_t, ObjectId>;

  void step(const Action& action) {
    switch (action.kind) {
      case Action::Kind::kOpBegin: op_begin(action); break;
      case Action::Kind::kOpEnd: op_end(); break;
      case Action::Kind::kBirth: birth(action); break;
      case Action::Kind::kAdopt: adopt(action); break;
      case Action::Kind::kDeath: death(action.object); break;
      case Action::Kind::kRawAccess: use(action.object, action.flag); break;
      case Action::Kind::kShare:
        if (objects_[action.object].resident) objects_[action.object].changed = true;
        break;
      case Action::Kind::kStep:
        result_.read_at_step.push_back(result_.read);
        result_.written_at_step.push_back(result_.written);
        break;
      default: break;
    }
  }

  // An inner op suspends its caller's: they may leave, as they may live.
  void op_begin(const Action& action) {
    if (!frames_.empty()) let_go(frames_.back());
    frames_.emplace_back();
    for (const ObjectRef& ref : action.operands) hold(ref.object);
    for (const ObjectRef& ref : action.operands) use(ref.object, ref.access == Access::kWrite);
  }
  void op_end() {
    if (frames_.empty()) return;
    let_go(frames_.back());
    frames_.pop_back();
    if (frames_.empty()) return;
    for (ObjectId id : frames_.back()) hold_again(id);
  }
  void hold(ObjectId id) {
    frames_.back().push_back(id);
    hold_again(id);
  }
  void hold_again(ObjectId id) {
    leaves_.erase(place(id));
    ++objects_[id].held;
  }
  void let_go(const std::vector<ObjectId>& frame) {
    for (ObjectId id : frame) {
      Object& o = objects_[id];
      if (o.held > 0) --o.held;
      may_leave(id);
    }
  }
  Place place(ObjectId id) const {
    const Object& o = objects_[id];
    return {o.passed < o.uses.size() ? o.uses[o.passed] : std::numeric_limits<std::size_t>::max(), id};
  }
  void may_leave(ObjectId id) {
    if (objects_[id].resident && objects_[id].held == 0) leaves_.insert(place(id));
  }

  void use(ObjectId id, bool write) {
    Object& o = objects_[id];
    leaves_.erase(place(id));
    while (o.passed < o.uses.size() && o.uses[o.passed] <= at_) ++o.passed;
    if (o.bytes == 0) return;  // dead, or never born
    if (!o.resident) {
      ++o.held;
      make_room(o.bytes);
      --o.held;
      free_ -= o.bytes;
      o.resident = true;
      result_.read += o.bytes;
      o.changed = false;
    }
    o.changed = o.changed || write;
    may_leave(id);
  }
  void birth(const Action& action) {
    Object& o = objects_[action.object];
    make_room(action.bytes);
    o.bytes = action.bytes;
    o.resident = o.changed = true;
    free_ -= o.bytes;
    if (frames_.empty()) may_leave(action.object);
    else hold(action.object);
  }
  void adopt(const Action& action) {
    if (!action.flag) return birth(action);
    objects_[action.object].bytes = action.bytes;  // it lies below, as it was
    objects_[action.object].changed = false;
  }
  void death(ObjectId id) {
    Object& o = objects_[id];
    leaves_.erase(place(id));
    if (o.resident) free_ += o.bytes;
    o.resident = false;
    o.held = 0;
    o.bytes = 0;
  }
  void make_room(Bytes need) {
    while (free_ < need) {
      if (leaves_.empty()) {
        result_.fits = false;
        return;
      }
      const ObjectId farthest = leaves_.rbegin()->second;
      leaves_.erase(std::prev(leaves_.end()));
      Object& o = objects_[farthest];
      if (o.changed) result_.written += o.bytes;
      o.changed = o.resident = false;
      free_ += o.bytes;
    }
  }

  const std::vector<Action>& actions_;
  std::vector<Object> objects_;
  std::vector<std::vector<ObjectId>> frames_;  // what each op that runs holds
  std::set<Place> leaves_;
  Bytes free_;
  std::size_t at_ = 0;
  BeladyResult result_;
};

}  // namespace

BeladyResult belady(const Program& program, Bytes budget, const std::function<bool()>& cancelled) {
  return Belady(program.threads.at(0), program.objects, budget).run(cancelled);
}

}  // namespace outsize::sim
