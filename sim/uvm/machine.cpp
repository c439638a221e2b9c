#include "sim/uvm/machine.h"

#include <algorithm>
#include <utility>

namespace outsize::sim::uvm {

Machine::Machine(const Program& program, const MachineOptions& options)
    : program_(program), options_(options), memory_(options.budget), link_(options.link),
      objects_(program.objects), timeline_(options.timeline) {
  if (options_.model.foresight) foresight_.emplace(options_.model.tables);
}

SimResult Machine::run() {
  constexpr std::size_t kActionsBetween = 256;
  std::size_t actions = 0;
  for (const Action& action : program_.threads.at(0)) {
    if (++actions % kActionsBetween == 0 && options_.cancelled && options_.cancelled()) {
      result_.cancelled = true;
      break;
    }
    act(action);
    if (!result_.problems.empty()) break;
  }
  result_.time = now_;
  result_.peak = result_.stats.resident_peak;
  return std::move(result_);
}

void Machine::problem(std::string what) { result_.problems.push_back(std::move(what)); }

void Machine::act(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kOpBegin: op_begin(action); break;
    case Action::Kind::kOpEnd: op_end(); break;
    case Action::Kind::kBirth: birth(action.object, action.bytes); break;
    case Action::Kind::kAdopt: adopt(action.object, action.bytes); break;
    case Action::Kind::kDeath: death(action.object); break;
    case Action::Kind::kWork: work(action.duration); break;
    case Action::Kind::kStep: step(); break;
    case Action::Kind::kRawAccess:
    case Action::Kind::kPin: use_raw(action.object); break;
    // Nothing to unified memory: it has no pins and no hints of ours; and storages are not shared.
    case Action::Kind::kShare:
    case Action::Kind::kExpose:
    case Action::Kind::kUnpin:
    case Action::Kind::kHint:
    case Action::Kind::kSample:
    case Action::Kind::kBudget: break;
  }
}

void Machine::op_begin(const Action& action) {
  ++use_;  // an op inside another lets go of what that has
  if (!frames_.empty()) frames_.back().leaf = false;
  Frame& frame = frames_.emplace_back();
  frame.site = action.site;
  for (const ObjectRef& ref : action.operands) frame.uses.push_back(ref.object);
  ++result_.stats.ops;
  if (foresight_) foresee(action);
}

void Machine::op_end() {
  if (frames_.back().leaf) use_again();
  ++use_;
  frames_.pop_back();
  if (!frames_.empty()) frames_.back().to_use = true;
}

void Machine::birth(ObjectId id, Bytes bytes) {
  const Bytes begin = allocator_.allocate(bytes);
  objects_[id] = {begin, begin + bytes, true};
  memory_.use(begin, begin + allocator_.piece_bytes(begin));
  if (frames_.empty()) return;
  frames_.back().uses.push_back(id);
  frames_.back().to_use = true;
}

// Its bytes are there before the device sees them.
void Machine::adopt(ObjectId id, Bytes bytes) {
  const Bytes begin = allocator_.allocate(bytes), end = begin + bytes;
  objects_[id] = {begin, end, true};
  memory_.use(begin, begin + allocator_.piece_bytes(begin));
  for (BlockId block = block_of(begin); block <= block_of(end - 1); ++block) {
    memory_[block].host |= leaves_in(block, begin, end) & ~memory_[block].device;
  }
}

void Machine::death(ObjectId id) {
  Object& object = objects_[id];
  if (!object.there) return;
  memory_.unuse(object.begin, object.begin + allocator_.piece_bytes(object.begin));
  allocator_.free(object.begin);
  object.there = false;
}

// What the innermost op uses, if that is not there since. False: it was refused.
bool Machine::use_again() {
  Frame& frame = frames_.back();
  if (std::exchange(frame.to_use, false) && !frame.refused) frame.refused = !use(frame.uses);
  return !frame.refused;
}

void Machine::use_raw(ObjectId id) {
  result_.fatal |= !use({&id, 1});
  if (!frames_.empty()) frames_.back().to_use = true;
}

void Machine::work(Nanos duration) {
  if (!frames_.empty() && !use_again()) return;
  if (timeline_ && duration > 0) timeline_->work({0, now_, now_ + duration, site()});
  pass_until(now_ + duration);
}

void Machine::step() {
  ++result_.stats.steps;
  if (timeline_) timeline_->step(now_);
  result_.at_step.push_back(result_.stats);
  result_.time_at_step.push_back(now_);
  result_.stall_at_step.push_back(result_.stall);
}

void Machine::pass_until(Nanos time) {
  while (link_.busy() && link_.next_end() <= time) pass_transfer();
  now_ = std::max(now_, time);
}

// Until the next transfer has ended; false where none is under way.
bool Machine::pass_transfer() {
  if (!link_.busy()) return false;
  now_ = std::max(now_, link_.next_end());
  finish(link_.take());
  ahead();
  return true;
}

void Machine::finish(const Transfer& transfer) {
  const BlockId id = transfer.extent;
  if (timeline_) timeline_->ended(id, transfer.write, Timeline::End::kDone, transfer.started, now_);
  Block& block = memory_[id];
  if (transfer.write) {
    memory_.left(id, written_[id]);
    result_.stats.written += transfer.bytes;
    ++result_.stats.writes;
  } else {
    block.device |= block.coming;
    block.host &= ~block.coming;
    block.coming = 0;
    if (std::exchange(block.ahead, false)) --reading_ahead_;
    result_.stats.read += transfer.bytes;
    ++result_.stats.reads;
  }
  tell_resident();
}

void Machine::tell_resident() {
  result_.stats.resident = memory_.held_bytes();
  result_.stats.resident_peak = std::max(result_.stats.resident_peak, result_.stats.resident);
  result_.stats.dropped = memory_.dropped();
  if (timeline_) timeline_->resident(result_.stats.resident, now_);
}

}  // namespace outsize::sim::uvm
