// The ways in which what a sample says is read at a choice: each gives a number, and a choice that goes with one of
// these numbers is foreseen where it comes again.
//
// A sequence's value may stand where the choice stands among its like since the sample came (a node's kind, a
// sequence's expert), or where the choice stands that this one lies within; the same among its *kin*, ops of one kind, whose
// classes may not have met yet: cells of a tree, some of which only ever follow a few others. Or at a place of its own
// (what kind of text it is, by the byte at its middle). The first value may say it, alone or with where the choice stands;
// whole, or to within an eighth (a length, how many bytes of a text differ). The sample before this one may say it too.
#pragma once

#include <cstdint>
#include <optional>

#include "predictors/pilot/network.h"
#include "predictors/pilot/sample.h"
#include "predictors/pilot/trail.h"

namespace outsize::pilot {

// Places of the first long sequence, then kReadings of every row of the sample.
using Reader = std::uint32_t;
inline constexpr Reader kPlaces = 256;
inline constexpr Reader kReadings = 11;

inline Reader readers(const Sample& sample) { return kPlaces + static_cast<Reader>(sample.rows()) * kReadings; }
inline bool is_place(Reader reader) { return reader < kPlaces; }

// Who reads: a choice of this class, at which ops of this kind come.
struct Choosing {
  ClassId choice = kNobody;
  std::uint32_t kind = 0;
};

// What that reader sees at the next such choice, as a key of contexts; nothing where it sees nothing.
std::optional<std::uint64_t> read_at(const Sample& sample, const Trail& trail, const Choosing& choosing, Reader reader);

}  // namespace outsize::pilot
