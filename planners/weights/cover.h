// Which gaps of a cycle (core/plan/cycle.h) extents spend below, as if transfers took no time: the rule of
// select.h, for a step as it was seen and not as a chain of layers.
//
// Every extent stays. As long as some op does not fit, the gap is taken that covers most of the overflow,
// min(overflow, bytes) summed over the ops within, for each transfer that it costs: one to come back,
// and one to be written unless another gap with the same bytes was taken already, or nothing ever
// changes them. That price is what the paper's "coefficient for single offloading" grows into where an
// extent has any number of gaps: after F the copy below is valid and leaving costs one transfer, after B
// it costs two.
//
//   single     gaps only that begin with a use which changes nothing: sent early, given up after it
//   greedy     any gap, but only one an extent
//   greedy*    any gaps
//
// Ties: the lower number. Costs: O(kSlots) at most for each gap that is looked at, which are those taken and those that
// might have been; a step of more ops is looked at in slots of several, and a gap covers the slots that lie within it.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "core/plan/cycle.h"
#include "planners/weights/select.h"

namespace outsize::weights {

struct CoverOptions {
  Solver solver = Solver::kGreedyStar;
  bool weights_only = false;  // only what lives through the step may leave
};

class Cover {
 public:
  // `alive`: bytes when the step begins.
  void select(const Cycle& cycle, Bytes alive, Bytes memory, const CoverOptions& options);

  bool any() const { return any_; }  // gap was taken
  bool away(std::uint32_t gap) const { return gap < away_.size() && (away_[gap] & kAway) != 0; }
  // Some gap with the same bytes was taken: they are to be written. Of what nothing ever changes, with any of it.
  bool written(std::uint32_t gap) const { return gap < away_.size() && (away_[gap] & kWritten) != 0; }
  // By op: bytes that are there at most while it runs, of those that stay.
  const std::vector<Bytes>& kept() const { return kept_; }
  // Most that does not fit though all was taken that may be taken; 0: everything fits.
  Bytes overflow() const { return overflow_; }

 private:
  static constexpr std::uint32_t kSlots = 1024;
  static constexpr std::uint32_t kBlock = 32;  // slots
  static constexpr std::uint8_t kAway = 1, kWritten = 2;
  struct Range {
    std::uint32_t first = 0, end = 0;
  };
  struct Candidate {
    Bytes covered = 0;       // kSlots times the bytes of an extent at most
    std::int64_t price = 1;  // 2 at most
    std::uint32_t gap = 0;
  };
  struct Block {
    Bytes least = 0, most = 0;  // overflow of its slots
    Bytes taken = 0;            // by what covers it as a whole; its slots do not know of that
  };
  static bool worse(const Candidate& a, const Candidate& b);
  void lay_out(Bytes alive, Bytes memory);
  bool allowed(std::uint32_t number) const;
  std::array<Range, 2> slots_of(const Cycle::Gap& gap) const;
  Candidate rate(std::uint32_t number) const;
  Candidate rate_at_most(std::uint32_t number) const;
  std::int64_t price(const Cycle::Gap& gap) const;
  void offer(std::uint32_t number);
  void take(std::uint32_t number);
  void look_at(std::uint32_t number);
  Bytes overflow_of(std::uint32_t slot) const { return slots_[slot] - blocks_[slot / kBlock].taken; }
  // Calls visit(first, end) for the slots of the range, block by block.
  template <class Visit>
  static void each_block(Range range, Visit visit) {
    while (range.first < range.end) {
      const std::uint32_t end = std::min(range.end, (range.first / kBlock + 1) * kBlock);
      visit(range.first, end);
      range.first = end;
    }
  }
  void take_best_until_it_fits();
  void add_up(Bytes alive, Bytes memory);

  const Cycle* cycle_ = nullptr;  // while it selects
  CoverOptions options_;
  std::uint32_t ops_ = 0, slot_count_ = 0;
  std::vector<Bytes> slots_;               // overflow, with what its block says; negative where there is room
  std::vector<Block> blocks_;              // of kBlock slots
  std::vector<Bytes> short_;               // how many had one at first, of those before; one more at the end
  std::vector<Candidate> candidates_;      // a heap, the best in front; their ratings may have fallen since
  std::vector<std::uint32_t> of_version_;  // gaps, by version
  std::vector<std::uint32_t> version_at_;  // where each version's begin in it
  std::vector<std::uint8_t> away_;         // by gap: kAway, and once all are taken kWritten: asked with every use
  std::vector<char> written_;              // by version
  std::vector<char> leaves_;               // by owner: some gap was taken
  std::vector<Bytes> kept_;
  Bytes overflow_ = 0;
  bool any_ = false;
};

}  // namespace outsize::weights
