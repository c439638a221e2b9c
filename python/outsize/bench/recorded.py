"""The workload of a benchmark as a trace, recorded with room for all: for what is predicted of its runs, and for the
policy that foresees from it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from outsize.bench.runner import Run, WorkerError, ample, take_turns
from outsize.bench.workloads import Workload
from outsize.checkup import default_spill_dir


@dataclass(frozen=True)
class Recorded:
    path: str
    run: Run


def is_oracle(run: Run) -> bool:
    return run.enable.get("policy") == "oracle"


@contextlib.contextmanager
def recorded(
    workload: Workload, steps: int, peak: int, told: Callable[[Run, int], None]
) -> Iterator[Recorded]:
    """Lies on the disk until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="outsize-bench-", dir=default_spill_dir()) as folder:
        path = str(Path(folder) / "run.trace")
        room = ample(peak)
        run = Run("recording", "outsize", workload.for_steps(steps), 0, room, {"budget": room, "record": path})
        take_turns([run], steps, told)
        if run.failure:
            raise WorkerError(f"the workload could not be recorded: {run.failure}")
        yield Recorded(path, run)
