"""The engine's counters as one value with names, units and derived figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from outsize.units import SMALLEST_BUDGET, format_bytes, format_seconds


@dataclass(frozen=True)
class Stats:
    """What outsize did so far. Bytes and nanoseconds unless the name says otherwise."""

    budget: int = 0
    resident: int = 0  # tensor bytes in RAM: extents, reservations, in flight, page pool
    resident_peak: int = 0
    tensor_bytes: int = 0  # live bytes asked for, wherever they are
    tensor_bytes_peak: int = 0
    pinned: int = 0  # kept in RAM by outsize.pin
    spilled: int = 0  # bytes with a valid copy in the spill file
    spill_file: int = 0  # size of the spill file
    read_bytes: int = 0
    write_bytes: int = 0
    dropped_bytes: int = 0  # left RAM without being written: a valid copy lay below
    prefetched_bytes: int = 0
    prefetch_hit_bytes: int = 0
    demand_bytes: int = 0
    stall: int = 0  # nanoseconds that ops and allocations waited
    steps: int = 0
    ops: int = 0
    raw_faults: int = 0
    reads: int = 0
    writes: int = 0
    evictions: int = 0
    min_budget: int = 0  # the smallest budget this program would run in, as seen so far
    min_budget_op: str = ""
    small_held: int = 0
    small_live: int = 0
    arena_bytes: int = 0
    mechanism: str = ""
    policy: str = ""
    spill_dir: str = ""
    seconds: float = 0.0  # since outsize was enabled

    @classmethod
    def of(cls, counters: Mapping[str, Any], seconds: float) -> Stats:
        known = {field.name for field in fields(cls)} - {"seconds"}
        values = {k: v for k, v in counters.items() if k in known}
        if values.get("min_budget"):  # what we name must be a budget that we accept
            values["min_budget"] = max(values["min_budget"], SMALLEST_BUDGET)
        return cls(seconds=seconds, **values)

    @property
    def stall_seconds(self) -> float:
        return self.stall / 1e9

    @property
    def stall_share(self) -> float:
        return self.stall_seconds / self.seconds if self.seconds > 0 else 0.0

    @property
    def prefetch_hit_share(self) -> float | None:
        """Of the bytes that came back, the share that was there before it was needed."""
        came_back = self.prefetch_hit_bytes + self.demand_bytes
        return self.prefetch_hit_bytes / came_back if came_back else None

    @property
    def written_bytes_per_day(self) -> float:
        return self.write_bytes / self.seconds * 86400 if self.seconds > 0 else 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "stall_seconds": self.stall_seconds,
            "stall_share": self.stall_share,
            "prefetch_hit_share": self.prefetch_hit_share,
            "written_bytes_per_day": self.written_bytes_per_day,
        }

    def __str__(self) -> str:
        from outsize.report import rows

        return "\n".join(f"{name}: {value}" for name, value in rows(self))

    def brief(self) -> str:
        """One line for a running job."""
        return (
            f"step {self.steps} · {format_bytes(self.resident)} of {format_bytes(self.budget)} ·"
            f" up {format_bytes(self.read_bytes)}, down {format_bytes(self.write_bytes)} ·"
            f" stall {format_seconds(self.stall_seconds)} ({self.stall_share:.0%})"
        )
