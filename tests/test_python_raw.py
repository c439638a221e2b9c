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
