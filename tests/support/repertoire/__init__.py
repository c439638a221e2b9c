"""What people do with PyTorch, one small program each: run plain and under budgets, and compared.

Each is some tens of MiB of storages that own an extent, in ops that need little at a time, so that
bytes must leave and come back at a quarter of the peak.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from record import Record

# A chapter's programs run in one process, one after the other.
CHAPTERS = ("training", "differentiation", "layouts", "sharing", "operators", "compilers")

Program = Callable[[Record], None]


def programs(chapter: str) -> dict[str, Program]:
    return importlib.import_module(f"repertoire.{chapter}").PROGRAMS
