"""Sizes as people write them: `512MiB`, `2GiB`, `1.5g`, `60%`, `auto`.

A share is taken of the memory limit, which is the smaller of the machine's RAM and the tightest
memory cgroup we run in. `auto` takes AUTO_SHARE of what that limit leaves free right now: the rest
is for what is not a tensor (the interpreter, libraries, files in the page cache, other programs).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

AUTO_SHARE = 0.75
SMALLEST_BUDGET = 1 * MIB  # two shared extents; less is surely a slip (`2` for `2GiB`)
SMALLEST_SHARE = 8 * MIB  # a share of a toy's peak (demo, bench) is not made smaller than this
LARGEST_SIZE = 1 << 60  # beyond every address space, and well within 64 bits

_UNITS = {
    "": 1,
    "b": 1,
    **{prefix: 1 << (10 * power) for power, prefix in enumerate("kmgt", 1)},
    **{prefix + "ib": 1 << (10 * power) for power, prefix in enumerate("kmgt", 1)},
    **{prefix + "b": 1000**power for power, prefix in enumerate("kmgt", 1)},
}
_SPANS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86400),
}
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]*|%)\s*", re.IGNORECASE)


class SizeError(ValueError):
    """A size that cannot be read or makes no sense; the message says what would."""


@dataclass(frozen=True)
class MemoryLimits:
    """What `outsize._core.memory_limits()` reports, in bytes; cgroup 0 means no limit."""

    total: int
    available: int
    cgroup: int = 0
    cgroup_used: int = 0

    @property
    def limit(self) -> int:
        return min(self.total, self.cgroup) if self.cgroup else self.total

    @property
    def free(self) -> int:
        if not self.cgroup:
            return self.available
        return max(0, min(self.available, self.cgroup - self.cgroup_used))

    @property
    def reason(self) -> str:
        """Which limit is the tight one, for messages."""
        return "memory cgroup" if self.cgroup and self.cgroup < self.total else "RAM"


@dataclass(frozen=True)
class Budget:
    """A budget as written: bytes, or a share of the limit, or automatic (exactly one is set)."""

    text: str
    bytes: int | None = None
    share: float | None = None

    @property
    def automatic(self) -> bool:
        return self.bytes is None and self.share is None

    def resolve(self, limits: MemoryLimits) -> int:
        if self.bytes is not None:
            return self.bytes
        wanted = limits.free * AUTO_SHARE if self.share is None else limits.limit * self.share
        budget = int(wanted) // MIB * MIB
        if budget < SMALLEST_BUDGET:
            raise SizeError(
                f"--budget {self.text} comes to {format_bytes(int(wanted))} here ({limits.reason}:"
                f" {format_bytes(limits.free)} free of {format_bytes(limits.limit)}), too little to"
                " train in; free some memory or name a size."
            )
        return budget


def parse_size(text: str | int | float) -> int:
    """Bytes of `512MiB`, `1.5g`, `100GB`, `4096`; `g` and `GiB` are 2**30, `GB` is 10**9."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        text = f"{text:.0f}" if isinstance(text, int) or text.is_integer() else repr(text)
    match = _NUMBER.fullmatch(str(text))
    unit = match[2].lower() if match else ""
    if match is None or unit not in _UNITS:
        raise SizeError(f"'{text}' is not a size: write for example 512MiB, 2GiB or 1.5g.")
    size = (float(match[1]) if "." in match[1] else int(match[1])) * _UNITS[unit]
    if size > LARGEST_SIZE:
        raise SizeError(f"'{text}' is more than any machine holds: did you mean a smaller unit?")
    return int(size)


def parse_rate(text: str | int | float) -> int:
    """Bytes a second of `2TB/day`, `50MB/s`, `100GiB/hour`; a number is bytes a second, 0 no limit."""
    if isinstance(text, float) and text.is_integer():
        text = int(text)
    size, slash, span = str(text).strip().rpartition("/")
    if not slash and span.isascii() and span.isdigit() and int(span) <= LARGEST_SIZE:
        return int(span)
    seconds = _SPANS.get(span.strip().lower())
    try:
        if seconds is None:
            raise SizeError("no span of time")
        rate = parse_size(size) // seconds
    except SizeError:
        raise SizeError(
            f"'{text}' is not a pace: write for example 2TB/day, 100GB/hour or 50MB/s."
        ) from None
    if rate < 1:
        raise SizeError(f"A pace of {text} is less than a byte a second.")
    return rate


def parse_budget(text: str | int | float) -> Budget:
    """A budget from `2GiB`, `60%`, `auto` or a number of bytes."""
    written = str(text).strip()
    if written.lower() == "auto":
        return Budget(written)
    match = _NUMBER.fullmatch(written)
    if match and match[2] == "%":
        share = float(match[1]) / 100
        if not 0 < share <= 1:
            raise SizeError(
                f"'{written}' is not a share: write a percentage above 0% and up to 100%."
            )
        return Budget(written, share=share)
    if match is None or match[2].lower() not in _UNITS:
        raise SizeError(
            f"'{written}' is not a budget: write a size (512MiB, 2GiB, 1.5g), a share of the memory"
            " limit (60%), or auto."
        )
    size = parse_size(text)
    if size < SMALLEST_BUDGET:
        meant = "."
        if not match[2] and 0 < float(match[1]) < 1:
            meant = f"; did you mean {float(match[1]) * 100:g}%?"
        elif not match[2] and 0 < size < 1024:
            meant = f"; did you mean {match[1]}GiB?"
        raise SizeError(
            f"A budget of {format_bytes(size) if size or match[2] else written + ' B'} is too small to train in (at least"
            f" {format_bytes(SMALLEST_BUDGET)}){meant}"
        )
    return Budget(written, bytes=size)


def format_count(number: int, noun: str) -> str:
    """`1 step`, `12,000 steps`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def format_bytes(count: float) -> str:
    """Three significant digits in binary units: `1.59 GiB`, `816 MiB`, `0 B`."""
    value, unit = float(count), "B"
    for following in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 999.5:
            break
        value, unit = value / 1024, following
    if unit == "B":
        return f"{value:.0f} B"
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def format_decimal(count: float) -> str:
    """Three significant digits in powers of 1000, as disks are sold: `27.8 TB`, `500 GB`, `0 B`."""
    value, unit = float(count), "B"
    for following in ("kB", "MB", "GB", "TB", "PB"):
        if value < 999.5:
            break
        value, unit = value / 1000, following
    return f"{value:.3g} {unit}" if value < 999.5 else f"{value:,.0f} {unit}"


def format_days(days: float) -> str:
    """`7 h 12 min`, `3.0 days`, `340 days`, `12 years`."""
    if days < 1:
        return format_seconds(days * 86400)
    if days < 1000:
        return f"{days:.1f} days" if days < 9.95 else f"{days:.0f} days"
    return f"{days / 365.25:,.0f} years"


def format_seconds(seconds: float) -> str:
    """`850 ms`, `12.3 s`, `4 min 05 s`, `3 h 12 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
