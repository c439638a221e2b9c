// Controls that foresee a path that was there before, as a whole: the last one, or the one that came most often. Paths
// are of the same place in a step: from its begin to its first sample, from that to the second, and so on.
//
// It is chosen where its place begins. What comes then is what followed, in that path, the op that ran: from where it
// stood in it, or else from where such an op comes next in it, or else first.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/foresight/forecaster.h"

namespace outsize::sim::foresight {

class KeptPaths final : public Forecaster {
 public:
  enum class Which : std::uint8_t { kLast, kMostFrequent };
  explicit KeptPaths(Which which) : which_(which) {}
  void op(const OpEvent& op, Place place) override;
  void step(Nanos now) override;
  void sample(std::span<const std::int64_t> sample) override;
  void foresee(std::size_t limit, std::vector<Place>& out) override;

 private:
  struct Kept {
    std::vector<Place> row;  // kStepEnd at its end, where one ended there
    std::uint64_t count = 0, last = 0;
  };
  void close();
  void choose();

  Which which_;
  std::vector<std::vector<Kept>> kept_;  // by place in the step
  std::vector<Place> running_;           // row so far
  std::size_t order_ = 0;                // place in the step
  std::uint64_t closed_ = 0;
  std::vector<Place> chosen_;
  std::unordered_map<Place, std::vector<std::size_t>> where_;  // in chosen_, ascending
  std::size_t at_ = 0;                   // in chosen_: what comes
};

}  // namespace outsize::sim::foresight
