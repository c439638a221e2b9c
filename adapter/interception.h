// Puts outsize between PyTorch's dispatcher and its kernels.
//
// A dispatch key above autograd, free for out-of-tree use, is included in the thread-local state of
// every thread that opts in. Ops that touch no bytes fall through it at no cost; the commonest data
// ops have typed wrappers (hot_ops.h); everything else goes through a boxed fallback.
//
// The key travels to autograd's threads by itself; threads that users start must opt in.
#pragma once

#include <c10/core/DispatchKey.h>
#include <c10/core/DispatchKeySet.h>

#include "core/base/result.h"

// Chosen per torch version at configure time (docs/adr): it must sit above autograd.
#ifndef OUTSIZE_DISPATCH_KEY
#define OUTSIZE_DISPATCH_KEY DeferredInit
#endif

namespace outsize::adapter {

inline constexpr c10::DispatchKey kKey = c10::DispatchKey::OUTSIZE_DISPATCH_KEY;
// What an op still has to go through after us.
inline constexpr c10::DispatchKeySet kBelowKey(c10::DispatchKeySet::FULL_AFTER, kKey);

// Registers with the dispatcher; idempotent. Fails where another library holds the key.
Status install_interception();

// Turns interception on or off for the calling thread; says whether it was on.
bool include_thread(bool on);
bool thread_included();

}  // namespace outsize::adapter
