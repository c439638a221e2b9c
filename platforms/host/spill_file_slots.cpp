#include "platforms/host/spill_file_slots.h"

#include <algorithm>
#include <iterator>

namespace outsize::host {

void SlotMap::add_free(std::int64_t offset, Bytes bytes) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    const auto absorbed = next++;
    erase_free(absorbed);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      erase_free(previous);
    }
  }
  free_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void SlotMap::erase_free(std::map<std::int64_t, Bytes>::iterator run) {
  by_size_.erase({run->second, run->first});
  free_.erase(run);
}

std::int64_t SlotMap::take(Bytes bytes) {
  const auto fit = by_size_.lower_bound({bytes, 0});
  if (fit == by_size_.end()) return -1;
  const auto [run, offset] = *fit;
  erase_free(free_.find(offset));
  if (run > bytes) add_free(offset + bytes, run - bytes);
  taken_.emplace(offset, Taken{bytes, next_generation_});
  used_ += bytes;
  return offset;
}

// Some of one free run.
void SlotMap::take_at(const FileRun& wanted) {
  const auto run = std::prev(free_.upper_bound(wanted.offset));
  const auto [begin, bytes] = *run;
  const std::int64_t end = begin + bytes, taken_end = wanted.offset + wanted.bytes;
  erase_free(run);
  if (begin < wanted.offset) add_free(begin, wanted.offset - begin);
  if (taken_end < end) add_free(taken_end, end - taken_end);
  taken_.emplace(wanted.offset, Taken{wanted.bytes, next_generation_});
  used_ += wanted.bytes;
}

std::vector<FileRun> SlotMap::take_pieces(Bytes bytes, const RangeSet<std::int64_t>& holes) {
  std::vector<FileRun> runs;
  for (const auto& [offset, size] : free_) {
    std::int64_t from = offset;
    holes.for_each_in(offset, offset + size, [&](std::int64_t begin, std::int64_t end) {
      if (begin > from) runs.push_back({from, begin - from});
      from = end;
    });
    if (offset + size > from) runs.push_back({from, offset + size - from});
  }
  std::ranges::sort(runs, [](const FileRun& a, const FileRun& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.offset < b.offset;
  });
  std::size_t count = 0;
  for (Bytes missing = bytes; missing > 0; missing -= runs[count++].bytes) {
    if (count == runs.size()) return {};
    runs[count].bytes = std::min(runs[count].bytes, missing);
  }
  runs.resize(count);
  for (const FileRun& run : runs) take_at(run);
  return runs;
}

std::pair<std::int64_t, Bytes> SlotMap::free_tail() const {
  if (free_.empty()) return {end_, 0};
  const auto last = std::prev(free_.end());
  if (last->first + last->second != end_) return {end_, 0};
  return *last;
}

Bytes SlotMap::missing_at_end(Bytes bytes) const { return std::max<Bytes>(0, bytes - free_tail().second); }

void SlotMap::grow(Bytes bytes) {
  add_free(end_, bytes);
  end_ += bytes;
}

void SlotMap::shrink(std::int64_t end) {
  const auto [offset, bytes] = free_tail();
  if (bytes == 0 || end < offset || end >= end_) return;
  erase_free(free_.find(offset));
  if (end > offset) add_free(offset, end - offset);
  end_ = end;
}

bool SlotMap::seen_by_living(std::uint64_t first, std::uint64_t last) const {
  const auto child = alive_.lower_bound(first);
  return child != alive_.end() && *child < last;
}

bool SlotMap::release(std::int64_t offset, Bytes bytes) {
  const auto slot = taken_.find(offset);
  if (slot == taken_.end() || slot->second.bytes != bytes) return false;
  const std::uint64_t first = slot->second.generation;
  taken_.erase(slot);
  used_ -= bytes;
  if (seen_by_living(first, next_generation_)) {
    kept_.push_back({offset, bytes, first, next_generation_});
    quarantined_ += bytes;
  } else {
    add_free(offset, bytes);
  }
  return true;
}

void SlotMap::child_gone(std::uint64_t id) {
  alive_.erase(id);
  std::erase_if(kept_, [this](const Kept& kept) {
    if (seen_by_living(kept.first, kept.last)) return false;
    quarantined_ -= kept.bytes;
    add_free(kept.offset, kept.bytes);
    return true;
  });
}

}  // namespace outsize::host
