"""Makes the kernels that `torch.compile` writes (inductor's C++) ops that the engine knows.

Such a kernel gets tensors and goes straight to their bytes, past the dispatcher. Page faults alone
would serve it, piece by piece; as an op its operands are there when it begins, are foreseen, and
count as used. Matrix products and the like are called through the dispatcher anyway.

Kernels loaded before the budget was enabled, and those of `cpp_wrapper=True`, whose caller is C++
too, are left to the page faults: right as well, and slower.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import sys
from collections.abc import Callable
from typing import Any

from outsize.compiled import Core
from outsize.patching import Patches


def cover_inductor(core: Core, patches: Patches) -> None:
    import torch

    # Importing inductor takes a second: only for programs that compile.
    if "torch._dynamo" in sys.modules:
        _cover(core, patches)
        return
    compile_ = torch.compile

    @functools.wraps(compile_)
    def covering_compile(*args: Any, **kwargs: Any) -> Any:
        if core.running():
            _cover(core, patches)
        return compile_(*args, **kwargs)

    patches.replace(torch, "compile", covering_compile)


def _cover(core: Core, patches: Patches) -> None:
    try:
        async_compile: Any = importlib.import_module("torch._inductor.async_compile")
        load = async_compile.AsyncCompile.cpp_pybinding
        later = async_compile.LambdaFuture
    except (ImportError, AttributeError):
        return  # a torch without inductor, or one that has it elsewhere: page faults serve its kernels
    if hasattr(load, "outsize_covers"):
        return

    @functools.wraps(load)
    def load_as_op(self: Any, argtypes: list[str], source_code: str) -> Any:
        kernel = load(self, argtypes, source_code)
        if isinstance(kernel, later):
            loaded = functools.partial(as_op, core, argtypes=argtypes, source=source_code)
            return later(lambda: loaded(kernel.result()), getattr(kernel, "future", None))
        return as_op(core, kernel, argtypes, source_code)

    load_as_op.outsize_covers = True  # type: ignore[attr-defined]
    patches.replace(async_compile.AsyncCompile, "cpp_pybinding", load_as_op)


def as_op(core: Core, kernel: Callable[..., Any], argtypes: list[str], source: str) -> Any:
    """`argtypes` are C++ types: `const float*` is read, `float*` written, the rest are numbers."""
    digest = hashlib.sha256(source.encode()).digest()
    written = [kind.rstrip().endswith("*") and not kind.startswith("const") for kind in argtypes]
    return core.Kernel(kernel, "inductor::kernel", int.from_bytes(digest[:8], "little"), written)
