// Keeps MKL's vector functions from giving other numbers at their first call.
//
// PyTorch hands exp, tanh, sqrt and others of long tensors to oneMKL, a piece to each thread. oneMKL (2024.2, as in
// PyTorch's packages) settles which code a function runs when it is first called; where two threads make that call at
// once, one of them may run code of low accuracy, for that call alone: pytorch/pytorch issue 188792. One such call in
// a first step, and all losses of a run differ from those of the next.
#pragma once

namespace outsize::adapter {

// Calls each function for either precision on this thread, once a process. Changes nothing else; functions that this
// PyTorch has not are left out.
void settle_vector_math();

}  // namespace outsize::adapter
