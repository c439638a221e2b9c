"""Raw pointers, files and buffers: what the Python side tells the engine before it hands them out."""

from __future__ import annotations

import faulthandler
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import outsize
import pytest
import torch
import torch.utils.dlpack
from outsize import raw
from support.fake_core import FakeCore, core

__all__ = ["core"]  # the fixture


@pytest.mark.parametrize(
    "hand_out",
    [
        lambda t: t.numpy(),
        lambda t: np.asarray(t),
        lambda t: np.asarray(t, dtype=np.float64),
        lambda t: t.data_ptr(),
        lambda t: np.from_dlpack(t),
        lambda t: torch.utils.dlpack.to_dlpack(t),
        lambda t: torch.from_dlpack(t),
        lambda t: memoryview(t.numpy()),
    ],
)
def test_pointers_that_live_on_are_told(core: FakeCore, hand_out) -> None:
    tensor = torch.arange(5.0)
    with outsize.budget("64MiB"):
        hand_out(tensor)
        assert 5 in core.exposed


def test_storage_pointers_are_told(core: FakeCore) -> None:
    tensor = torch.arange(5.0)
    with outsize.budget("64MiB"):
        assert tensor.untyped_storage().data_ptr() == tensor.data_ptr()
        assert core.exposed == [20, 5]
        typed = torch.TypedStorage(
            wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True
        )
        typed._data_ptr()
        assert core.exposed == [20, 5, 20]


def test_values_are_those_of_plain_torch(core: FakeCore) -> None:
    tensor = torch.arange(5.0)
    plain = (tensor.numpy().tolist(), tensor.data_ptr())
    with outsize.budget("64MiB"):
        assert (tensor.numpy().tolist(), tensor.data_ptr()) == plain
        assert tensor.numpy(force=True).tolist() == plain[0]
        with pytest.raises(RuntimeError, match="requires grad"):
            tensor.clone().requires_grad_().numpy()
        assert torch.ones(2, device="meta").data_ptr() == 0
        sparse = torch.eye(3).to_sparse()
        with pytest.raises((RuntimeError, TypeError)):
            sparse.numpy()


def test_saving_compares_pointers_and_exposes_nothing(core: FakeCore, tmp_path: Path) -> None:
    tensor = torch.arange(5.0)
    with outsize.budget("64MiB"):
        torch.save({"a": tensor}, tmp_path / "a.pt")
        torch.save({"a": tensor}, tmp_path / "b.pt", _use_new_zipfile_serialization=False)
        assert core.exposed == [] and core.pins == []


@pytest.mark.parametrize("how", ["path", "file", "buffer", "legacy"])
@pytest.mark.parametrize("why", ["user faults only", "signal path"])
def test_saving_holds_bytes_for_the_kernel(
    core: FakeCore, tmp_path: Path, how: str, why: str
) -> None:
    core.kernel_faults = why == "signal path"
    core.mechanism = "signal" if why == "signal path" else "userfaultfd+move"
    value = {"a": torch.arange(5.0), "b": torch.ones(3)}
    target: Any = tmp_path / "a.pt"
    with outsize.budget("64MiB"):
        if how == "path":
            torch.save(value, target)
        elif how == "legacy":
            torch.save(value, target, _use_new_zipfile_serialization=False)
        elif how == "file":
            with open(target, "wb") as file:
                torch.save(value, file)
        else:
            buffer = io.BytesIO()
            torch.save(value, buffer)
            target.write_bytes(buffer.getvalue())
    assert sorted(core.pins[0::2]) == ["pin 12", "pin 20"]
    assert [f"un{pin}" for pin in core.pins[0::2]] == core.pins[1::2]  # one at a time
    loaded = torch.load(target)
    assert loaded["a"].tolist() == value["a"].tolist() and loaded["b"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("metadata", [None, {"format": "pt", "naïve": "yes"}])
def test_safetensors_are_written_as_safetensors_would(
    core: FakeCore, tmp_path: Path, metadata: dict[str, str] | None
) -> None:
    from safetensors.torch import load_file, save_file

    tensors = {
        "weight": torch.randn(3000, 1000),  # more than one piece
        "b16": torch.ones(3, dtype=torch.bfloat16),
        "half": torch.ones(5, dtype=torch.float16),
        "long": torch.arange(7),
        "flag": torch.tensor([True, False]),
        "byte": torch.ones(3, dtype=torch.uint8),
        "scalar": torch.tensor(1.5, dtype=torch.float64),
        "empty": torch.empty(0, 4),
        "wörd": torch.ones(2, dtype=torch.int32),
    }
    one = dict(list((metadata or {}).items())[:1]) or None  # safetensors shuffles several
    save_file(tensors, tmp_path / "theirs", metadata=one)
    core.kernel_faults = False
    with outsize.budget("64MiB"):
        save_file(tensors, tmp_path / "ours", metadata=one)
        save_file(tensors, str(tmp_path / "both"), metadata=metadata)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    loaded = load_file(tmp_path / "both")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_faulthandler_comes_second(core: FakeCore) -> None:
    was_on = faulthandler.is_enabled()
    with outsize.budget("64MiB"), open(os.devnull, "w") as sink:
        before = core.reinstalled
        faulthandler.enable(file=sink)
        assert core.reinstalled == before + 1 and faulthandler.is_enabled()
        if not was_on:
            faulthandler.disable()


def test_a_storage_as_a_tensor_shares_its_bytes() -> None:
    tensor = torch.arange(4.0)
    seen = raw.as_tensor(tensor.untyped_storage())
    assert (seen.data_ptr(), seen.numel(), seen.dtype) == (tensor.data_ptr(), 16, torch.uint8)
