"""outsize: train networks that are larger than memory.

    outsize run --budget 2GiB train.py --epochs 3

or, inside a program:

    import outsize

    with outsize.budget("2GiB"):
        train()
    print(outsize.stats())

Importing this package is cheap: torch and the compiled part are loaded when a budget is enabled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outsize.api import budget, disable, doctor, enable, enabled, stats, step
from outsize.wishes import hint, pin

if TYPE_CHECKING:
    from outsize.errors import BudgetError, OutsizeError, SpillError

    __version__: str

__all__ = [
    "BudgetError",
    "OutsizeError",
    "SpillError",
    "__version__",
    "budget",
    "disable",
    "doctor",
    "enable",
    "enabled",
    "hint",
    "pin",
    "stats",
    "step",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # CMakeLists.txt names it once; the installed metadata repeats it
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("outsize")
        except PackageNotFoundError:
            return "0.0.0+source"
    if name in ("OutsizeError", "BudgetError", "SpillError"):
        from outsize import errors

        return getattr(errors, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
