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
  filled_ = 0;
  if (Status status = fill(*range); !status) {
    present_ -= filled_;
    mover_.discard(range->address, range->bytes).ok();
    give_back(*range);
    return status.error();
  }
  return *range;
}

// Whole chunks come from whole chunks and stay huge pages; what is left of a chunk comes from what is
// left of others. A huge page that moves to where small pages have been is split, and so is the next
// one that moves to where it leaves from: mixed once, all would be small before long.
Status PagePool::fill(const PageRange& range) {
  const Bytes whole = range.bytes / kChunkBytes * kChunkBytes;
  Result<Bytes> done = fill_whole(range.address, whole);
  if (!done) return done.error();
  if (Status status = fresh(range.address + *done, whole - *done); !status) return status;
  return fill_rest(range.address + whole, range.bytes - whole);
}

// How many of the `bytes`, a number of whole chunks, warm pages were found for.
Result<Bytes> PagePool::fill_whole(char* address, Bytes bytes) {
  Bytes done = 0;
  while (done < bytes) {
    auto at = ranges_.lower_bound(bytes - done);
    if (at == ranges_.end() && at != ranges_.begin()) at = std::prev(at);
    if (at == ranges_.end() || at->first < kChunkBytes) break;
    PageRange source = *pop(at);
    if (source.bytes % kChunkBytes != 0) source = cut(source, source.bytes / kChunkBytes * kChunkBytes);
    const Bytes piece = std::min(source.bytes, bytes - done);
    Status moved = take_end(source, address + done, piece);
    if (!moved) return moved.error();
    done += piece;
  }
  return done;
}

// Less than a chunk.
Status PagePool::fill_rest(char* address, Bytes bytes) {
  for (Bytes done = 0; done < bytes;) {
    const Bytes missing = bytes - done;
    auto at = ranges_.lower_bound(missing);
    if ((at == ranges_.end() || at->first >= kChunkBytes) && at != ranges_.begin()) at = std::prev(at);
    if (at == ranges_.end() || (at->first >= kChunkBytes && present_ + missing <= limit_)) {
      return fresh(address + done, missing);
    }
    const PageRange source = *pop(at);
    if (source.bytes > kChunkBytes) {  // its last chunk, whole or not, apart: both are looked at again
      put(cut(source, (source.bytes - 1) / kChunkBytes * kChunkBytes));
      continue;
    }
    const Bytes piece = std::min(source.bytes, missing);
    if (Status moved = take_end(source, address + done, piece); !moved) return moved;
    done += piece;
  }
  return {};
}

// Keeps the first `bytes` of a range, whole chunks; the rest goes to the pool as a range of its own.
PageRange PagePool::cut(const PageRange& range, Bytes bytes) {
  const auto chunks = static_cast<std::uint32_t>(bytes / kChunkBytes);
  put({range.address + bytes, range.bytes - bytes, range.chunks - chunks});
  return {range.address, bytes, chunks};
}

// Moves the last `bytes` of `source` under `address`; what is left of it goes back to the pool.
Status PagePool::take_end(PageRange source, char* address, Bytes bytes) {
  Status moved = mover_.move_in(source.address + source.bytes - bytes, address, bytes, false);
  if (!moved) {
    drop(source);
    return moved;
  }
  filled_ += bytes;
  source.bytes -= bytes;
  const auto left = static_cast<std::uint32_t>(round_up(source.bytes, kChunkBytes) / kChunkBytes);
  if (left < source.chunks) {
    char* const first = source.address + static_cast<Bytes>(left) * kChunkBytes;
    give_back({first, bytes, source.chunks - left});
    source.chunks = left;
  }
  if (source.bytes > 0) put(source);
  return {};
}

void PagePool::make_way(Bytes bytes) {
  const Bytes excess = present_ + bytes - limit_;
  if (excess > 0) trim(std::max<Bytes>(bytes_ - excess, 0));
}

// Fresh pages; what the pool holds makes way where the limit asks for it.
Status PagePool::fresh(char* address, Bytes bytes) {
  if (bytes == 0) return {};
  make_way(bytes);
  if (Status status = mover_.populate(address, bytes); !status) return status;
  add_present(bytes);
  filled_ += bytes;
  return {};
}

// Addresses whose pages have left. Where small pages were, huge ones may come next.
void PagePool::give_back(const PageRange& range) {
  if (range.bytes % kChunkBytes != 0) {
    const Bytes whole = range.bytes / kChunkBytes * kChunkBytes;
    mover_.forget_small_pages(range.address + whole, kChunkBytes);
  }
  space_.put_back(range);
}

void PagePool::put(const PageRange& range) {
  bytes_ += range.bytes;
  ranges_[range.bytes].push_back(range);
}

void PagePool::drop(const PageRange& range) {
  mover_.discard(range.address, range.bytes).ok();
  give_back(range);
  present_ -= range.bytes;
}

void PagePool::trim(Bytes keep) {
  while (bytes_ > keep) drop(*pop(std::prev(ranges_.end())));
}

}  // namespace outsize::host
