"""What `outsize simulate` says of a benchmark's runs before they run: from the workload's trace, recorded with room
for all, and from the disk as `outsize doctor` measured it. Nothing is taken from a run that is predicted."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outsize.bench.runner import Run, WorkerError, ample, take_turns
from outsize.bench.workloads import Workload, WorkloadError
from outsize.checkup import default_spill_dir
from outsize.device import LATENCY_NS, RATES
from outsize.progress import progress
from outsize.simulate import load, verdict


def predict(
    workload: Workload, runs: list[Run], disk: dict[str, Any], steps: int, peak: int,
    told: Callable[[Run, int], None],
) -> list[str]:  # fmt: skip
    """Fills in `predicted_seconds` of every run under outsize, and of plain. What could not be is said."""
    if not workload.is_example:
        raise WorkloadError(
            "--predict takes the examples. Record your script with `outsize record`, and ask `outsize simulate`."
        )
    device = {name: int(disk[name]) for name in RATES} | {"latency_ns": LATENCY_NS}
    with tempfile.TemporaryDirectory(prefix="outsize-bench-", dir=default_spill_dir()) as folder:
        path = str(Path(folder) / "run.trace")
        room = ample(peak)
        recording = Run("recording", "outsize", workload.for_steps(steps), 0, room, {"budget": room, "record": path})
        take_turns([recording], steps, told)
        if recording.failure:
            raise WorkerError(f"the workload could not be recorded: {recording.failure}")
        with progress("Reading the trace"):
            program = load().TraceProgram(path)
    notes = []
    for run in runs:
        policy, budget = (run.enable["policy"], run.budget) if run.mode == "outsize" else ("ondemand", room)
        with progress(f"Simulating {run.label}"):
            found = program.run(policy, budget, device)
        if trouble := verdict(found):
            notes.append(f"{run.label} could not be predicted: {trouble}")
            continue
        ends = [step["end_ns"] for step in found["at_step"]]
        times = [(end - begin) / 1e9 for begin, end in zip(ends, ends[1:], strict=False)]
        run.predicted_steps = times[max(run.warmup - 1, 0) : steps - 1]
        run.predicted_seconds = statistics.median(run.predicted_steps) if run.predicted_steps else None
    return notes
