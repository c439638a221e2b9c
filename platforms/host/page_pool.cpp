#include "platforms/host/page_pool.h"

#include <algorithm>

namespace outsize::host {

AddressSpace::AddressSpace(char* base, std::uint32_t chunks) : base_(base) {
  free_.emplace(0, chunks);
}

std::optional<PageRange> AddressSpace::take(Bytes bytes) {
  const auto need = static_cast<std::uint32_t>(round_up(bytes, kChunkBytes) / kChunkBytes);
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    const auto [first, length] = *at;
    if (length < need) continue;
    free_.erase(at);
    if (length > need) free_.emplace(first + need, length - need);
    used_chunks_ += need;
    return PageRange{base_ + static_cast<Bytes>(first) * kChunkBytes, bytes, need};
  }
  return std::nullopt;
}

void AddressSpace::put_back(const PageRange& range) {
  auto first = static_cast<std::uint32_t>((range.address - base_) / kChunkBytes);
  std::uint32_t length = range.chunks;
  used_chunks_ -= length;
  auto next = free_.lower_bound(first);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == first) {
      first = before->first;
      length += before->second;
      free_.erase(before);
    }
  }
  if (next != free_.end() && first + length == next->first) {
    length += next->second;
    free_.erase(next);
  }
  free_.emplace(first, length);
}

void PagePool::add_present(Bytes bytes) {
  present_ += bytes;
  present_peak_ = std::max(present_peak_, present_);
}

std::optional<PageRange> PagePool::pop(std::map<Bytes, std::vector<PageRange>>::iterator at) {
  if (at == ranges_.end()) return std::nullopt;
  const PageRange range = at->second.back();
  at->second.pop_back();
  if (at->second.empty()) ranges_.erase(at);
  bytes_ -= range.bytes;
  return range;
}

Result<PageRange> PagePool::take(Bytes bytes) {
  if (auto warm = pop(ranges_.find(bytes))) return *warm;
  const auto range = space_.take(bytes);
  if (!range) {
    return Error{ErrorCode::kOutOfSpace, "the address space reserved for tensors is exhausted",
                 "allocation of " + std::to_string(bytes) + " bytes",
                 "Raise the limit on virtual memory (ulimit -v) and start again."};
  }
  if (Status status = fill(*range); !status) {
    mover_.discard(range->address, range->bytes).ok();
    space_.put_back(*range);
    return status.error();
  }
  return *range;
}

// Moves warm pages under `range`, from the smallest range that has enough, else from the largest;
// what is still missing is fresh.
Status PagePool::fill(const PageRange& range) {
  Bytes done = 0;
  while (done < range.bytes && !ranges_.empty()) {
    auto at = ranges_.lower_bound(range.bytes - done);
    if (at == ranges_.end()) at = std::prev(at);
    PageRange source = *pop(at);
    const Bytes piece = std::min(source.bytes, range.bytes - done);
    source.bytes -= piece;
    Status moved = mover_.move_in(source.address + source.bytes, range.address + done, piece, false);
    if (!moved) return moved;
    done += piece;
    if (source.bytes > 0) {
      put(source);
    } else {
      space_.put_back(source);
    }
  }
  if (done == range.bytes) return {};
  if (Status fresh = mover_.populate(range.address + done, range.bytes - done); !fresh) return fresh;
  add_present(range.bytes - done);
  return {};
}

void PagePool::put(const PageRange& range) {
  bytes_ += range.bytes;
  ranges_[range.bytes].push_back(range);
}

void PagePool::drop(const PageRange& range) {
  mover_.discard(range.address, range.bytes).ok();
  space_.put_back(range);
  present_ -= range.bytes;
}

void PagePool::trim(Bytes keep) {
  while (bytes_ > keep) drop(*pop(std::prev(ranges_.end())));
}

}  // namespace outsize::host
