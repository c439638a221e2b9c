"""What may be asked for: the same on the command line, in `outsize.enable` and in a session. Imports nothing heavy."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MOST_IO_THREADS = 1024

# What may be given for an option, where it is not a size.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "policy": ((str,), "the name of a policy"),
    "spill_dir": ((str, bytes, os.PathLike), "a path to a directory"),
    "faults": ((str,), "the name of a fault mechanism"),
    "io_threads": ((numbers.Integral,), "a number of threads"),
    "verify": ((bool,), "True or False"),
    "decision_log": ((str, bytes, os.PathLike), "a path to a file"),
    "pilot": ((str, bytes, os.PathLike), "a path to a file"),
    "foresee": ((str, bytes, os.PathLike), "a path to a file"),
    "record": ((str, bytes, os.PathLike), "a path to a file"),
}
_SIZE = ((str, numbers.Real), "a size: write for example '2GiB', or a number of bytes")


@dataclass(frozen=True)
class Options:
    """How to run; the same names and defaults on the command line and in `outsize.enable`."""

    budget: str | int = "auto"
    budget_rss: str | int | None = None  # for all that the process holds in RAM; `budget` follows from it
    policy: str = "lookahead"
    spill_dir: str = ""  # empty: $TMPDIR, else /var/tmp
    spill_limit: str | int = 0  # 0: what the file system has free
    disk_write_limit: str | int = 0  # "2TB/day" or bytes a second; 0: none
    faults: str = "auto"
    io_threads: int = 4
    verify: bool = False
    decision_log: str = ""
    record: str = ""  # a file to record a trace to
    pilot: str = ""  # a model that policy pilot begins with
    foresee: str = ""  # a trace that policy oracle foresees from

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> Options:
        """None means the default. What has a wrong type is a TypeError of one sentence, and an
        impossible number of threads a ValueError; sizes and names are read where they are used."""
        values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        for name, value in values.items():
            types, what = _KINDS.get(name, _SIZE)
            if not isinstance(value, types) or isinstance(value, bool) != (bool in types):
                raise TypeError(f"{name}={value!r} is not {what}.")
            if os.PathLike in types:
                values[name] = os.fsdecode(value)
        threads = values.get("io_threads", cls.io_threads)
        if not 1 <= threads <= MOST_IO_THREADS:
            raise ValueError(f"io_threads={threads} is not from 1 to {MOST_IO_THREADS}.")
        return cls(**values)

    @property
    def budget_text(self) -> str:
        """The budget that was asked for, for messages."""
        return str(self.budget if self.budget_rss is None else self.budget_rss)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
