// What the tests of this folder share.
#pragma once

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "planners/weights/random_chain.h"
#include "planners/weights/replay.h"
#include "planners/weights/solve.h"

namespace outsize::weights {

class TestRandom {
 public:
  explicit TestRandom(std::uint64_t seed) : bits_(seed) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::mt19937_64 bits_;
};

// OUTSIZE_TEST_SEED gives a random test other chains.
inline std::uint64_t test_seed(std::uint64_t otherwise) {
  const char* seed = std::getenv("OUTSIZE_TEST_SEED");
  return seed == nullptr ? otherwise : std::strtoull(seed, nullptr, 10);
}

// Weights of these bytes; F takes 2, B takes 3, an activation has 1 byte; no scratch.
inline Chain plain_chain(const std::vector<Bytes>& weights) {
  Chain chain;
  for (const Bytes bytes : weights) chain.layers.push_back({bytes, 2, 3, 1, 0, 0});
  return chain;
}

inline std::string describe(const Chain& chain, Bytes memory) {
  std::string text = "memory " + std::to_string(memory) + ", links " +
                     std::to_string(chain.up.bytes_per_us) + " " +
                     std::to_string(chain.down.bytes_per_us) + ", layers";
  for (const Layer& l : chain.layers) {
    for (const std::int64_t n : {l.weight, l.forward, l.backward, l.activation, l.forward_scratch,
                                 l.backward_scratch}) {
      text += " " + std::to_string(n);
    }
    text += ";";
  }
  return text;
}

inline constexpr Solver kSolvers[] = {Solver::kSingle, Solver::kGreedy, Solver::kGreedyStar};

}  // namespace outsize::weights
