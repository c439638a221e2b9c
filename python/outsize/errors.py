"""The exceptions a program can catch: `OutsizeError`, and its children `BudgetError`, `SpillError`.

They are born in the compiled part, which loads torch; so this module fetches them when they are
first named. `except outsize.BudgetError:` names them only when something was raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

NAMES = ("OutsizeError", "BudgetError", "SpillError")


class Unavailable(ImportError):
    """outsize cannot work in this interpreter; the message says why in one sentence."""


if TYPE_CHECKING:

    class OutsizeError(RuntimeError):
        """Something outsize could not do; the message says what, where and what to try."""

    class BudgetError(OutsizeError):
        """An op needs more memory than the budget allows."""

    class SpillError(OutsizeError):
        """The spill file could not be written, read or grown."""


def __getattr__(name: str) -> type[RuntimeError]:
    if name in NAMES:
        from outsize import compiled

        found: type[RuntimeError] = getattr(compiled.load(), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
