"""What `outsize simulate` says of a benchmark's runs before they run: from the workload's trace, recorded with room
for all, and from the disk as `outsize doctor` measured it. Nothing is taken from a run that is predicted. And what no
planner could have done without, from the same trace."""

from __future__ import annotations

import statistics
from functools import cache
from typing import Any

from outsize.bench.recorded import Recorded
from outsize.bench.runner import LeastWait, Run
from outsize.device import at_the_programs_expense, mean_rates, measured
from outsize.progress import progress
from outsize.simulate import load, verdict


def predict(recorded: Recorded, runs: list[Run], disk: dict[str, Any], steps: int) -> list[str]:
    """Fills in `predicted_seconds` of every run under outsize. What could not be is said, and how long a step of the
    recording took: plain PyTorch's may take longer or shorter, as its memory is not outsize's."""
    with progress("Reading the trace"):
        program = load().TraceProgram(recorded.path)
    device = at_the_programs_expense(measured(disk, disk.get("moves", {})), program.meta)
    notes = []
    if counted := [time for time in recorded.run.step_seconds[runs[0].warmup :] if time is not None]:
        notes.append(f"Recorded with room for all: {statistics.median(counted):.3g} s a step.")
    for run in runs:
        if run.mode != "outsize":
            continue
        with progress(f"Simulating {run.label}"):
            pilot = run.enable.get("pilot")
            found = program.run(
                run.enable["policy"], run.budget, device, **({"pilot": load().PilotModel(pilot)} if pilot else {})
            )
        if trouble := verdict(found):
            notes.append(f"{run.label} could not be predicted: {trouble}")
            continue
        ends = [step["end_ns"] for step in found["at_step"]]
        times = [(end - begin) / 1e9 for begin, end in zip(ends, ends[1:], strict=False)]
        run.predicted_steps = times[max(run.warmup - 1, 0) : steps - 1]
        run.predicted_seconds = statistics.median(run.predicted_steps) if run.predicted_steps else None
    return notes


def tell_least_waits(recorded: Recorded, runs: list[Run], disks: list[dict[str, Any]]) -> list[str]:
    """Fills in `least_wait` of every run under outsize, for a disk as fast as these in the mean. Why it could not."""
    rates = mean_rates(disks)
    if rates is None:
        return []
    device = measured(rates, {})
    try:
        with progress("Looking for what no planner can do without"):
            program = load().TraceProgram(recorded.path)
            waits = cache(lambda budget, after: program.window_limit(budget, device, after))
            for run in runs:
                if run.mode == "outsize" and (found := waits(run.budget, max(run.warmup, 1))):
                    compute, least = (found[name] / found["steps"] / 1e9 for name in ("compute_ns", "least_ns"))
                    run.least_wait = LeastWait(compute, least - compute)
    except (ValueError, MemoryError) as trouble:  # of what was measured nothing is lost
        return [f"What no planner can do without is not known: {trouble}"]
    return []
