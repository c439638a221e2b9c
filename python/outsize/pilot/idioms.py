"""What blocks and networks do with memory, in six numbers, as a person reads it (core/base/idioms.h)."""

from __future__ import annotations

from collections.abc import Sequence

IDIOMS = ("transpose", "gather", "scatter", "reduction", "stream", "stencil")
LEGEND = "idioms: loops that transpose, gather, scatter, reduce, stream, look at neighbours"


def told_idioms(sums: Sequence[int]) -> str:
    """`gather 12, stream 30`: those that there are."""
    there = [f"{name} {count:,}" for name, count in zip(IDIOMS, sums, strict=True) if count]
    return ", ".join(there) or "no idioms"
