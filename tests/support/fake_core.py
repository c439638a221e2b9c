"""A core that records what the Python side tells it, for tests of what only hooks things up."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import outsize
import pytest
import torch
import torch.utils.dlpack
from outsize import compiled
from outsize.units import GIB


@dataclass
class FakePin:
    pins: list[str]
    bytes: int

    def release(self) -> None:
        self.pins.append(f"unpin {self.bytes}")


class FakeCore:
    """Records what the Python side tells the engine."""

    class OutsizeError(RuntimeError):
        pass

    class BudgetError(OutsizeError):
        pass

    class SpillError(OutsizeError):
        pass

    def __init__(self) -> None:
        self.created: tuple[Any, ...] | None = None
        self.on = False
        self.steps = 0
        self.included: list[tuple[int, bool]] = []
        self.exposed: list[int] = []
        self.pins: list[str] = []
        self.reinstalled = 0
        self.mechanism = "userfaultfd+move"
        self.shutdown_error: str | None = None
        self.warning = ""

    def create(self, *options: Any) -> None:
        self.created, self.on = options, True

    def shutdown(self) -> None:
        if self.shutdown_error:
            raise self.OutsizeError(self.shutdown_error)
        self.on = False

    def running(self) -> bool:
        return self.on

    def include_thread(self, on: bool) -> bool:
        self.included.append((threading.get_ident(), on))
        return False

    def step(self) -> None:
        self.steps += 1

    def stats(self) -> dict[str, Any]:
        return {
            "budget": self.created[0] if self.created else 0,
            "steps": self.steps,
            "mechanism": self.mechanism,
            "warning": self.warning,
            "unknown_to_python": 1,
        }

    def expose(self, tensor: torch.Tensor) -> None:
        self.exposed.append(tensor.numel())

    def pin(self, tensor: torch.Tensor, for_program: bool = False) -> FakePin:
        self.pins.append(f"pin {tensor.numel()}")
        return FakePin(self.pins, tensor.numel())

    def memory_limits(self) -> dict[str, int]:
        return {"total": 16 * GIB, "available": 8 * GIB, "cgroup": 0, "cgroup_used": 0}

    def reinstall_fault_handler(self) -> None:
        self.reinstalled += 1


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch):
    fake = FakeCore()
    monkeypatch.setattr(compiled, "_loaded", fake)
    monkeypatch.delenv("OUTSIZE", raising=False)
    yield fake
    fake.shutdown_error = None
    outsize.disable()
