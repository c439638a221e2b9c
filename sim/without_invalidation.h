// A program as it would run if nobody said that bytes are no longer used: what UM does without
// DeepUM's invalidation. PyTorch's caching allocator keeps the memory of a dead tensor for the next one
// of its size; to whoever moves bytes it looks as if it were still in use, so that it is written down to
// make room and comes back up when it is handed out again.
#pragma once

#include "sim/program.h"

namespace outsize::sim {

// Deaths are left out, and a birth inside an op takes over the object that died last of those of its
// size and thread, as an operand that the op writes. Births outside of ops stay what they are.
Program without_invalidation(const Program& program);

}  // namespace outsize::sim
