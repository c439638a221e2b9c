"""From step times to what is worth saying: medians, ratios, the limit; as a table and as JSON."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, field
from typing import Any, TextIO

from outsize import machine
from outsize.bench.runner import Run, ample
from outsize.device import least_transfer_seconds, mean_rates
from outsize.units import MIB, format_bytes


@dataclass
class Outcome:
    """Everything one benchmark found."""

    workload: str
    args: list[str]
    warmup: int
    steps: int
    machine: dict[str, Any]
    runs: list[Run]
    peak_tensor_bytes: int = 0  # of plain, over steps >= 2; 0: not counted
    disk_before: dict[str, Any] = field(default_factory=dict)
    disk_after: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def plain(self) -> Run | None:
        """The faster of the plain runs: the one that counts."""
        times = [
            (time, index)
            for index, run in enumerate(self.runs)
            if run.mode == "plain" and not run.budget and (time := self.median(run)) is not None
        ]
        return self.runs[min(times)[1]] if times else None

    def counted(self, run: Run) -> list[float]:
        """The seconds of the steps after the warm-up."""
        return [time for time in run.step_seconds[run.warmup :] if time is not None]

    def median(self, run: Run) -> float | None:
        times = self.counted(run)
        return statistics.median(times) if times else None

    def mean(self, run: Run) -> float | None:
        times = self.counted(run)
        return statistics.mean(times) if times else None

    def ratio(self, run: Run) -> float | None:
        """Step time over plain's."""
        mine = self.median(run)
        plain = self.median(self.plain) if self.plain else None
        return mine / plain if mine and plain else None

    def per_step(self, run: Run, counter: str) -> float | None:
        """How much a counter grew in each step after the warm-up, on average."""
        measured = [stats[counter] for stats in run.stats if counter in stats]
        measured = measured[: len(run.step_seconds)]  # without what came after the last step
        if len(measured) <= run.warmup:
            return None
        first = measured[run.warmup - 1] if run.warmup else 0
        return float(measured[-1] - first) / (len(measured) - run.warmup)

    def prediction_error(self, run: Run) -> float | None:
        """Of the median step, as a share of what was measured; above 0: it was predicted to take longer."""
        median = self.median(run)
        return run.predicted_seconds / median - 1 if median and run.predicted_seconds else None

    def drift_free_error(self, run: Run) -> float | None:
        """The same of the step over that with room for all (`--ample`), predicted and measured: a machine that is
        slower or faster than when the trace was recorded takes no part in it."""
        policy, budget = run.enable.get("policy"), ample(self.peak_tensor_bytes)
        room = next((r for r in self.runs if r.budget == budget and r.enable.get("policy") == policy), run)
        mine, all_fits = self.median(run), self.median(room)
        if room is run or not (mine and all_fits and run.predicted_seconds and room.predicted_seconds):
            return None
        return run.predicted_seconds / room.predicted_seconds / (mine / all_fits) - 1

    def losses_equal(self, run: Run) -> bool | None:
        """Whether every loss has plain's bits; None: nothing to compare."""
        return None if self._reference(run) is None else self.first_difference(run) is None

    def first_difference(self, run: Run) -> tuple[int, str, str] | None:
        """The first loss with other bits than plain's: its step, from 1 on, the loss, plain's."""
        reference = self._reference(run)
        if reference is None:
            return None
        both = zip(run.losses, reference.losses, strict=False)  # under swap it may run fewer steps
        return next(((step, *pair) for step, pair in enumerate(both, start=1) if pair[0] != pair[1]), None)

    def _reference(self, run: Run) -> Run | None:
        """Whose losses `run`'s are compared with: plain's, else the first run's."""
        reference = self.plain or next((r for r in self.runs if r.losses and not r.failure), None)
        if reference is None or reference is run or not run.losses or not reference.losses:
            return None
        return reference

    @property
    def held_up_mib_ns(self) -> list[int]:
        """By how much each MiB that moves holds up a program on all cores, before and after, as far as it is known."""
        measured = [disk.get("moves", {}) for disk in (self.disk_before, self.disk_after)]
        return [moves["held_up_mib_ns"] for moves in measured if "held_up_mib_ns" in moves]

    def limit(self, run: Run, held_up: bool = False) -> tuple[float, str] | None:
        """max(compute, down/W, up/R, (down+up)/mixed), with the bytes that were in fact moved. `held_up`: to compute
        is added what these bytes take of the processors, as `outsize doctor` measures it; None where it did not."""
        plain = self.median(self.plain) if self.plain else None
        up, down = self.per_step(run, "read_bytes"), self.per_step(run, "write_bytes")
        disk = self._mean_disk()
        if plain is None or up is None or down is None or disk is None:
            return None
        if held_up:
            if not self.held_up_mib_ns:
                return None
            plain += (up + down) / MIB * statistics.mean(self.held_up_mib_ns) / 1e9
        bounds = [
            (plain, "compute"),
            (down / disk["write"], "disk writes"),
            (up / disk["read"], "disk reads"),
            ((up + down) / (disk["mixed_read"] + disk["mixed_write"]), "disk, mixed"),
        ]
        return max(bounds)

    def _mean_disk(self) -> dict[str, float] | None:
        """Its bandwidths, before and after."""
        return mean_rates([self.disk_before, self.disk_after])

    def limit_with_waits(self, run: Run) -> float | None:
        """The least a counted step can take, in the mean: plain's time, the disk's for the bytes that were in fact moved,
        or compute and what no planner can do without waiting for this disk. Ops are taken to be faster or slower alike than when
        the step was recorded: slower ones hide more of that wait, as much as they are slower and no more; faster ones less."""
        plain = self.mean(self.plain) if self.plain else None
        up, down = self.per_step(run, "read_bytes"), self.per_step(run, "write_bytes")
        disk = self._mean_disk()
        if plain is None or up is None or down is None or disk is None or run.least_wait is None:
            return None
        compute, wait = run.least_wait
        return max(plain, least_transfer_seconds(up, down, disk), min(plain, compute) + wait)

    def as_json(self) -> dict[str, Any]:
        return {
            "workload": self.workload,
            "args": self.args,
            "warmup_steps": self.warmup,
            "counted_steps": self.steps,
            "machine": self.machine,
            "disk_before": self.disk_before,
            "disk_after": self.disk_after,
            "plain_peak_tensor_bytes": self.peak_tensor_bytes,
            "runs": [self._run_json(run) for run in self.runs],
            "notes": self.notes,
        }

    def _run_json(self, run: Run) -> dict[str, Any]:
        limit, held_up = self.limit(run), self.limit(run, held_up=True)
        return {
            "label": run.label,
            "mode": run.mode,
            "budget_bytes": run.budget,
            "failure": run.failure,
            "step_seconds": run.step_seconds,
            "median_step_seconds": self.median(run),
            "ratio_to_plain": self.ratio(run),
            "predicted_step_seconds": run.predicted_seconds,
            "predicted_steps": run.predicted_steps,
            "prediction_error": self.prediction_error(run),
            "prediction_error_against_ample": self.drift_free_error(run),
            "losses": run.losses,
            "losses_equal": self.losses_equal(run),
            "first_difference": self.first_difference(run),
            "imports_rss_bytes": run.imports_rss,
            "peak_rss_bytes": run.peak_rss,
            "moved_up_per_step": self.per_step(run, "read_bytes"),
            "moved_down_per_step": self.per_step(run, "write_bytes"),
            "stall_seconds_per_step": self.per_step(run, "stall_seconds"),
            "limit_seconds_with_measured_bytes": limit[0] if limit else None,
            "limit_bound_by": limit[1] if limit else None,
            "limit_seconds_with_processors_held_up": held_up[0] if held_up else None,
            "recorded_compute_seconds": run.least_wait.compute if run.least_wait else None,
            "least_wait_seconds": run.least_wait.wait if run.least_wait else None,
            "limit_seconds_with_least_wait": self.limit_with_waits(run),
            "stats": run.stats[-1] if run.stats else {},
        }


COLUMNS = (
    "run", "budget", "peak", "peak RSS", "step", "÷ plain", "up/step", "down/step", "stall/step",
    "÷ limit*", "÷ limit†", "÷ limit‡", "predicted", "losses equal",
)  # fmt: skip


def cells(outcome: Outcome, run: Run) -> list[str]:
    """One row of the table."""
    up, down = outcome.per_step(run, "read_bytes"), outcome.per_step(run, "write_bytes")
    stall, median = outcome.per_step(run, "stall_seconds"), outcome.median(run)
    ratio, limit, held_up = outcome.ratio(run), outcome.limit(run), outcome.limit(run, held_up=True)
    waits, mean = outcome.limit_with_waits(run), outcome.mean(run)
    held = run.stats[-1].get("resident_peak") if run.stats else None
    if held is None and run is outcome.plain and outcome.peak_tensor_bytes:
        held = outcome.peak_tensor_bytes
    equal = {True: "yes", False: "NO", None: "-"}[outcome.losses_equal(run)]
    return [
        run.label,
        format_bytes(run.budget) if run.budget else "-",
        format_bytes(held) if held else "-",
        format_bytes(run.peak_rss) if run.peak_rss else "-",
        f"{median:.3g} s" if median is not None else ("FAILED" if run.failure else "-"),
        f"{ratio:.3f}" if ratio is not None else "-",
        format_bytes(up) if up is not None else "-",
        format_bytes(down) if down is not None else "-",
        f"{stall:.2f} s" if stall is not None else "-",
        f"{median / limit[0]:.2f} ({limit[1]})" if limit and median else "-",
        f"{median / held_up[0]:.2f}" if held_up and median else "-",
        f"{mean / waits:.2f}" if waits and mean else "-",
        _predicted(run, outcome.prediction_error(run), outcome.drift_free_error(run)),
        equal,
    ]


def _predicted(run: Run, error: float | None, drift_free: float | None) -> str:
    if run.predicted_seconds is None:
        return "-"
    errors = ([] if error is None else [f"{error:+.0%}"]) + ([] if drift_free is None else [f"ratio {drift_free:+.0%}"])
    return f"{run.predicted_seconds:.3g} s" + (f" ({', '.join(errors)})" if errors else "")


def print_table(outcome: Outcome, stream: TextIO | None = None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = stream if stream is not None else sys.stdout
    table = Table(title=f"{outcome.workload} {' '.join(outcome.args)}".strip(), box=box.SIMPLE_HEAD)
    rows = [cells(outcome, run) for run in outcome.runs]
    # A column in which nobody has anything to say is left out.
    shown = [i for i in range(len(COLUMNS)) if any(row[i] != "-" for row in rows)]
    for index in shown:
        table.add_column(Text(COLUMNS[index]), justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*(Text(row[index]) for index in shown))
    # A file or pipe has no width of its own: a row stays a row.
    console = Console(file=out, width=None if out.isatty() else 160, highlight=False)
    console.print(table)
    for line in footnotes(outcome):
        console.print(Text(line), soft_wrap=True)


def footnotes(outcome: Outcome) -> list[str]:
    lines = [machine.one_line(outcome.machine)]
    for name, disk in (("before", outcome.disk_before), ("after", outcome.disk_after)):
        if "read" in disk:
            lines.append(
                f"disk {name}: read {disk['read'] / 1e9:.2f}, write {disk['write'] / 1e9:.2f} GB/s;"
                f" mixed {disk['mixed_read'] / 1e9:.2f} + {disk['mixed_write'] / 1e9:.2f} GB/s"
                f" ({format_bytes(disk['sample'])} each)"
            )
        elif disk:
            lines.append(f"disk {name}: {disk.get('error', 'not measured')}")
    if any(run.mode == "outsize" for run in outcome.runs):
        lines.append(
            "peak: tensor bytes in RAM; peak RSS: the whole process; up, down: read from and written"
            " to the spill file; stall: time that ops waited for bytes."
        )
    if any(outcome.limit(run) for run in outcome.runs):
        lines.append(
            "* limit: max(plain's step, down ÷ write, up ÷ read, both ÷ mixed bandwidth) with the"
            " bytes that were in fact moved, not the fewest that an omniscient planner would move."
        )
    if any(outcome.limit(run, held_up=True) for run in outcome.runs):
        of_a_mib = [f"{nanos / 1000:.0f}" for nanos in outcome.held_up_mib_ns]
        lines.append(
            f"† the same, with plain's step longer by {' and '.join(of_a_mib)} us for each MiB moved, as measured"
            f"{' before and after' if len(of_a_mib) > 1 else ''}: by so much a program on all cores is held up. Bytes that"
            " moved while ops waited count, too."
        )
    if any(outcome.limit_with_waits(run) for run in outcome.runs):
        lines.append(
            "‡ of means, for the disk as measured: plain's step, the disk's time for these bytes, or compute (as recorded, or"
            " plain's if that is less) and what any planner that only moves bytes waits for: what a stretch of ops uses beyond"
            " the budget must come within it, and what it makes must leave."
        )
    if any(run.predicted_seconds for run in outcome.runs):
        lines.append("predicted: simulated before any of these ran, from a trace with room for all and the disk before.")
    if any(outcome.drift_free_error(run) is not None for run in outcome.runs):
        lines.append("ratio: of the step over that with room for all, which leaves out how the machine drifted since.")
    lines.append(f"Steps in seconds, {outcome.warmup} warm-up | {outcome.steps} counted, in turns:")
    for run in outcome.runs:
        times = [f"{time:.3g}" if time is not None else "(built)" for time in run.step_seconds]
        split = " ".join(times[: run.warmup]) + " | " + " ".join(times[run.warmup :])
        lines.append(f"  {run.label}: {split}")
    for run in outcome.runs:
        if run.failure:
            lines.append(f"FAILED {run.failure}")
        if difference := outcome.first_difference(run):
            step, mine, other = difference
            lines.append(f"Losses differ under {run.label}: first at step {step}, {mine} instead of {other}.")
    return lines + outcome.notes + idle(outcome)


def idle(outcome: Outcome) -> list[str]:
    """A budget meant to be short in which all fitted for all that is no comparison."""
    room = ample(outcome.peak_tensor_bytes)
    still = [
        run.label
        for run in outcome.runs
        if run.mode == "outsize" and run.stats and run.budget < room
        and not run.stats[-1]["read_bytes"] + run.stats[-1]["write_bytes"]
    ]  # fmt: skip
    return [f"Nothing had to move under {', '.join(still)}: it fitted."] if still else []
