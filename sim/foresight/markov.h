// A control: after the last `order` blocks that comes which most often came after them. Where these were never seen in
// a row, fewer of them tell. A step's end is taken for a block. What a block consists of is known; which comes is learnt.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/foresight/forecaster.h"

namespace outsize::sim::foresight {

class Markov final : public Forecaster {
 public:
  static constexpr std::size_t kOrderMax = 3;
  Markov(const Path& path, std::size_t order) : path_(path), order_(order) { before_.fill(kUnknown); }
  void op(const OpEvent& op, Place place) override;
  void step(Nanos now) override;
  void foresee(std::size_t limit, std::vector<Place>& out) override;

 private:
  using Before = std::array<Place, kOrderMax>;  // first places of blocks, the latest first
  struct Way {
    Place to = kUnknown;
    std::uint64_t count = 0, last = 0;
  };
  static void pass(Before& before, Place to);
  static std::uint64_t key(const Before& before, std::size_t order);
  void learn(Place to);
  Place next(const Before& before) const;

  const Path& path_;
  std::size_t order_;
  Before before_{};
  Place running_ = kUnknown;  // the running op
  std::uint64_t learnt_ = 0;
  std::unordered_map<std::uint64_t, std::vector<Way>> ways_;
};

}  // namespace outsize::sim::foresight
