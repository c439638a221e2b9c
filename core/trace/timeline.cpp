#include "core/trace/timeline.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>

namespace outsize {
namespace {

Nanos end_of(const Timeline::Work& event) { return event.end; }
Nanos end_of(const Timeline::Move& event) { return event.end; }
Nanos end_of(const Timeline::Stall& event) { return event.end; }
Nanos end_of(const Timeline::Level& event) { return event.time; }

}  // namespace

template <class Event>
void Timeline::keep(std::deque<Event>& events, const Event& event) {
  latest_ = std::max(latest_, end_of(event));
  if (events.size() >= options_.events) {
    begin_ = std::max(begin_, end_of(events.front()));
    events.pop_front();
    cut_ = true;
  }
  events.push_back(event);
}

template <class Event>
void Timeline::forget_before(std::deque<Event>& events, Nanos time) {
  while (!events.empty() && end_of(events.front()) <= time) events.pop_front();
}

void Timeline::work(const Work& done) {
  totals_.work += done.end - done.begin;
  if (!past(done.begin)) keep(works_, done);
}

void Timeline::asked(ExtentId extent, bool write, Urgency urgency, Bytes bytes, Nanos now) {
  Move& move = under_way_.emplace_back();
  move.extent = extent;
  move.write = write;
  move.ahead = urgency == Urgency::kPrefetch || urgency == Urgency::kWriteAhead;
  move.bytes = bytes;
  move.asked = now;
}

// Whether one of the reads that are under way brings what it waits for.
bool Timeline::reads_for(const Waiting& waiting) const {
  return std::any_of(under_way_.begin(), under_way_.end(), [&](const Move& move) {
    return !move.write && std::count(waiting.extents.begin(), waiting.extents.end(), move.extent) > 0;
  });
}

void Timeline::ended(ExtentId extent, bool write, End outcome, Nanos began, Nanos now) {
  const auto found = std::find_if(under_way_.begin(), under_way_.end(), [&](const Move& move) {
    return move.extent == extent && move.write == write;
  });
  if (found == under_way_.end()) return;  // it was asked for before we were
  Move move = *found;
  move.outcome = outcome;
  move.begin = std::max(began, move.asked);
  move.end = now;
  if (outcome == End::kDone) (write ? totals_.written : totals_.read) += move.bytes;
  for (Waiting& waiting : waiting_) {
    const bool for_it = !write && std::count(waiting.extents.begin(), waiting.extents.end(), extent) > 0;
    if (for_it) {
      ends(waiting, Cause::kRead, move);
    } else if (write && !reads_for(waiting)) {
      ends(waiting, Cause::kWrite, move);
    }
  }
  under_way_.erase(found);
  if (!past(move.begin)) keep(moves_, move);
}

void Timeline::waits(ThreadId thread, trace::WaitCause why, std::span<const ExtentId> extents, Bytes needed,
                     SiteId site, Nanos now) {
  Waiting& waiting = waiting_.emplace_back();
  waiting.thread = thread;
  waiting.why = why;
  waiting.site = site;
  waiting.needed = needed;
  waiting.since = waiting.piece = now;
  waiting.extents.assign(extents.begin(), extents.end());
}

void Timeline::goes_on(ThreadId thread, Nanos now) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Waiting& waiting) { return waiting.thread == thread; });
  if (found == waiting_.end()) return;
  settle(*found, now);
  found->cause = Cause::kRoom;
  found->by = {};
  piece(*found, now);
  waiting_.erase(found);
}

void Timeline::ends(Waiting& waiting, Cause cause, const Move& by) {
  settle(waiting, waiting.by.end);
  waiting.ending = true;
  waiting.cause = cause;
  waiting.by = by;
}

void Timeline::settle(Waiting& waiting, Nanos now) {
  if (!waiting.ending) return;
  waiting.ending = false;
  piece(waiting, now);
  waiting.piece = std::max(waiting.piece, now);
}

void Timeline::piece(const Waiting& waiting, Nanos now) {
  if (now <= waiting.piece) return;
  Stall stall;
  stall.thread = waiting.thread;
  stall.why = waiting.why;
  stall.cause = waiting.cause;
  stall.site = waiting.site;
  stall.needed = waiting.needed;
  stall.since = waiting.since;
  stall.begin = waiting.piece;
  stall.end = now;
  stall.by = waiting.by;
  totals_.stall[static_cast<std::size_t>(stall.cause)] += stall.end - stall.begin;
  ++totals_.stalls[static_cast<std::size_t>(stall.cause)];
  if (!past(stall.begin)) keep(stalls_, stall);
}

void Timeline::resident(Bytes bytes, Nanos now) {
  for (Waiting& waiting : waiting_) settle(waiting, now);
  if (past(now) || (!levels_.empty() && levels_.back().resident == bytes)) return;
  if (!levels_.empty() && levels_.back().time == now) {
    // What one moment did: the most that it reached, and where it ended, are two rows at most.
    if (levels_.size() > 1 && levels_[levels_.size() - 2].time == now) {
      Level& most = levels_[levels_.size() - 2];
      most.resident = std::max(most.resident, levels_.back().resident);
      levels_.back().resident = bytes;
      return;
    }
  }
  keep(levels_, Level{now, bytes});
}

void Timeline::step(Nanos now) {
  if (steps_ >= options_.last_step) return;
  ++steps_;
  step_ends_.push_back(now);
  if (steps_ <= options_.steps) return;
  while (static_cast<std::int64_t>(step_ends_.size()) > options_.steps + 1) step_ends_.pop_front();
  if (step_ends_.front() >= begin_) cut_ = false;  // what was too much is past
  begin_ = std::max(begin_, step_ends_.front());
  forget_before(works_, begin_);
  forget_before(moves_, begin_);
  forget_before(stalls_, begin_);
  while (levels_.size() > 1 && levels_[1].time <= begin_) levels_.pop_front();  // it lasts until the next
}

namespace {

// Rows of integers as JSON.
class Rows {
 public:
  explicit Rows(std::string& out) : out_(out) {}
  void key(std::string_view name) {
    comma();
    out_.append("\"").append(name).append("\":");
    first_ = true;
  }
  void open(char bracket) {
    comma();
    out_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    out_ += bracket;
    first_ = false;
  }
  template <class... Numbers>
  void add(Numbers... numbers) {
    (number(numbers), ...);
  }

 private:
  void comma() {
    if (!first_) out_ += ',';
    first_ = false;
  }
  template <class Number>
  void number(Number value) {
    comma();
    char digits[24];
    out_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
  std::string& out_;
  bool first_ = true;
};

// The place of a site in the list of sites, which is 0 for none.
class Sites {
 public:
  std::size_t place(SiteId site) {
    const auto [at, fresh] = places_.try_emplace(site, list_.size());
    if (fresh) list_.push_back(site);
    return at->second;
  }
  const std::vector<SiteId>& list() const { return list_; }

 private:
  std::unordered_map<SiteId, std::size_t> places_;
  std::vector<SiteId> list_;
};

}  // namespace

std::string Timeline::json() const {
  std::string out;
  Rows rows(out);
  Sites sites;
  sites.place(0);
  const auto list = [&](const char* name, const auto& events, auto&& add) {
    rows.key(name);
    rows.open('[');
    for (const auto& event : events) add(event);
    rows.close(']');
  };
  rows.open('{');
  rows.key("begin"), rows.add(begin_);
  rows.key("end"), rows.add(end());
  rows.key("last_step"), rows.add(steps_);
  rows.key("steps"), rows.add(std::min(steps_, options_.steps));
  rows.key("cut"), rows.add(static_cast<int>(cut_));
  list("step_ends", step_ends_, [&](Nanos time) { rows.add(time); });
  list("work", works_, [&](const Work& w) { rows.add(w.thread, w.begin, w.end, sites.place(w.site)); });
  list("moves", moves_, [&](const Move& m) {
    rows.add(static_cast<int>(m.write), m.extent, m.bytes, m.asked, m.begin, m.end, static_cast<int>(m.ahead),
             static_cast<int>(m.outcome));
  });
  list("stalls", stalls_, [&](const Stall& s) {
    const bool none = s.cause == Cause::kRoom;
    rows.add(s.thread, static_cast<int>(s.why), static_cast<int>(s.cause), sites.place(s.site), s.needed, s.since,
             s.begin, s.end, none ? -1 : static_cast<std::int64_t>(s.by.extent), s.by.bytes, s.by.asked, s.by.begin,
             static_cast<int>(s.by.ahead), static_cast<int>(s.by.outcome));
  });
  list("resident", levels_, [&](const Level& l) { rows.add(l.time, l.resident); });
  list("sites", sites.list(), [&](SiteId site) { rows.add(site); });
  list("stall_by_cause", totals_.stall, [&](Nanos time) { rows.add(time); });
  list("stalls_by_cause", totals_.stalls, [&](std::int64_t count) { rows.add(count); });
  rows.key("read_bytes"), rows.add(totals_.read);
  rows.key("write_bytes"), rows.add(totals_.written);
  rows.key("work_ns"), rows.add(totals_.work);
  rows.close('}');
  return out;
}

}  // namespace outsize
