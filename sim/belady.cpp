#include "sim/belady.h"

#include <algorithm>

namespace outsize::sim {
namespace {

class Belady {
 public:
  Belady(const std::vector<Action>& actions, ObjectId objects, Bytes budget)
      : actions_(actions), objects_(objects), free_(budget) {
    for (std::size_t at = 0; at < actions.size(); ++at) {
      for (const ObjectRef& ref : actions[at].operands) objects_[ref.object].uses.push_back(at);
    }
  }

  BeladyResult run() {
    for (at_ = 0; at_ < actions_.size(); ++at_) {
      const Action& action = actions_[at_];
      switch (action.kind) {
        case Action::Kind::kOpBegin: op(action); break;
        case Action::Kind::kOpEnd:
          for (ObjectId id : held_) objects_[id].held = false;
          held_.clear();
          break;
        case Action::Kind::kBirth: birth(action); break;
        case Action::Kind::kDeath: death(objects_[action.object]); break;
        case Action::Kind::kStep:
          result_.read_at_step.push_back(result_.read);
          result_.written_at_step.push_back(result_.written);
          break;
        default: break;
      }
    }
    return result_;
  }

 private:
  struct Object {
    Bytes bytes = 0;
    bool resident = false, changed = true, held = false;
    std::vector<std::size_t> uses;
    std::size_t passed = 0;  // uses behind us
  };

  void hold(ObjectId id) {
    if (!objects_[id].held) held_.push_back(id);
    objects_[id].held = true;
  }
  void op(const Action& action) {
    for (const ObjectRef& ref : action.operands) hold(ref.object);
    for (const ObjectRef& ref : action.operands) {
      Object& o = objects_[ref.object];
      while (o.passed < o.uses.size() && o.uses[o.passed] <= at_) ++o.passed;
      if (!o.resident) {
        make_room(o.bytes);
        free_ -= o.bytes;
        o.resident = true;
        result_.read += o.bytes;
        o.changed = false;
      }
      o.changed = o.changed || ref.access == Access::kWrite;
    }
  }
  void birth(const Action& action) {
    Object& o = objects_[action.object];
    make_room(action.bytes);
    o.bytes = action.bytes;
    o.resident = o.changed = true;
    free_ -= o.bytes;
    hold(action.object);
  }
  void death(Object& o) {
    if (o.resident) free_ += o.bytes;
    o.resident = o.held = false;
    o.bytes = 0;
  }
  std::size_t next_use(const Object& o) const {
    return o.passed < o.uses.size() ? o.uses[o.passed] : actions_.size();
  }
  void make_room(Bytes need) {
    while (free_ < need) {
      Object* farthest = nullptr;
      for (Object& o : objects_) {
        if (!o.resident || o.held) continue;
        if (farthest == nullptr || next_use(o) > next_use(*farthest)) farthest = &o;
      }
      if (farthest == nullptr) {
        result_.fits = false;
        return;
      }
      if (farthest->changed) result_.written += farthest->bytes;
      farthest->changed = farthest->resident = false;
      free_ += farthest->bytes;
    }
  }

  const std::vector<Action>& actions_;
  std::vector<Object> objects_;
  std::vector<ObjectId> held_;
  Bytes free_;
  std::size_t at_ = 0;
  BeladyResult result_;
};

}  // namespace

BeladyResult belady(const Program& program, Bytes budget) {
  return Belady(program.threads.at(0), program.objects, budget).run();
}

}  // namespace outsize::sim
