"""The engine's counters as one value with names, units and derived figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from outsize.units import SMALLEST_BUDGET, format_bytes, format_seconds


# How many times its own size a consumer SSD is warranted to take: makers of 1 TB drives with TLC flash
# say 600 TB (five years at a third of the drive a day). Server drives take 3 to 30 times as much.
SSD_RATED_WRITES = 600


BETWEEN_OPS = "Python, between ops"


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
    refused_ops: int = 0  # that were told of an error in place of running
    min_spill_file: int = 0  # what those refused for want of room in it needed; 0: none was
    small_held: int = 0
    small_live: int = 0
    arena_bytes: int = 0
    mechanism: str = ""
    small_pages: bool = False  # they fill whole chunks just now: chosen, or on trial
    bounced_bytes: int = 0  # read and written through a little memory that lies together, as that was faster
    policy: str = ""
    foresight: str = ""  # who foresees now, where the policy chooses
    pilot_ops: int = 0  # of the first steps, where the pilot began with a model
    pilot_known_ops: int = 0  # of these, what the model knew
    pilot_given_up: bool = False  # too few: it began anew
    foresee_ops: int = 0  # so far, where the policy was told a recorded run
    foresee_known_ops: int = 0  # of these, what came as recorded
    foresee_given_up: bool = False  # the rest did not, and nothing is foreseen any more
    spill_dir: str = ""
    warning: str = ""  # about the spill directory
    disk_size: int = 0  # of the file system the spill file is on
    disk_write_limit: int = 0  # bytes a second
    held_back: int = 0  # nanoseconds in which needed writes waited for that limit
    verified_bytes: int = 0  # checksummed, when written or when they came back
    verify: int = 0  # nanoseconds that took, on I/O threads
    process_budget: int = 0  # for all that the process holds in RAM; 0: only tensors have a budget
    process_peak: int = 0  # the most it held, as looked at every 5 ms
    untracked: tuple[tuple[str, int], ...] = ()  # largest rises that were no tensors, by op
    seconds: float = 0.0  # since outsize was enabled

    @classmethod
    def of(cls, counters: Mapping[str, Any], seconds: float) -> Stats:
        known = {field.name for field in fields(cls)} - {"seconds"}
        values = {k: v for k, v in counters.items() if k in known}
        if values.get("min_budget"):  # what we name must be a budget that we accept
            values["min_budget"] = max(values["min_budget"], SMALLEST_BUDGET)
        if "untracked" in values:
            values["untracked"] = tuple((op or BETWEEN_OPS, size) for op, size in values["untracked"])
        return cls(seconds=seconds, **values)

    @property
    def stall_seconds(self) -> float:
        """Time that ops and allocations waited."""
        return self.stall / 1e9

    @property
    def stall_share(self) -> float:
        """The same as a share of all time."""
        return self.stall_seconds / self.seconds if self.seconds > 0 else 0.0

    @property
    def prefetch_hit_share(self) -> float | None:
        """Of the bytes that came back, the share that was there before it was needed."""
        came_back = self.prefetch_hit_bytes + self.demand_bytes
        return self.prefetch_hit_bytes / came_back if came_back else None

    @property
    def held_back_seconds(self) -> float:
        """Time in which needed writes waited for the disk write limit."""
        return self.held_back / 1e9

    @property
    def verify_seconds(self) -> float:
        """Time that checksums took, on the I/O threads."""
        return self.verify / 1e9

    @property
    def written_bytes_per_day(self) -> float:
        """What the disk would be written in a day at this pace."""
        return self.write_bytes / self.seconds * 86400 if self.seconds > 0 else 0.0

    @property
    def rated_life_days(self) -> float | None:
        """Days in which this pace would write what a consumer SSD of the disk's size is rated for."""
        if not self.disk_size or not self.written_bytes_per_day:
            return None
        return self.disk_size * SSD_RATED_WRITES / self.written_bytes_per_day

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data, derived figures included."""
        return asdict(self) | {
            "stall_seconds": self.stall_seconds,
            "stall_share": self.stall_share,
            "prefetch_hit_share": self.prefetch_hit_share,
            "written_bytes_per_day": self.written_bytes_per_day,
            "rated_life_days": self.rated_life_days,
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
            + (
                f", {format_seconds(self.held_back_seconds)} of it for the disk write limit"
                if self.held_back
                else ""
            )
            + (f" · foresight: {self.foresight}" if self.foresight else "")
        )
