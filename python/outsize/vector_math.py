"""Keeps MKL's vector functions from giving other numbers at their first call.

PyTorch hands exp, tanh, sqrt and others of long tensors to oneMKL, a piece to each thread. oneMKL (2024.2, as in
PyTorch's packages) settles which code a function runs when it is first called; where two threads make that
call at once, one of them may run code of low accuracy, for that call alone: pytorch/pytorch issue 188792. One such
call in a first step, and all losses of a run differ from those of the next. Sessions do this themselves
(adapter/vector_math.h); this is for plain runs that are compared with them.
"""

from __future__ import annotations

import functools

FUNCTIONS = (
    "acos", "asin", "atan", "cos", "erf", "erfc", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2", "sin",
    "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip


@functools.cache
def settle() -> None:
    """Calls each function once on one thread, for either precision; 2 ms, once a process."""
    import torch

    if not torch.backends.mkl.is_available():
        return
    for dtype in (torch.float32, torch.float64):
        few = torch.full((4,), 0.5, dtype=dtype, device="cpu")  # too few to be shared by threads
        for name in FUNCTIONS:
            getattr(torch, name)(few)
