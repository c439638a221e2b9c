"""Writes tensors to files where the kernel cannot wait for spilled bytes.

A write(2) of spilled bytes makes the kernel itself fault. Where the kernel's faults cannot be
answered (the signal path, or userfaultfd for user-mode faults only) the call fails with EFAULT. So:

- `torch.save`: each storage is brought up first and held until it is written;
- `safetensors`: its writer hands raw pointers to the kernel, all tensors at once, which a budget
  may not hold; so here the file is written piece by piece through a small buffer, in its format.

What remains is loud, never wrong: a NumPy view of spilled bytes given straight to the kernel
(`ndarray.tofile`, `socket.send`) raises OSError (EFAULT) there; `.copy()` it first.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Protocol

from outsize.compiled import Core
from outsize.patching import Patches
from outsize.raw import as_tensor
from outsize.units import MIB

PIECE = 4 * MIB


def cover_saving(core: Core, patches: Patches) -> None:
    _cover_torch_save(core, patches)
    _cover_safetensors(patches)


def _cover_torch_save(core: Core, patches: Patches) -> None:
    import torch

    @contextmanager
    def held(storage: Any) -> Iterator[None]:
        if not isinstance(storage, torch.UntypedStorage) or storage.device.type != "cpu":
            yield
            return
        pin = core.pin(as_tensor(storage))
        try:
            yield
        finally:
            pin.release()

    class PinningFileWriter(torch._C.PyTorchFileWriter):
        def write_record(self, name: str, data: Any, size: int) -> None:
            with held(data):
                super().write_record(name, data, size)

    PinningFileWriter.__name__ = PinningFileWriter.__qualname__ = "PyTorchFileWriter"
    patches.replace(torch._C, "PyTorchFileWriter", PinningFileWriter)

    write_file: Callable[..., Any] = torch.UntypedStorage._write_file

    @functools.wraps(write_file)
    def pinned_write_file(storage: Any, *args: Any, **kwargs: Any) -> None:
        with held(storage):
            write_file(storage, *args, **kwargs)

    patches.replace(torch.UntypedStorage, "_write_file", pinned_write_file)


# --- safetensors ----------------------------------------------------------------------------------

# The order in which safetensors lays tensors out: by type, this list from its end, then by name.
_LAYOUT = [
    "BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ",
    "F8_E5M2FNUZ", "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64",
]  # fmt: skip


class Spec(Protocol):
    """One tensor, as safetensors describes it."""

    dtype: str
    shape: list[int]
    data_ptr: int
    data_len: int


def _cover_safetensors(patches: Patches) -> None:
    try:
        module: Any = importlib.import_module("safetensors.torch")
    except ImportError:
        return
    original = getattr(module, "serialize_file", None)
    if original is None:  # another version, with other insides: it is loud if it cannot write
        return

    @functools.wraps(original)
    def serialize_file(
        specs: Mapping[str, Any], filename: str | os.PathLike[str], metadata: Any = None
    ) -> None:
        if not all(getattr(spec, "dtype", "") in _LAYOUT for spec in specs.values()):
            original(specs, filename, metadata=metadata)
            return
        with open(filename, "wb") as file:
            write_safetensors(specs, file, metadata)

    patches.replace(module, "serialize_file", serialize_file)


def write_safetensors(
    specs: Mapping[str, Spec], file: IO[bytes], metadata: Mapping[str, str] | None
) -> None:
    """The format: eight bytes of length, a JSON header padded to eight, the tensors' bytes."""
    ordered = sorted(specs.items(), key=lambda item: (-_LAYOUT.index(item[1].dtype), item[0]))
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    end = 0
    for name, spec in ordered:
        begin, end = end, end + spec.data_len
        header[name] = {
            "dtype": spec.dtype, "shape": list(spec.shape), "data_offsets": [begin, end]
        }  # fmt: skip
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for _, spec in ordered:
        for offset in range(0, spec.data_len, PIECE):
            # A copy by the processor, which may fault; the kernel then reads the copy.
            piece = min(PIECE, spec.data_len - offset)
            file.write(ctypes.string_at(spec.data_ptr + offset, piece))
