// Which bytes of the spill file are taken: a deterministic allocator of page-multiple ranges with
// coalescing, and the quarantine that keeps a forked child's slots as they were. Pure bookkeeping;
// no file. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "platforms/host/file_run.h"
#include "platforms/host/page_mover_ranges.h"

namespace outsize::host {

class SlotMap {
 public:
  // The smallest free run that fits, the lowest offset among equals; -1 where none does.
  std::int64_t take(Bytes bytes);
  // Several free runs, or parts of them, that `bytes` fill together and none of which touches `holes`: the
  // largest first, the lowest offset among equals. Each is released alone. Empty where they are not enough.
  std::vector<FileRun> take_pieces(Bytes bytes, const RangeSet<std::int64_t>& holes);
  // How much the file must grow for `bytes` to fit at its end, after what is free there.
  Bytes missing_at_end(Bytes bytes) const;
  void grow(Bytes bytes);
  // The last free run, if it touches the end: {offset, bytes}, else {end, 0}.
  std::pair<std::int64_t, Bytes> free_tail() const;
  // Cuts the file at `end`; everything beyond must be free.
  void shrink(std::int64_t end);

  // Takes note of a fork: what is allocated now must not be reused while `id` lives.
  void fork(std::uint64_t id) { alive_.insert(id); next_generation_ = id + 1; }
  void child_gone(std::uint64_t id);
  // False where no such slot is allocated (nothing changes).
  bool release(std::int64_t offset, Bytes bytes);

  std::int64_t end() const { return end_; }
  Bytes used() const { return used_; }
  Bytes quarantined() const { return quarantined_; }
  // Free runs by offset.
  const std::map<std::int64_t, Bytes>& free_runs() const { return free_; }

 private:
  struct Taken {
    Bytes bytes;
    std::uint64_t generation;  // forks with an id of at least this have seen the slot
  };
  struct Kept {
    std::int64_t offset;
    Bytes bytes;
    std::uint64_t first, last;  // the forks that saw it
  };
  void take_at(const FileRun& run);
  void add_free(std::int64_t offset, Bytes bytes);
  void erase_free(std::map<std::int64_t, Bytes>::iterator run);
  bool seen_by_living(std::uint64_t first, std::uint64_t last) const;

  std::int64_t end_ = 0;
  Bytes used_ = 0;
  Bytes quarantined_ = 0;
  std::map<std::int64_t, Bytes> free_;
  std::set<std::pair<Bytes, std::int64_t>> by_size_;
  std::map<std::int64_t, Taken> taken_;
  std::vector<Kept> kept_;
  std::set<std::uint64_t> alive_;
  std::uint64_t next_generation_ = 0;
};

}  // namespace outsize::host
