"""What the tests of the adapter share: a budget in force, and what a program computed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
core = pytest.importorskip("outsize._core")

from torch import nn  # noqa: E402

from outsize import vector_math  # noqa: E402

vector_math.settle()  # before the plain run, as support/record.py does

MIB = 1 << 20


@contextmanager
def managed(budget: int, **options: object) -> Iterator[None]:
    core.create(budget, **options)
    before = core.include_thread(True)
    try:
        yield
    finally:
        core.include_thread(before)
        core.shutdown()


@dataclass
class Outcome:
    """Everything a program computed, in order, as tensors that are compared bit by bit."""

    tensors: list = field(default_factory=list)

    def add(self, *tensors) -> None:
        self.tensors.extend(t.detach().clone() for t in tensors if t is not None)


def assert_same(plain: Outcome, ours: Outcome) -> None:
    assert len(plain.tensors) == len(ours.tensors) > 0
    for i, (a, b) in enumerate(zip(plain.tensors, ours.tensors, strict=True)):
        a, b = (t.coalesce().to_dense() if t.is_sparse else t for t in (a, b))
        assert a.dtype == b.dtype and a.shape == b.shape, i
        bits_a, bits_b = (t.reshape(-1).view(torch.uint8) for t in (a, b))
        assert torch.equal(bits_a, bits_b), f"tensor {i} of {len(plain.tensors)} differs"


def train(model: nn.Module, batches: list, optimizer: torch.optim.Optimizer,
          loss_of: Callable, outcome: Outcome) -> None:
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        outcome.add(loss)
        optimizer.step()
        core.step()
    outcome.add(*(p.grad for p in model.parameters()))
    outcome.add(*model.parameters(), *model.buffers())


def run_script(script: str) -> str:
    """In a process of its own, which must end by itself and well."""
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", script], text=True,
                          capture_output=True, timeout=300, cwd=Path(__file__).parent.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(program: Callable[[Outcome], None]) -> Outcome:
    outcome = Outcome()
    torch.manual_seed(7)
    program(outcome)
    return outcome
