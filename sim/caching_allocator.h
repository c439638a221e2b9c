// PyTorch's caching allocator for CUDA as a model: which address a storage gets. Written after the rules of
// c10/cuda/CUDACachingAllocator.cpp at its default settings, for one stream:
// - Sizes are rounded up to 512 bytes.
// - Up to 1 MiB they come from the small pool, whose segments are 2 MiB; above, from the large pool: up to 10 MiB from
//   segments of 20 MiB, from there on from a segment of their own, rounded up to 2 MiB.
// - The smallest cached piece that is large enough is taken, of equals the one at the lowest address. What is left of it
//   becomes a piece of its own: from 512 bytes on in the small pool, above 1 MiB in the large pool; else it stays with it.
// - A piece that is freed is joined with its free neighbours, and kept for the next.
// - Segments go back only when asked.
//
// Addresses are ours: segments follow one another from 0 on, at multiples of 2 MiB, and none is used again after it
// went back. Costs: O(log pieces).
#pragma once

#include <map>
#include <set>
#include <utility>

#include "core/base/types.h"

namespace outsize::sim {

class CachingAllocator {
 public:
  using Address = Bytes;

  // `bytes` > 0.
  Address allocate(Bytes bytes);
  // What allocate() gave, once.
  void free(Address address);
  // Gives back the segments in which nothing is in use (torch.cuda.empty_cache).
  void empty_cache();

  // Of the piece in use there: what was asked for, rounded up, and what was too small to be split off.
  Bytes piece_bytes(Address address) const { return pieces_.at(address).bytes; }
  Bytes reserved() const { return reserved_; }    // in segments
  Bytes allocated() const { return allocated_; }  // in pieces in use
  Address end() const { return end_; }            // of all segments that ever were

 private:
  struct Piece {
    Bytes bytes = 0;
    bool small = false;     // its pool
    bool used = false;
    bool first = false, last = false;  // of its segment
  };
  using Pieces = std::map<Address, Piece>;
  using Pool = std::set<std::pair<Bytes, Address>>;  // free pieces, the smallest first

  Pool& pool(bool small) { return pools_[small ? 0 : 1]; }
  Pieces::iterator new_segment(Bytes bytes, bool small);
  void split(Pieces::iterator piece, Bytes bytes);
  void join(Pieces::iterator left, Pieces::iterator right);

  Pieces pieces_;
  Pool pools_[2];
  Bytes reserved_ = 0, allocated_ = 0;
  Address end_ = 0;
};

}  // namespace outsize::sim
