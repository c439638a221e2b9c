// What an op does with memory, in six small numbers that mean the same in every network: how many loops of each *idiom* it
// consists of. After DyNN-Offload (Ren et al., HPCA 2024), which tells its pilot of a network's ops in this way. Its
// table of families is taken as it is; it does not say what its columns mean, so these names are a reading of it; and what it
// lacks (matrix products, softmax, layer norms, attention, indexing, optimizers) is ours, as idioms.cpp marks line by line.
//
// Distinct rows are numbered: an op's *idiom class*, which stands in its site (types.h), so in traces and models too. Numbers
// never change their meaning: new rows go to the end. Some rows also say what kind of network has such ops.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/base/types.h"

namespace outsize {

// Of which a network's base type is: what most of the time of ops that say so goes to.
enum class BaseType : std::uint8_t { kPlain, kConvolution, kRecurrent, kAttention };
inline constexpr std::size_t kBaseTypes = 4;
const char* to_string(BaseType type);

inline constexpr std::size_t kIdioms = 6;
inline constexpr std::array<std::string_view, kIdioms> kIdiomNames{"transpose", "gather",  "scatter",
                                                                   "reduction", "stream", "stencil"};
using Idioms = std::array<std::uint8_t, kIdioms>;  // in that order

using IdiomClass = std::uint8_t;
inline constexpr IdiomClass kNoIdiomClass = 0;  // of ops that nobody knows
inline constexpr std::size_t kIdiomClassesMax = std::size_t{1} << kIdiomBits;

// How many there are, the unknown one included: below kIdiomClassesMax, with room.
std::size_t idiom_classes();
// Of class 0, and of what is no class: nothing.
const Idioms& idioms_of(IdiomClass number);
BaseType mark_of(IdiomClass number);

// What a network's ops say of it, weighed by the time that they take. Few ops need say so: much of an attention's time goes to
// products, which all networks have.
class BaseTypeScale {
 public:
  void weigh(BaseType mark, Nanos time) { times_[static_cast<std::size_t>(mark)] += time; }
  BaseType type() const;
  Nanos time(BaseType mark) const { return times_[static_cast<std::size_t>(mark)]; }

 private:
  std::array<Nanos, kBaseTypes> times_{};
};

// By an op's name as PyTorch has it ("aten::add_.Tensor"), or by its site's ("aten::mm [8x8], [8x8]"). Ops that write in
// place or into `out` are as the plain ones, whatever library they are of. Slow: once an op, not at each run of it.
IdiomClass idiom_class_named(std::string_view name);

}  // namespace outsize
