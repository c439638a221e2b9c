#include "sim/without_invalidation.h"

#include <map>

namespace outsize::sim {
namespace {

class Rewriter {
 public:
  explicit Rewriter(ObjectId objects) : now_(objects), bytes_(objects, 0) {
    for (ObjectId object = 0; object < objects; ++object) now_[object] = object;
  }

  std::vector<Action> thread(const std::vector<Action>& actions) {
    cached_.clear();
    out_.clear();
    std::vector<std::size_t> open;  // ops, as places in out_
    for (Action action : actions) {
      for (ObjectRef& ref : action.operands) ref.object = now_[ref.object];
      if (action.kind == Action::Kind::kOpBegin) open.push_back(out_.size());
      if (action.kind == Action::Kind::kOpEnd) open.pop_back();
      if (action.kind == Action::Kind::kBirth && birth(action, open)) continue;
      if (action.kind == Action::Kind::kDeath) {
        cached_[bytes_[action.object]].push_back(now_[action.object]);
        continue;
      }
      action.object = now_[action.object];
      out_.push_back(std::move(action));
    }
    return std::move(out_);
  }

 private:
  // True where memory that was kept serves it.
  bool birth(const Action& action, const std::vector<std::size_t>& open) {
    bytes_[action.object] = action.bytes;
    auto kept = cached_.find(action.bytes);
    if (open.empty() || kept == cached_.end() || kept->second.empty()) return false;
    now_[action.object] = kept->second.back();
    kept->second.pop_back();
    out_[open.back()].operands.push_back({now_[action.object], Access::kWrite});
    return true;
  }

  std::vector<ObjectId> now_;  // by object: the one whose memory it has
  std::vector<Bytes> bytes_;   // by object
  std::map<Bytes, std::vector<ObjectId>> cached_;
  std::vector<Action> out_;
};

}  // namespace

Program without_invalidation(const Program& program) {
  Rewriter rewriter(program.objects);
  Program out;
  out.objects = program.objects;
  for (const auto& actions : program.threads) out.threads.push_back(rewriter.thread(actions));
  return out;
}

}  // namespace outsize::sim
