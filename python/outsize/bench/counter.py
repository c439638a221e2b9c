"""Counts a program's live tensor bytes with PyTorch's own profiler, and nothing of ours.

PyTorch's default CPU allocator reports every allocation and every free to the profiler. The running
sum is what the program holds; marks at step ends cut it into steps.
"""

from __future__ import annotations

from typing import Any

MARK = "outsize bench step end"


class PeakCounter:
    """Records from `start` to `finish`; `mark` ends a step."""

    def __init__(self) -> None:
        from torch.profiler import ProfilerActivity, profile

        self._profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)

    def start(self) -> None:
        self._profile.start()

    def mark(self) -> None:
        from torch.profiler import record_function

        with record_function(MARK):
            pass

    def finish(self) -> list[int]:
        """The peak of each step that was marked, in bytes."""
        self._profile.stop()
        events: Any = self._profile.profiler.kineto_results.events()  # type: ignore[union-attr]
        changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
        marks = [e.start_ns() for e in events if e.name() == MARK]
        return peaks(changes, marks)


def peaks(changes: list[tuple[int, int]], marks: list[int]) -> list[int]:
    """The highest running sum between one mark and the next, from the beginning to the last."""
    result: list[int] = []
    held = highest = 0
    pending = sorted(marks)
    # Stable: changes with one timestamp stay in the order in which they were reported.
    for when, change in sorted(changes, key=lambda item: item[0]):
        while len(result) < len(pending) and when > pending[len(result)]:
            result.append(highest)
            highest = held
        held += change
        highest = max(highest, held)
    while len(result) < len(pending):
        result.append(highest)
        highest = held
    return result
