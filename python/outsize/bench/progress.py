"""Progress of a long benchmark: a bar with the time that remains on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from outsize.bench.runner import Run
from outsize.units import format_seconds


class Progress:
    """Counts steps of all contestants. The time that remains comes from the steps that each has done."""

    def __init__(self, title: str, steps_of: dict[str, int], expected: dict[str, float]) -> None:
        self._title = title
        self._left = dict(steps_of)
        self._total = sum(steps_of.values())
        self._expected = expected  # a step's likely seconds, by label
        self._taken: dict[str, list[float]] = {}
        self._last = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._total, left="")
        else:
            print(self._title, file=sys.stderr, flush=True)
        self._last = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def told(self, run: Run, step: int) -> None:
        """A contestant has done a step, or has failed."""
        now = time.monotonic()
        taken, self._last = now - self._last, now
        if step > 1:  # the first step builds the model too and foretells nothing
            self._taken.setdefault(run.label, []).append(taken)
        self._left[run.label] = 0 if run.failure else max(0, self._left.get(run.label, 1) - 1)
        done = self._total - sum(self._left.values())
        seconds = self.seconds_left()
        left = f"about {format_seconds(seconds)} left" if seconds else ""
        how = "failed" if run.failure else f"{taken:.1f} s"
        if self._bar is not None:
            text = f"{run.label}: step {step}, {how}"
            self._bar.update(self._task, completed=done, description=text, left=left)
        else:
            line = f"[{done}/{self._total}] {run.label}: step {step}, {how}"
            print(f"{line}; {left}" if left else line, file=sys.stderr, flush=True)

    def seconds_left(self) -> float:
        means = {label: sum(taken) / len(taken) for label, taken in self._taken.items()}
        slowest = max(means.values(), default=0.0)  # a step of who has done none takes no less
        return sum(
            left * means.get(label, max(self._expected.get(label, 0.0), slowest))
            for label, left in self._left.items()
        )
