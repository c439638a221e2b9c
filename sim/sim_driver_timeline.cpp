// What the timeline of a simulated run is told (core/trace/timeline.h).
#include "sim/sim_driver.h"

namespace outsize::sim {

SiteId SimDriver::site_of(const Thread& t) const {
  return t.ops.empty() ? 0 : program_.threads[id_of(t)][t.ops.back()].site;
}

void SimDriver::tell_work(const Thread& t, Nanos duration) {
  if (duration > 0) timeline_->work({id_of(t), now_, now_ + duration, site_of(t)});
}

// After an op, an allocation or a pin has asked: it may have been let in at once.
void SimDriver::tell_wait(ThreadId id) {
  const Thread& t = threads_[id];
  if (t.state != State::kWaits) return;
  const Action& action = program_.threads[id][t.at];
  if (action.kind == Action::Kind::kBirth) {
    timeline_->waits(id, trace::WaitCause::kRoom, {}, action.bytes, site_of(t), now_);
    return;
  }
  std::vector<ExtentId> extents;
  for (const ObjectRef& ref : action.operands) {
    if (extent_of(ref.object) != kNoExtent) extents.push_back(extent_of(ref.object));
  }
  if (action.kind == Action::Kind::kPin) extents.assign(1, t.extent);
  Bytes absent = 0;
  for (const ExtentId extent : extents) {
    if (engine_->table()[extent].where != Where::kResident) absent += bytes_[extent];
  }
  timeline_->waits(id, trace::WaitCause::kOperands, extents, absent, site_of(t), now_);
}

void SimDriver::tell_raw_wait(const Thread& t) {
  timeline_->waits(id_of(t), trace::WaitCause::kRawAccess, {&t.extent, 1}, bytes_[t.extent], site_of(t), now_);
}

void SimDriver::tell_transfer(const Transfer& transfer) {
  const Timeline::End outcome = transfer.fails                              ? Timeline::End::kFailed
                                : engine_->table()[transfer.extent].dying ? Timeline::End::kDied
                                                                          : Timeline::End::kDone;
  timeline_->ended(transfer.extent, transfer.write, outcome, transfer.started, now_);
}

}  // namespace outsize::sim
