#include "predictors/steps/outlook.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace outsize::steps {
namespace {

constexpr std::uint32_t kWord = 64;

void put(std::vector<std::uint64_t>& bits, std::uint32_t at, bool on) {
  const std::uint64_t bit = std::uint64_t{1} << (at % kWord);
  bits[at / kWord] = on ? bits[at / kWord] | bit : bits[at / kWord] & ~bit;
}

// Calls visit(at) for the bits of [from, to) in order, until it returns false; false then.
template <class Visit>
bool each(const std::vector<std::uint64_t>& bits, std::uint32_t from, std::uint32_t to, Visit visit) {
  for (std::uint32_t word = from / kWord; word * kWord < to; ++word) {
    std::uint64_t left = bits[word];
    if (word == from / kWord) left &= ~std::uint64_t{0} << (from % kWord);
    for (; left != 0; left &= left - 1) {
      const std::uint32_t at = word * kWord + static_cast<std::uint32_t>(std::countr_zero(left));
      if (at >= to) return true;
      if (!visit(at)) return false;
    }
  }
  return true;
}

}  // namespace

void Outlook::begin(const StepRecord& step, std::vector<ExtentId> holder, bool again) {
  repeats_ = again;
  holder_ = std::move(holder);
  place_ = 0;
  flow_.resize(step.size());
  for (std::uint32_t op = 0; op < step.size(); ++op) flow_[op] = {0, step.ops[op].death_bytes};
  blocks_.assign(step.size() / kBlock + 1, {});
  most_.resize(step.size());
  soon_.assign(step.accesses.size() / kWord + 1, 0);
  again_.assign(soon_.size(), 0);
  due_.resize(step.objects.size());
  for (std::uint32_t object = 0; object < due_.size(); ++object) {
    const ObjectRecord& record = step.objects[object];
    due_[object] = step.first_access(object);
    if (holder_[object] != kNoExtent) show(step, object, true);
    else if (record.birth_op != kNone) flow_[record.birth_op].born += record.bytes;
  }
}

void Outlook::show(const StepRecord& step, std::uint32_t object, bool is_held) {
  if (due_[object] != kNone) {
    put(soon_, due_[object], is_held);
  } else if (step.objects[object].birth_op == kNone && step.first_access(object) != kNone) {
    put(again_, step.first_access(object), is_held);
  }
}

void Outlook::hold(const StepRecord& step, std::uint32_t object, ExtentId id) {
  const bool was_held = std::exchange(holder_[object], id) != kNoExtent;
  const bool is_held = id != kNoExtent;
  if (was_held == is_held) return;
  show(step, object, is_held);
  const ObjectRecord& record = step.objects[object];
  if (record.birth_op == kNone) return;
  flow_[record.birth_op].born += is_held ? -record.bytes : record.bytes;
  blocks_[record.birth_op / kBlock].known = false;
}

void Outlook::move_to(const StepRecord& step, std::uint32_t next) {
  while (place_ < next) pass(step, place_++);
  while (place_ > next) return_to(step, --place_);
}

void Outlook::pass(const StepRecord& step, std::uint32_t op) {
  for (std::uint32_t i = step.ops[op].first_access; i < step.accesses_end(op); ++i) {
    const std::uint32_t object = step.accesses[i];
    if (due_[object] != i) continue;
    const bool is_held = holder_[object] != kNoExtent;
    if (is_held) show(step, object, false);
    std::uint32_t later = step.next_access(i);
    while (later != kNone && step.op_of(later) == op) later = step.next_access(later);
    due_[object] = later;
    if (is_held) show(step, object, true);
  }
}

void Outlook::return_to(const StepRecord& step, std::uint32_t op) {
  for (std::uint32_t i = step.accesses_end(op); i-- > step.ops[op].first_access;) {
    const std::uint32_t object = step.accesses[i];
    const bool is_held = holder_[object] != kNoExtent;
    if (is_held) show(step, object, false);
    due_[object] = i;
    if (is_held) show(step, object, true);
  }
}

const Outlook::Sum& Outlook::sum_of(std::uint32_t number) {
  Block& block = blocks_[number];
  if (std::exchange(block.known, true)) return block.sum;
  block.sum = {0, std::numeric_limits<Bytes>::min() / 2};
  const auto end = std::min(static_cast<std::uint32_t>(flow_.size()), (number + 1) * kBlock);
  for (std::uint32_t op = number * kBlock; op < end; ++op) {
    most_[op] = block.sum.most;
    block.sum.add(flow_[op]);
  }
  return block.sum;
}

// As far as `to`, or as the block begins in which that is.
void Outlook::add_blocks(Summed& summed, std::uint32_t to) {
  while (summed.end < to) {
    if (summed.end % kBlock != 0) {
      summed.sum.add(flow_[summed.end++]);
    } else if (to - summed.end >= kBlock) {
      summed.sum.add(sum_of(summed.end / kBlock));
      summed.end += kBlock;
    } else {
      return;
    }
  }
}

Bytes Outlook::most_until(Summed& summed, std::uint32_t op) {
  if (op - summed.end >= kBlock || summed.end % kBlock != 0) add_blocks(summed, op);
  if (summed.end == op) return summed.sum.most;
  sum_of(summed.end / kBlock);
  return std::max(summed.sum.most, summed.sum.born + most_[op]);
}

void Outlook::add_ops(Summed& summed, std::uint32_t to) {
  add_blocks(summed, to);
  while (summed.end < to) summed.sum.add(flow_[summed.end++]);
}

std::size_t Outlook::upcoming(const StepRecord& step, std::uint32_t next, Position base, std::span<Upcoming> out) {
  const std::uint32_t size = step.size();
  const auto accesses = static_cast<std::uint32_t>(step.accesses.size());
  next = std::min(next, size);
  move_to(step, next);
  const std::uint32_t begin = next < size ? step.ops[next].first_access : accesses;
  const Nanos here = next < size ? step.ops[next].at : step.end;
  std::size_t count = 0;
  Summed summed{next, {}};
  std::uint32_t asked = kNone;
  Bytes demand = 0;
  const auto demand_until = [&](std::uint32_t op) {  // the same for all that an op uses
    if (std::exchange(asked, op) != op) demand = most_until(summed, op);
    return demand;
  };
  const bool goes_on = each(soon_, begin, accesses, [&](std::uint32_t i) {
    const std::uint32_t op = step.op_of(i);
    if (count == out.size() || step.ops[op].first_access - begin >= kAccessesMax) return false;
    out[count++] = {holder_[step.accesses[i]], step.gap_ahead_of(i, next), base + op, step.ops[op].at - here,
                    demand_until(op)};
    return true;
  });
  if (!goes_on || next == 0 || !repeats_) return count;
  add_ops(summed, size);
  summed.sum.born -= step.died_first;
  summed.end = 0;
  asked = kNone;
  each(again_, 0, begin, [&](std::uint32_t i) {
    const std::uint32_t op = step.op_of(i), object = step.accesses[i];
    if (count == out.size() || accesses - begin + step.ops[op].first_access >= kAccessesMax) return false;
    const std::uint32_t death = step.objects[object].death_op;
    if (death != kNone && death >= next) return true;  // it will not see the next step
    out[count++] = {holder_[object], step.last_gap(object), base + size + op,
                    step.end - here + step.ops[op].at - step.begin, demand_until(op)};
    return true;
  });
  return count;
}

Bytes Outlook::demand_within(const StepRecord& step, std::uint32_t next, Nanos nanos) {
  const std::uint32_t size = step.size();
  const Nanos here = next < size ? step.ops[next].at : step.end;
  const auto within = [&](std::uint32_t op) { return op < size && step.ops[op].at - here <= nanos; };
  std::uint32_t end = next;
  while (within(end)) end += within(end + kBlock - 1) ? kBlock : 1;
  Summed summed{next, {}};
  add_ops(summed, end);
  return summed.sum.most;
}

}  // namespace outsize::steps
