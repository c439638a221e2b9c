#include "sim/foresight/stage.h"

#include <algorithm>
#include <utility>

namespace outsize::sim::foresight {

bool Stage::play(Watcher& watcher, const std::function<bool()>& cancelled) {
  constexpr std::size_t kAskEvery = 1024;
  const std::vector<Action>& actions = program_.threads.at(0);
  const auto last = std::find_if(actions.rbegin(), actions.rend(),
                                 [](const Action& action) { return action.kind == Action::Kind::kStep; });
  const auto count = static_cast<std::size_t>(actions.rend() - last);
  for (std::size_t i = 0; i < count; ++i) {
    if (i % kAskEvery == 0 && cancelled && cancelled()) return false;
    perform(actions[i], watcher);
  }
  return true;
}

void Stage::perform(const Action& action, Watcher& watcher) {
  switch (action.kind) {
    case Action::Kind::kOpBegin:
    case Action::Kind::kPin: op(action, watcher); break;
    case Action::Kind::kBirth: {
      const ExtentId id = enter(action);
      table_[id].shared = action.flag;
      watcher.birth(id, action.bytes);
      break;
    }
    case Action::Kind::kAdopt: enter(action); break;  // it was there before: of its birth nobody is told
    case Action::Kind::kDeath: leave(action, watcher); break;
    case Action::Kind::kWork: now_ += action.duration; break;
    case Action::Kind::kStep: watcher.step(now_); break;
    case Action::Kind::kSample: watcher.sample(action.sample); break;
    default: break;  // moves no op, and nothing is born or dies
  }
}

// Operands once each, and written where they are both read and written. A pin is an op of one.
void Stage::op(const Action& action, Watcher& watcher) {
  operands_.clear();
  accesses_.clear();
  const auto add = [this](ObjectId object, Access access) {
    const ExtentId id = extents_[object];
    if (id == kNoExtent) return;
    const auto at = std::find(operands_.begin(), operands_.end(), id);
    if (at == operands_.end()) {
      operands_.push_back(id);
      accesses_.push_back(access);
    } else if (access == Access::kWrite) {
      accesses_[static_cast<std::size_t>(at - operands_.begin())] = access;
    }
  };
  if (action.kind == Action::Kind::kPin) add(action.object, Access::kWrite);
  for (const ObjectRef& ref : action.operands) add(ref.object, ref.access);
  watcher.op({action.site, operands_, action.in_backward, now_, accesses_, action.graph});
}

ExtentId Stage::enter(const Action& action) {
  ExtentId id = used_;
  if (free_.empty()) {
    table_.ensure(used_++);
  } else {
    id = free_.back();
    free_.pop_back();
  }
  table_[id] = Extent{};
  table_[id].bytes = action.bytes;
  return extents_[action.object] = id;
}

void Stage::leave(const Action& action, Watcher& watcher) {
  const ExtentId id = std::exchange(extents_[action.object], kNoExtent);
  if (id == kNoExtent) return;
  watcher.death(id, table_[id].bytes);
  free_.push_back(id);
}

}  // namespace outsize::sim::foresight
