// What is there of each thing (network.h) while a step goes on, in the order in which it came: of what the step bore,
// those that are alive; of what lasts, the times forward used it and backward has not come back yet. Beside it, what
// the step has used at all.
//
// Backward returns to what forward made in reverse, so that the latest is the one that is meant, unless it is known
// what the op worked on whose gradient is made (step_uses.h). A plan goes on from where the step stands without
// changing it: in a *draft*, which sees what is there and keeps its own changes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/large_table.h"
#include "predictors/pilot/network.h"

namespace outsize::pilot {

struct Instance {
  std::uint64_t since = 0;           // op at which it came
  std::uint32_t object = kNobody;    // an extent; in a draft of its own births, whatever the plan calls them
  bool planned = false;              // it is such a birth
  bool forward = false;              // made, or used, by forward
};

class Instances {
 public:
  void push(ThingId thing, const Instance& instance) {
    List& list = at(thing);
    // Where no step ends and nothing comes back, the oldest are forgotten.
    if (list.size() >= kListMax) list.erase(list.begin(), list.begin() + kListMax / 2);
    list.push_back(instance);
  }
  // The latest; null where there is none.
  const Instance* top(ThingId thing) const {
    const List* const list = look(thing);
    return list == nullptr || list->empty() ? nullptr : &list->back();
  }
  void pop(ThingId thing) {
    List& list = at(thing);
    if (!list.empty()) list.pop_back();
  }
  void remove(ThingId thing, std::uint32_t object) {
    List& list = at(thing);
    for (std::size_t i = list.size(); i-- > 0;) {
      if (list[i].object != object || list[i].planned) continue;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
  void touch(ThingId thing) { mark(row(thing).touched); }
  bool touched(ThingId thing) const { return thing < rows_.size() && marked(rows_[thing].touched); }
  void run(NodeId node) {
    if (node >= ran_.size()) ran_.resize(node + 1 + node / 2);
    Times& t = ran_[node];
    const std::uint32_t times = this->times(node);
    mark(t.mark);
    (drafting_ ? t.draft : t.live) = times + 1;
  }
  std::uint32_t times(NodeId node) const {
    if (node >= ran_.size()) return 0;
    const Times& t = ran_[node];
    if (drafting_ && t.mark.draft == draft_) return t.draft;
    return !(drafting_ && hidden_) && t.mark.live == live_ ? t.live : 0;
  }
  bool ran(NodeId node) const { return times(node) > 0; }
  // Another step: nothing is there any more.
  void clear() {
    if (drafting_) {
      hidden_ = true;
      ++draft_;
      return;
    }
    ++live_;
  }

  // From here to end_draft all calls are of the draft.
  void begin_draft() {
    drafting_ = true;
    hidden_ = false;
    ++draft_;
  }
  void end_draft() { drafting_ = false; }

 private:
  using List = std::vector<Instance>;
  static constexpr std::size_t kListMax = 4096;
  struct Mark {
    std::uint64_t live = 0, draft = 0;
  };
  struct Times {
    Mark mark;
    std::uint32_t live = 0, draft = 0;
  };
  void mark(Mark& m) const { (drafting_ ? m.draft : m.live) = drafting_ ? draft_ : live_; }
  bool marked(const Mark& m) const {
    return (drafting_ && m.draft == draft_) || (!(drafting_ && hidden_) && m.live == live_);
  }
  struct Row {
    std::uint64_t live = 0, draft = 0;  // the lists are of these; else empty, or not begun
    Mark touched;
    List now, drafted;
  };
  Row& row(ThingId thing) {
    if (thing >= rows_.size()) rows_.resize(thing + 1 + thing / 2);
    return rows_[thing];
  }
  List& at(ThingId thing) {
    Row& r = row(thing);
    if (r.live != live_) {
      r.live = live_;
      r.now.clear();
    }
    if (!drafting_) return r.now;
    if (r.draft != draft_) {
      r.draft = draft_;
      if (hidden_) r.drafted.clear();
      else r.drafted = r.now;
    }
    return r.drafted;
  }
  const List* look(ThingId thing) const {
    if (thing >= rows_.size()) return nullptr;
    const Row& r = rows_[thing];
    if (drafting_ && r.draft == draft_) return &r.drafted;
    if (drafting_ && hidden_) return nullptr;
    return r.live == live_ ? &r.now : nullptr;
  }

  LargeTable<Row> rows_;    // by thing
  std::vector<Times> ran_;  // by node
  std::uint64_t live_ = 1, draft_ = 0;
  bool drafting_ = false, hidden_ = false;
};

// What is meant by `thing`, and which of those it may be: null where nothing is there.
struct Meant {
  const Instance* instance = nullptr;
  ThingId thing = kNobody;
};
inline Meant meant(const Network& network, const Instances& instances, ThingId thing) {
  const std::vector<ThingId>& among = network.thing(thing).among;
  if (among.empty()) return {instances.top(thing), thing};
  Meant latest;
  for (const ThingId one : among) {
    const Instance* const top = instances.top(one);
    if (top != nullptr && (latest.instance == nullptr || top->since > latest.instance->since)) latest = {top, one};
  }
  return latest;
}

}  // namespace outsize::pilot
