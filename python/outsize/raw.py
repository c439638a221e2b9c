"""Tells the engine about pointers that leave PyTorch's sight.

`numpy()`, `data_ptr()`, DLPack hand out an address that lives on after the call. Reads
through it always find the right bytes (a fault brings them back). Writes through it are seen by no
dispatcher, so the engine must treat the bytes as changed whenever they are resident. Pointers that
live only inside one call (`tolist()`, `storage[i] = x`) need nothing: the page guard notices them.
`torch.save` asks for addresses only to compare them, so it exposes nothing.

What the kernel itself reads and writes through it is platforms/host/system_calls.h's matter.
"""

from __future__ import annotations

import faulthandler
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from outsize.compiled import Core
from outsize.patching import Patches

_comparing = threading.local()  # .on: this thread asks for addresses only to compare them


def cover_raw_access(core: Core, patches: Patches) -> None:
    import torch
    import torch.utils.dlpack

    def exposing(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
                core.expose(tensor)
            return function(tensor, *args, **kwargs)

        return call

    tensor_pointer = exposing(torch.Tensor.data_ptr)
    storage_pointer = torch.UntypedStorage.data_ptr

    @functools.wraps(storage_pointer)
    def storage_data_ptr(storage: Any) -> int:
        if not getattr(_comparing, "on", False) and storage.device.type == "cpu":
            core.expose(as_tensor(storage))
        return storage_pointer(storage)

    for name in ("numpy", "__dlpack__"):
        patches.replace(torch.Tensor, name, exposing(getattr(torch.Tensor, name)))
    patches.replace(torch.Tensor, "data_ptr", tensor_pointer)
    patches.replace(torch.UntypedStorage, "data_ptr", storage_data_ptr)
    to_dlpack: Callable[..., Any] = vars(torch)["to_dlpack"]
    for module in (torch, torch.utils.dlpack):
        patches.replace(module, "to_dlpack", exposing(to_dlpack))
    _cover_save(patches)


def cover_faulthandler(core: Core, patches: Patches) -> None:
    """`faulthandler.enable()` takes SIGSEGV over; ours must see it first, and hands on the rest."""
    enable = faulthandler.enable

    @functools.wraps(enable)
    def enable_under_ours(*args: Any, **kwargs: Any) -> None:
        enable(*args, **kwargs)
        core.reinstall_fault_handler()

    patches.replace(faulthandler, "enable", enable_under_ours)


def as_tensor(storage: Any) -> Any:
    """A byte tensor over the same storage (no copy)."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


@contextmanager
def _only_comparing() -> Iterator[None]:
    before = getattr(_comparing, "on", False)
    _comparing.on = True
    try:
        yield
    finally:
        _comparing.on = before


def _cover_save(patches: Patches) -> None:
    import torch
    import torch.serialization

    save = torch.save

    @functools.wraps(save)
    def comparing_save(*args: Any, **kwargs: Any) -> None:
        with _only_comparing():
            save(*args, **kwargs)

    patches.replace(torch, "save", comparing_save)
    patches.replace(torch.serialization, "save", comparing_save)
