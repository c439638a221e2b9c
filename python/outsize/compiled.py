"""The way to the compiled part, `outsize._core`, and the list of what it offers.

Everything in the package that needs the engine asks `load()`; nothing else imports `_core`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol, cast

from outsize.errors import Unavailable


class HeldPin(Protocol):
    """What `Core.pin` keeps in RAM, until it is released or forgotten."""

    def release(self) -> None: ...


class DiskLoad(Protocol):
    """Moves `bytes` of a spill file of its own whenever it is asked."""

    bytes: int

    def move(self, write: bool) -> None: ...


class Core(Protocol):
    """`outsize._core` as Python sees it (adapter/python_module.cpp)."""

    OutsizeError: type[RuntimeError]
    BudgetError: type[RuntimeError]
    SpillError: type[RuntimeError]

    def create(
        self,
        budget: int,
        process_budget: int,
        policy: str,
        spill_dir: str,
        spill_limit: int,
        disk_write_limit: int,
        faults: str,
        io_threads: int,
        verify: bool,
        decision_log: str,
        record: str,
        record_meta: str,
        pilot: str,
        foresee: str,
    ) -> None: ...
    def shutdown(self) -> None: ...
    def running(self) -> bool: ...
    def include_thread(self, on: bool) -> bool: ...
    def step(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def keep_timeline(self, steps: int) -> None: ...
    def timeline(self) -> tuple[str, dict[int, str]]: ...  # JSON, empty where none was kept; names of op sites
    def sample(self, features: list[tuple[str, list[float]]]) -> None: ...
    def end_recording(self) -> dict[str, Any]: ...
    def expose(self, tensor: Any) -> None: ...
    def pin(self, tensor: Any, for_program: bool = False) -> HeldPin: ...
    def Kernel(
        self, function: Callable[..., Any], name: str, hash: int, written: list[bool]
    ) -> Callable[..., Any]: ...
    def hint(self, tensor: Any, soon: bool) -> None: ...
    def adopt(self, tensor: Any) -> bool: ...
    def memory_limits(self) -> dict[str, int]: ...
    def measure_disk(self, directory: str, sample: int) -> dict[str, float]: ...
    def measure_moves(self, directory: str, sample: int) -> dict[str, int]: ...
    def DiskLoad(self, directory: str, bytes: int) -> DiskLoad: ...
    def fault_support(self) -> dict[str, Any]: ...
    def reinstall_fault_handler(self) -> None: ...
    def built_for_torch(self) -> str: ...


_loaded: Core | None = None


def release(version: str) -> str:
    """`2.13.0+cpu` -> `2.13.0`: builds of one release share their C++ interface."""
    return version.partition("+")[0]


def load() -> Core:
    """The compiled part, with torch loaded before it; raises Unavailable where they do not fit."""
    global _loaded
    if _loaded is None:
        _loaded = _load()
    return _loaded


def loaded() -> Core | None:
    """The compiled part if something has loaded it already."""
    return _loaded


def _load() -> Core:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise Unavailable(
            f"outsize needs PyTorch, which does not import in this environment: {error}"
        ) from error
    try:
        core = cast(Core, importlib.import_module("outsize._core"))
    except ModuleNotFoundError as error:
        raise Unavailable(
            f"outsize is not built: its compiled part is missing beside {__file__} ({error}); in a"
            " checkout, `make` builds and installs it."
        ) from error
    except ImportError as error:
        raise Unavailable(
            f"outsize's compiled part does not load with torch {torch.__version__}: it fits the one"
            " torch release that it was built with; install that one, or build outsize again in"
            f" this environment. ({error})"
        ) from error
    built = core.built_for_torch()
    if release(built) != release(torch.__version__):
        raise Unavailable(
            f"This outsize was built for torch {built}, but torch {torch.__version__} is installed:"
            f" install torch=={release(built)}, or build outsize again in this environment."
        )
    return core
