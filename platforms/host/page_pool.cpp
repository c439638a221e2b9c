#include "platforms/host/page_pool.h"

#include <algorithm>

#include "platforms/host/page_mover_ranges.h"

namespace outsize::host {
namespace {

char* chunk_of(char* address) {
  return address - address_of(address) % static_cast<Address>(kChunkBytes);
}

}  // namespace

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

std::optional<PageRange> PagePool::addresses(Bytes bytes) {
  if (auto range = space_.take(bytes)) return range;
  trim(0);
  return space_.take(bytes);
}

Result<PageRange> PagePool::take(Bytes bytes) {
  if (auto warm = pop(ranges_.find(bytes))) return *warm;
  std::optional<PageRange> range;
  Bytes there = 0;
  if (bytes < kChunkBytes) {
    if (auto part = take_beginning(bytes)) return *part;
    if (const auto at = ranges_.lower_bound(bytes); at != ranges_.begin()) range = pop(std::prev(at));
    if (range) there = std::exchange(range->bytes, bytes);
  }
  if (!range) range = addresses(bytes);
  if (!range) {
    return Error{ErrorCode::kOutOfSpace, "the address space reserved for tensors is exhausted",
                 "allocation of " + std::to_string(bytes) + " bytes",
                 "Raise the limit on virtual memory (ulimit -v) and start again."};
  }
  filled_ = there;
  Status status = there > 0 ? fill_rest(range->address + there, bytes - there) : fill(*range);
  if (!status) {
    present_ -= filled_;
    mover_.discard(range->address, range->bytes).ok();
    give_back(*range);
    return status.error();
  }
  return *range;
}

// Of a larger range. Not of a whole chunk: while I/O holds one part of a huge page no other can move.
std::optional<PageRange> PagePool::take_beginning(Bytes bytes) {
  const auto at = ranges_.upper_bound(bytes);
  if (at == ranges_.end() || at->first >= kChunkBytes) return std::nullopt;
  PageRange range = *pop(at);
  leave(range.address + bytes, range.bytes - bytes);
  range.bytes = bytes;
  return range;
}

// Whole chunks come from whole chunks and stay huge pages; what is left of a chunk comes from what is
// left of others. A huge page that moves to where small pages have been is split, and so is the next
// one that moves to where it leaves from: mixed once, all would be small before long. That is better only where
// huge ones have to be made time and again (PageChoice).
Status PagePool::fill(const PageRange& range) {
  const Bytes whole = range.bytes / kChunkBytes * kChunkBytes;
  Result<Bytes> done = fill_whole(range.address, whole);
  if (!done) return done.error();
  const Bytes missing = whole - *done;
  // Of these so many take the place of warm ones.
  const Bytes in_place = std::min({missing, bytes_, std::max<Bytes>(present_ + missing - limit_, 0)});
  const bool remakes = in_place > 0;
  if (remakes && choice_.small()) return fill_rest(range.address + *done, range.bytes - *done);
  const Nanos began = remakes ? choice_.now() : 0;
  if (Status status = fresh(range.address + *done, missing); !status) return status;
  if (remakes) choice_.remade((choice_.now() - began) * (in_place / kPageBytes) / (missing / kPageBytes));
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

// Less than a chunk, but where small pages are kept. From one place, if there is one: many pieces are as many mappings where mremap moves them.
Status PagePool::fill_rest(char* address, Bytes bytes) {
  for (Bytes done = 0; done < bytes;) {
    const Bytes missing = bytes - done;
    auto at = ranges_.lower_bound(missing);
    const bool whole = at != ranges_.end() && at->first < kChunkBytes;
    if (!leftovers_.empty() && (!whole || std::prev(by_size_.end())->first >= missing)) {
      if (Status moved = take_leftover(address + done, missing, done); !moved) return moved;
      continue;
    }
    if (!whole && at != ranges_.begin()) at = std::prev(at);
    const Bytes needs = come_of_a_chunk(missing) ? kChunkBytes : missing;
    if (at == ranges_.end() || (at->first >= kChunkBytes && present_ + needs <= limit_)) {
      return fresh_part(address + done, missing);
    }
    const PageRange source = *pop(at);
    if (source.bytes > kChunkBytes) {  // its last chunk, whole or not, apart: both are looked at again
      keep(cut(source, (source.bytes - 1) / kChunkBytes * kChunkBytes));
      continue;
    }
    const Bytes piece = std::min(source.bytes, missing);
    if (Status moved = take_end(source, address + done, piece); !moved) return moved;
    done += piece;
  }
  return {};
}

// Single pages lie here and there in memory; those of a huge page that was split lie together, and disks take them many at
// a time (docs/notes/scattered-pages.md). So where there is room for a huge page its end comes, and the rest is the pool's.
Status PagePool::fresh_part(char* address, Bytes bytes) {
  const bool room = come_of_a_chunk(bytes) && present_ + kChunkBytes <= limit_;
  const std::optional<PageRange> chunk = room ? space_.take(kChunkBytes) : std::nullopt;
  if (chunk && make(chunk->address, kChunkBytes)) return take_end(*chunk, address, bytes);
  if (chunk) {
    mover_.discard(chunk->address, kChunkBytes).ok();
    space_.put_back(*chunk);
  }
  return fresh(address, bytes);
}

// The smallest that suffices, else the whole of the largest; of the former its end, so that the rest still
// lies behind its owner. Adds to `taken`.
Status PagePool::take_leftover(char* address, Bytes bytes, Bytes& taken) {
  auto size = by_size_.lower_bound({bytes, nullptr});
  if (size == by_size_.end()) --size;
  const auto at = leftovers_.find(size->second);
  const Bytes piece = std::min(at->second.bytes, bytes);
  Status moved = mover_.move_in(at->first + at->second.bytes - piece, address, piece, false);
  if (!moved) {
    drop_leftover(at, at->second.bytes);
    return moved;
  }
  filled_ += piece;
  taken += piece;
  shrink(at, piece);
  return {};
}

void PagePool::leave(char* address, Bytes bytes) {
  leftovers_[address] = {bytes, true};
  by_size_.insert({bytes, address});
  bytes_ += bytes;
}

// So many pages at its end are not of the pool any more.
void PagePool::shrink(Leftovers::iterator at, Bytes by) {
  auto& [address, leftover] = *at;
  by_size_.erase({leftover.bytes, address});
  leftover.bytes -= by;
  bytes_ -= by;
  if (leftover.bytes > 0) {
    by_size_.insert({leftover.bytes, address});
    return;
  }
  const bool alone = !leftover.owned;
  const PageRange chunk{chunk_of(address), kChunkBytes, 1};
  leftovers_.erase(at);
  if (!alone) return;
  mover_.forget_small_pages(chunk.address, kChunkBytes);
  space_.put_back(chunk);
}

// Keeps the first `bytes` of a range, whole chunks; the rest goes to the pool as a range of its own.
PageRange PagePool::cut(const PageRange& range, Bytes bytes) {
  const auto chunks = static_cast<std::uint32_t>(bytes / kChunkBytes);
  keep({range.address + bytes, range.bytes - bytes, range.chunks - chunks});
  return {range.address, bytes, chunks};
}

// Moves the last `bytes` of `source` under `address`; what is left of it goes back to the pool.
Status PagePool::take_end(PageRange source, char* address, Bytes bytes) {
  const bool splits = source.bytes == kChunkBytes && (bytes < kChunkBytes || chunk_of(address) != address);
  if (splits) mover_.before_split(source.address);
  Status moved = mover_.move_in(source.address + source.bytes - bytes, address, bytes, false);
  if (!moved) {
    drop(source);
    return moved;
  }
  filled_ += bytes;
  keep_beginning(source, bytes);
  return {};
}

// The last `bytes` of a range have left; the pool keeps the others.
void PagePool::keep_beginning(PageRange range, Bytes bytes) {
  range.bytes -= bytes;
  const auto left = static_cast<std::uint32_t>(round_up(range.bytes, kChunkBytes) / kChunkBytes);
  if (left < range.chunks) {
    char* const first = range.address + static_cast<Bytes>(left) * kChunkBytes;
    give_back({first, bytes, range.chunks - left});
    range.chunks = left;
  }
  if (range.bytes > 0) keep(range);
}

void PagePool::make_way(Bytes bytes) {
  const Bytes excess = present_ + bytes - limit_;
  if (excess > 0) trim(std::max<Bytes>(bytes_ - excess, 0));
}

// Fresh pages; what the pool holds makes way where the limit asks for it.
Status PagePool::fresh(char* address, Bytes bytes) {
  if (bytes == 0) return {};
  make_way(bytes);
  if (Status status = make(address, bytes); !status) return status;
  filled_ += bytes;
  return {};
}

Status PagePool::make(char* address, Bytes bytes) {
  if (Status status = mover_.populate(address, bytes); !status) return status;
  add_present(bytes);
  made_ += bytes;
  return {};
}

// Addresses whose pages have left. Where small pages were, huge ones may come next.
void PagePool::give_back(const PageRange& range) {
  PageRange free = range;
  if (range.bytes % kChunkBytes != 0) {
    if (const auto left = leftovers_.find(range.address + range.bytes); left != leftovers_.end()) {
      left->second.owned = false;
      --free.chunks;
    } else {
      const Bytes whole = range.bytes / kChunkBytes * kChunkBytes;
      mover_.forget_small_pages(range.address + whole, kChunkBytes);
    }
  }
  if (free.chunks > 0) space_.put_back(free);
}

void PagePool::look(std::int64_t ops, Nanos waited) {
  const bool small = choice_.small();
  choice_.look(ops, waited);
  if (choice_.small() != small) change_sides();
}

void PagePool::forget_choice() {
  const bool small = choice_.small();
  choice_.forget();
  renew_ = 0;
  if (small) change_sides();
}

// Where it is huge pages again, whole chunks may be small pages by now. As many bytes as there are come anew, for
// they are given up when they come to the pool.
void PagePool::change_sides() {
  mover_.keep_whole(!choice_.small());
  renew_ = choice_.small() ? 0 : present_;
  while (renew_ > 0 && !ranges_.empty() && std::prev(ranges_.end())->first >= kChunkBytes) {
    const PageRange range = *pop(std::prev(ranges_.end()));
    renew_ -= range.bytes;
    drop(range);
  }
}

void PagePool::put(PageRange range) {
  if (renew_ <= 0 || range.bytes < kChunkBytes) return keep(range);
  renew_ -= range.bytes;
  drop(range);
}

// Together with what was left behind it.
void PagePool::keep(PageRange range) {
  if (range.bytes % kChunkBytes != 0) {
    if (const auto left = leftovers_.find(range.address + range.bytes); left != leftovers_.end()) {
      const Bytes behind = left->second.bytes;
      shrink(left, behind);
      range.bytes += behind;
    }
  }
  bytes_ += range.bytes;
  ranges_[range.bytes].push_back(range);
}

void PagePool::drop(const PageRange& range) {
  mover_.discard(range.address, range.bytes).ok();
  give_back(range);
  present_ -= range.bytes;
}

// Its last `bytes`, of which those behind whole chunks go first; of these, whole ones.
void PagePool::drop_end(PageRange range, Bytes bytes) {
  const Bytes rest = range.bytes % kChunkBytes;
  const Bytes end = std::min(range.bytes, rest > 0 ? std::min(bytes, rest) : round_up(bytes, kChunkBytes));
  mover_.discard(range.address + range.bytes - end, end).ok();
  present_ -= end;
  keep_beginning(range, end);
}

void PagePool::drop_leftover(Leftovers::iterator at, Bytes bytes) {
  const Bytes end = std::min(at->second.bytes, bytes);
  mover_.discard(at->first + at->second.bytes - end, end).ok();
  present_ -= end;
  shrink(at, end);
}

// No more than has to: what went beyond that would come anew, page by page, and such pages lie here and there in memory.
void PagePool::trim(Bytes keep) {
  keep = std::max<Bytes>(keep, 0) / kPageBytes * kPageBytes;
  while (bytes_ > keep) drop_some(bytes_ - keep);
}

// The smallest that suffices, so that one after the other is used up; what was left behind rather than a range, which
// somebody may want as it is; else the largest.
void PagePool::drop_some(Bytes bytes) {
  const auto left = by_size_.lower_bound({bytes, nullptr});
  if (left != by_size_.end()) return drop_leftover(leftovers_.find(left->second), bytes);
  const auto range = ranges_.lower_bound(bytes);
  if (range != ranges_.end() && range->first < kChunkBytes) return drop_end(*pop(range), bytes);
  const bool is_left = !by_size_.empty() &&
                       (ranges_.empty() || std::prev(by_size_.end())->first > std::prev(ranges_.end())->first);
  if (is_left) return drop_leftover(leftovers_.find(std::prev(by_size_.end())->second), bytes);
  drop_end(*pop(std::prev(ranges_.end())), bytes);
}

}  // namespace outsize::host
