"""What a program computed, as hashes of bytes: two runs are equal when every hash is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from outsize import vector_math

# A plain run is the measure of all others. Where two threads of its first step are the first to call one of MKL's vector
# functions, its numbers are of low accuracy once, and it is plain that differs: sparse Adam's square root did.
vector_math.settle()


def digest(tensor: torch.Tensor) -> str:
    """A hash of dtype, shape and every byte; -0.0 and 0.0 differ, as do two kinds of NaN."""
    tensor = tensor.detach()
    if tensor.is_sparse:
        tensor = tensor.coalesce()
        return digest(tensor.indices()) + digest(tensor.values())
    sha = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    tensor = tensor.contiguous()
    # As one row of bytes, whatever stride it has where it has a single element.
    flat = tensor.as_strided((tensor.numel(),), (1,))
    sha.update(flat.view(torch.uint8).numpy().data)
    return sha.hexdigest()[:16]


class Record:
    """Collects labelled hashes in the order in which a program reports them."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str]] = []

    def add(self, label: str, *tensors: torch.Tensor | None) -> None:
        for index, tensor in enumerate(tensors):
            value = "none" if tensor is None else digest(tensor)
            self.entries.append((f"{label}[{index}]", value))

    def model(self, parameters: Iterable[torch.Tensor], buffers: Iterable[torch.Tensor] = ()) -> None:
        parameters = list(parameters)
        self.add("gradient", *(p.grad for p in parameters))
        self.add("weight", *parameters)
        self.add("buffer", *buffers)

    def optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        for state in optimizer.state.values():
            self.add("state", *(v for v in state.values() if isinstance(v, torch.Tensor)))
