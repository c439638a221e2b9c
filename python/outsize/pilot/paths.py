"""What the commands ask of the compiled simulator."""

from __future__ import annotations

from typing import Any, Protocol, cast

from outsize.pilot.model import PilotModel
from outsize.simulator import load_simulator


class TracePath(Protocol):
    """`outsize._sim.TracePath` (python/bindings/trace_paths.cpp)."""

    ops: int
    tokens: int
    steps: int
    samples: int
    windows: int
    base_type: str
    dependent: dict[str, int]  # path-dependent extents: how many, and their bytes

    def blocks(self) -> list[dict[str, Any]]: ...

    def judge(self, predictor: str, from_step: int, model: bytes = b"") -> dict[str, Any]: ...


class Paths(Protocol):
    """`outsize._sim`: what cannot be read, or makes no sense, is a ValueError."""

    def TracePath(self, path: str, block_bytes: int = 0, rate: int = 0) -> TracePath: ...

    def PilotModel(self, path: str) -> PilotModel: ...

    def check_forecaster(self, name: str) -> None: ...

    def forecaster_names(self) -> list[str]: ...


def load() -> Paths:
    return cast(Paths, load_simulator())
