"""A memory cgroup (v1 or v2) without swap, made for one test and removed after it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from outsize.bench import swap


@dataclass(frozen=True)
class Cgroup:
    folder: Path

    @property
    def prefix(self) -> tuple[str, ...]:
        return swap.enter_cgroup(self.folder)

    def killed(self) -> int:
        """How many processes the kernel has killed because the cgroup was full."""
        for name in ("memory.events", "memory.oom_control"):
            path = self.folder / name
            if path.exists():
                fields = dict(line.split() for line in path.read_text().splitlines())
                return int(fields["oom_kill"])
        raise AssertionError(f"{self.folder} does not count what it kills")

    def peak(self) -> int:
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            path = self.folder / name
            if path.exists():
                return int(path.read_text())
        return 0  # v2 before Linux 5.19


def _forbid_swap(folder: Path, limit: int) -> None:
    for name, value in (("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", limit)):
        path = folder / name
        if path.exists():
            path.write_text(str(value))
            return
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        raise swap.SwapUnavailable("there is swap here, and cgroups cannot forbid it")


@contextlib.contextmanager
def memory_cgroup(limit: int) -> Iterator[Cgroup]:
    """Raises SwapUnavailable, saying why, where there can be none."""
    if os.geteuid() != 0:
        raise swap.SwapUnavailable("a memory cgroup needs root")
    with contextlib.ExitStack() as stack:
        folder = swap.make_cgroup(stack, limit)
        _forbid_swap(folder, limit)
        yield Cgroup(folder)
