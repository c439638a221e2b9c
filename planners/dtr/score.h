// The quotient of two integers as the nearest double, ties to even, whatever their size.
//
// DTR's public simulator scores in Python, whose integers have no limit and whose division rounds
// once. Two storages may tie only because of that rounding, and a tie decides what is dropped: to
// take the same decisions, the same doubles are needed. Bytes times nanoseconds pass 2^53 within
// one training step, so that plain floating point would round twice.
#pragma once

#include <cstdint>

namespace outsize::dtr {

__extension__ typedef unsigned __int128 Wide;

// `denominator` is above 0 and below 2^127.
double nearest_quotient(std::int64_t numerator, Wide denominator);

}  // namespace outsize::dtr
