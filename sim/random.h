// A small seeded generator: the same numbers on every machine and with every standard library.
#pragma once

#include <cstdint>

namespace outsize::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // 0 <= result < bound; the bias of the remainder does not matter here.
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool chance(int percent) { return static_cast<int>(below(100)) < percent; }
  bool one_in(std::uint64_t n) { return n > 0 && below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace outsize::sim
