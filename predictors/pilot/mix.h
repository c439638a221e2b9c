// Hashing of names that must mean the same in every run.
#pragma once

#include <cstdint>

namespace outsize::pilot {

// The finisher of splitmix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014). Of one hash no two values
// give the same: what is added is another number for each. Saved models hold such names: another mix is another kModelVersion.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t z = hash + 0x9e3779b97f4a7c15ULL * (value + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  return z == 0 ? 1 : z;  // 0 is nobody
}

}  // namespace outsize::pilot
