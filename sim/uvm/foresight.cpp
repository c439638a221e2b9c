#include "sim/uvm/foresight.h"

#include <algorithm>
#include <utility>

namespace outsize::sim::uvm {
namespace {

// False where it stood there already.
bool stamp(std::vector<std::uint64_t>& stamps, BlockId block, std::uint64_t now) {
  if (block >= stamps.size()) stamps.resize(block + 1 + block / 2, 0);
  return std::exchange(stamps[block], now) != now;
}

}  // namespace

void Foresight::begin(SiteId site, bool in_backward, std::span<const Bytes> addresses) {
  if (chain_.running() != deepum::kNone) chain_.learn(chain_.running(), used_);
  used_.clear();
  ++ops_;
  std::uint64_t key = deepum::mix(in_backward, site);
  for (const Bytes address : addresses.first(std::min<std::size_t>(addresses.size(), chain_.options().key_operands))) {
    key = deepum::mix(key, static_cast<std::uint64_t>(address));
  }
  chain_.begin(key);
  chain_.extend();
}

void Foresight::used(BlockId block) {
  if (stamp(used_at_, block, ops_)) used_.push_back(block);
}

std::span<const BlockId> Foresight::expected(std::size_t most) {
  expected_.clear();
  ++asked_;
  for (const BlockId block : chain_.blocks_of(chain_.running())) {
    if (stamp(noted_at_, block, asked_)) expected_.push_back(block);
  }
  std::size_t complete = expected_.size();
  std::uint32_t op = 0;
  chain_.window().each([&](std::uint32_t ahead, BlockId block) {
    if (ahead != op && expected_.size() <= most) complete = expected_.size();
    op = ahead;
    if (stamp(noted_at_, block, asked_)) expected_.push_back(block);
  });
  if (expected_.size() > most) expected_.resize(std::min(complete, most));
  return expected_;
}

}  // namespace outsize::sim::uvm
