// What happens when, for a report: what the timeline is told beyond the thin calls in the other files. Waits
// of raw accesses are left out: who waits nobody knows. A wait ends here when it is granted; that its thread
// has yet to wake is in Stats::stall only.
#include <mutex>
#include <utility>
#include <vector>

#include "platforms/host/runtime_impl.h"

namespace outsize::host {
namespace {

constexpr std::size_t kEventsMax = 200'000;  // of each kind

}  // namespace

void Runtime::keep_timeline(std::int64_t steps) {
  Impl& m = *the_impl();
  std::lock_guard guard(m.lock);
  m.timeline = std::make_unique<Timeline>(TimelineOptions{.steps = steps, .events = kEventsMax});
  m.timeline_from = monotonic_now();
  m.timeline_told = {};
  for (const auto& slot : m.threads) slot->mark = m.timeline_from;
}

// Between ops nobody knows whether a thread works or waits for the next.
void Runtime::Impl::tell_work(ThreadSlot& slot, Nanos now) {
  const SiteId site = slot.sites.empty() ? 0 : slot.sites.back();
  if (site != 0 && now > slot.mark && slot.mark >= timeline_from) {
    timeline->work({slot.id, on_timeline(slot.mark), on_timeline(now), site});
  }
  slot.mark = now;
}

void Runtime::Impl::tell_wait(ThreadSlot& slot, trace::WaitCause cause, Nanos since) {
  tell_work(slot, since);
  std::vector<ExtentId> extents;
  Bytes needed = slot.birth_bytes;
  if (cause == trace::WaitCause::kOperands) {
    needed = 0;
    for (const OperandRef& ref : refs) {
      extents.push_back(ref.extent);
      if (table[ref.extent].where != Where::kResident) needed += table[ref.extent].bytes;
    }
  }
  const SiteId site = slot.sites.empty() ? 0 : slot.sites.back();
  timeline->waits(slot.id, cause, extents, needed, site, on_timeline(since));
}

void Runtime::Impl::tell_asked(ExtentId id, bool write, Urgency urgency) {
  timeline->asked(id, write, urgency, extents[id].range.bytes, on_timeline(monotonic_now()));
}

void Runtime::Impl::tell_ended(ExtentId id, bool write, bool failed, Nanos took) {
  const Timeline::End outcome = failed              ? Timeline::End::kFailed
                                : table[id].dying ? Timeline::End::kDied
                                                  : Timeline::End::kDone;
  const Nanos now = on_timeline(monotonic_now());
  timeline->ended(id, write, outcome, now - took, now);
}

void Runtime::Impl::end_timeline() {
  if (timeline == nullptr) return;
  timeline_told.json = timeline->json();
  timeline_told.names.assign(names.begin(), names.end());
  timeline.reset();
}

TimelineTold Runtime::timeline() {
  Impl* const m = the_impl();
  if (m == nullptr || m->in_child.load(std::memory_order_relaxed)) return {};
  std::lock_guard guard(m->lock);
  m->end_timeline();
  return m->timeline_told;
}

}  // namespace outsize::host
