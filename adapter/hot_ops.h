// The commonest data ops, wrapped with their C++ types: no boxing, no table look-up.
//
// Only speed depends on this table. An op that is not in it goes through the boxed fallback.
#pragma once

namespace outsize::adapter {

// Called once, with the fallback already registered.
void register_hot_ops();

}  // namespace outsize::adapter
