// What an op uses is touched: faults in batches, room by eviction, migration.
#include <algorithm>

#include "sim/uvm/machine.h"

namespace outsize::sim::uvm {

// False where it is more than the device has.
bool Machine::use(std::span<const ObjectId> objects) {
  if (!pin(objects)) return false;
  const Nanos since = now_;
  while (result_.problems.empty() && gather_batch()) serve_batch();
  result_.stall += now_ - since;
  return true;
}

// All of its blocks stay until the next use. Puts a cursor at each object's begin.
bool Machine::pin(std::span<const ObjectId> objects) {
  ++use_;
  cursors_.clear();
  std::int64_t blocks = 0;
  for (const ObjectId id : objects) {
    const Object& object = objects_[id];
    if (!object.there) continue;
    cursors_.push_back({object.begin / kLeafBytes * kLeafBytes, object.begin, object.end});
    for (BlockId block = block_of(object.begin); block <= block_of(object.end - 1); ++block) {
      if (memory_[block].pinned == use_) continue;
      memory_[block].pinned = use_;
      ++blocks;
      if (foresight_) foresight_->used(block);
    }
  }
  result_.stats.need_peak = std::max(result_.stats.need_peak, blocks * kBlockBytes);
  if (blocks <= memory_.most()) return true;
  ++result_.refused_budget;
  ++use_;  // none of them is needed
  return false;
}

// Moves on to a leaf that is neither there nor in the batch.
bool Machine::next_leaf(Cursor& cursor) {
  while (cursor.at < cursor.end) {
    const Block& block = memory_[block_of(cursor.at)];
    const Bytes block_end = cursor.at / kBlockBytes * kBlockBytes + kBlockBytes;
    if (block.has(leaves_in(block_of(cursor.at), cursor.at, std::min(cursor.end, block_end)))) {
      cursor.at = block_end;
      continue;
    }
    const auto batched = std::ranges::find(batch_, block_of(cursor.at));
    const bool faulted = batched != batch_.end() &&
                         (faulted_[static_cast<std::size_t>(batched - batch_.begin())] & leaf_of(cursor.at)) != 0;
    if (!faulted && !block.has(leaf_of(cursor.at))) return true;
    cursor.at += kLeafBytes;
  }
  return false;
}

// A leaf of each storage in turn, and of each leaf as many page faults as pages of the storage lie in it. False: all is
// there.
bool Machine::gather_batch() {
  batch_.clear();
  faulted_.clear();
  Bytes pages = 0;
  for (bool more = true; more && pages < options_.model.batch;) {
    more = false;
    for (Cursor& cursor : cursors_) {
      if (pages >= options_.model.batch || !next_leaf(cursor)) continue;
      more = true;
      const BlockId block = block_of(cursor.at);
      const auto batched = std::ranges::find(batch_, block);
      const auto at = static_cast<std::size_t>(batched - batch_.begin());
      if (batched == batch_.end()) {
        batch_.push_back(block);
        faulted_.push_back(0);
      }
      faulted_[at] |= leaf_of(cursor.at);
      const Bytes begin = std::max(cursor.at, cursor.begin), end = std::min(cursor.at + kLeafBytes, cursor.end);
      pages += (end - 1) / kPageBytes - begin / kPageBytes + 1;
      cursor.at += kLeafBytes;
    }
  }
  return !batch_.empty();
}

void Machine::serve_batch() {
  Bytes absent = 0;
  for (std::size_t i = 0; i < batch_.size(); ++i) absent += bytes_of(faulted_[i]);
  if (timeline_) timeline_->waits(0, trace::WaitCause::kOperands, batch_, absent, site(), now_);
  ++result_.faults_in_ops;
  ++result_.stats.faults;
  pass_until(now_ + options_.model.fault_us * Nanos{1000});
  for (std::size_t i = 0; i < batch_.size(); ++i) serve_block(batch_[i], faulted_[i]);
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    while ((memory_[batch_[i]].coming & faulted_[i]) != 0 && pass_transfer()) {}
  }
  if (timeline_) timeline_->goes_on(0, now_);
  tell_resident();
}

void Machine::serve_block(BlockId id, Leaves faulted) {
  link_.promote(id, Urgency::kDemand);
  while (memory_[id].leaving && pass_transfer()) {}  // it was on its way out: it goes, and comes back
  // While room is made it may come ahead: then there is no more to do but to wait for it.
  while ((faulted & ~there(id)) != 0) {
    if (memory_[id].holds || memory_.free() > 0) {
      return bring(id, options_.model.tree ? brought(there(id), faulted) : faulted & ~there(id), Urgency::kDemand);
    }
    if (!make_room()) return problem("a block found no room on the device");
  }
  link_.promote(id, Urgency::kDemand);
}

// To the device, where there is room for it: what is on the host by a transfer, what was nowhere is made there.
void Machine::bring(BlockId id, Leaves leaves, Urgency urgency) {
  if (!memory_[id].holds) memory_.hold(id);
  memory_.migrate(id);
  Block& block = memory_[id];
  if (block.coming != 0) return problem("a block was asked for while it came");
  block.coming = leaves & block.host;
  block.device |= leaves & ~block.host;
  if (block.coming != 0) {
    const Bytes bytes = bytes_of(block.coming);
    link_.submit(id, false, urgency, bytes, now_);
    if (urgency == Urgency::kDemand) result_.stats.demanded += bytes;
    block.ahead = urgency != Urgency::kDemand;
    reading_ahead_ += block.ahead ? 1 : 0;
    if (timeline_) timeline_->asked(id, false, urgency, bytes, now_);
  }
  tell_resident();
}

// One step towards a free block: a victim goes, or a transfer ends. False where neither can be.
bool Machine::make_room() {
  if (memory_.leaving() == 0) {
    const BlockId victim = choose_victim(true);
    if (victim != DeviceMemory::kNone) {
      evict(victim, Urgency::kDemand);
      return true;
    }
  }
  return pass_transfer();  // what comes ahead can leave once it is there
}

// By last migration. With pre-eviction what is expected goes only where nothing else may, and if it is asked for.
BlockId Machine::choose_victim(bool expected_too) {
  const auto loose = [&](const Block& block) { return block.pinned != use_ && block.coming == 0; };
  if (foresight_ && options_.model.pre_eviction) {
    const auto unexpected = [&](const Block& block) { return loose(block) && block.expected != expecting_; };
    const BlockId victim = memory_.victim(unexpected);
    if (victim != DeviceMemory::kNone || !expected_too) return victim;
  }
  return memory_.victim(loose);
}

void Machine::evict(BlockId id, Urgency urgency) {
  const Leaves down = memory_.evict(id, foresight_ && options_.model.invalidation);
  ++result_.stats.evictions;
  if (down == 0) {
    memory_.left(id, 0);
    return tell_resident();
  }
  if (id >= written_.size()) written_.resize(id + 1);
  written_[id] = down;
  link_.submit(id, true, urgency, bytes_of(down), now_);
  if (timeline_) timeline_->asked(id, true, urgency, bytes_of(down), now_);
}

}  // namespace outsize::sim::uvm
