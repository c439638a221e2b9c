"""`outsize compare`: recorded runs under several policies, budgets and disks, as a table, JSON and a page."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType
from typing import Any

from outsize import simulate
from outsize.choices import named_budgets, named_policies
from outsize.cli import Parser, fail, output_file
from outsize.pilot.model import PilotModel, named_model, with_model
from outsize.progress import progress
from outsize.device import PROFILES, at_the_programs_expense, device_of, retimed
from outsize.simulate import Sim, TraceProgram, limit_of, per_step, step_seconds, verdict
from outsize.units import GIB, format_bytes, format_count, format_seconds

POLICIES = ("lookahead", "ondemand")  # unless others are named
STEPS_DRAWN = 2  # the last so many, unless --steps says which
EVENTS_MAX = 200_000  # of each kind, that a run's timeline keeps
WHOLE_RUN = 1 << 60  # steps
RUNS_IN_FULL = 40  # of more runs each is drawn more coarsely, so that a browser can hold the page


def steps(text: str) -> tuple[int, int]:
    """`3-4`, or `3`: first and last."""
    first, dash, last = text.partition("-")
    if not first.isascii() or not first.isdigit() or (dash and not (last.isascii() and last.isdigit())):
        raise argparse.ArgumentTypeError(f"'{text}' names no steps: write for example 3-4, or 3.")
    both = int(first), int(last or first)
    if not 1 <= both[0] <= both[1]:
        raise argparse.ArgumentTypeError(f"'{text}' names no steps: write for example 3-4, or 3.")
    return both


def parser() -> Parser:
    result = Parser(
        prog="outsize compare",
        usage="outsize compare TRACE... --device FILE... [--policy P,...] [--budget B,...]\n"
        "                       [--json] [-o PAGE.html] [--steps A-B]",
        description="Simulates recorded runs with every policy, under every budget, on every disk, and shows the"
        " step times side by side. The page that -o writes draws each run: memory against the budget, transfers,"
        " ops, and what each stall waited for. It is one file and needs no network.",
    )
    result.add_argument("traces", nargs="+", metavar="TRACE", help="traces that outsize recorded")
    result.add_argument(
        "--device",
        nargs="+",
        required=True,
        metavar="FILE",
        help="disks: what `outsize doctor --json` printed on a machine; or profiles: " + ", ".join(PROFILES),
    )
    result.add_argument(
        "--policy", default=",".join(POLICIES), metavar="P,...",
        help="default: %(default)s; also auto, pilot, deepum, weights, oracle, and in simulation only: uvm, deepum-blocks",
    )
    result.add_argument(
        "--budget",
        default="100%,75%,50%,25%",
        metavar="B,...",
        help="sizes, or shares of what each run held at most (default: 100%%,75%%,50%%,25%%)",
    )
    result.add_argument("--pilot", metavar="FILE", help="what policy pilot begins with (`outsize pilot train`)")
    result.add_argument("--json", action="store_true", help="print JSON")
    result.add_argument(
        "-o", "--output", type=output_file, metavar="PAGE", help="write a page that shows every run"
    )
    result.add_argument(
        "--steps", type=steps, metavar="A-B", help="the steps that the page draws (default: the last two)"
    )
    return result


@dataclass
class Loaded:
    """A trace, with the budgets as bytes of its own peak."""

    path: str
    name: str
    program: TraceProgram
    budgets: list[tuple[str, int]]

    def facts(self) -> dict[str, Any]:
        program = self.program
        return {"trace": self.path, "name": self.name, "ops": program.ops, "steps": program.steps,
                "peak_bytes": program.peak, "threads_overlap": program.threads_overlap}  # fmt: skip


@dataclass
class Comparison:
    sim: Sim
    traces: list[Loaded]
    devices: dict[str, dict[str, Any]]
    policies: list[str]
    drawn: tuple[int, int, int] | None = None  # steps, the last of them, events; None: there is no page
    pilot: PilotModel | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)
    interrupted: bool = False

    @property
    def total(self) -> int:
        each = len(self.devices) * len(self.policies)
        return sum(len(trace.budgets) for trace in self.traces) * each

    def each(self) -> Iterator[dict[str, Any]]:
        """Runs, one after the other, as they are done."""
        for trace in self.traces:
            fewest = cache(trace.program.fewest)
            for name, device in self.devices.items():
                program = self.timed(trace, device)
                device = at_the_programs_expense(device, program.meta)
                plain = step_seconds(program.run("ondemand", 2 * program.peak + GIB, device))
                for written, budget in trace.budgets:
                    limit = limit_of(program, fewest(budget), budget, plain, device)
                    for policy in self.policies:
                        named = {"trace": trace.name, "device": name, "policy": policy, "budget": written,
                                 "budget_bytes": budget, "plain_seconds": plain,
                                 "limit_seconds": limit}  # fmt: skip
                        run = self.one(program, policy, budget, device)
                        step = run["step_seconds"]
                        yield named | {"ratio": step / plain if step and plain else None} | run

    def timed(self, trace: Loaded, device: dict[str, Any]) -> TraceProgram:
        """With the times of the device's processor."""
        if "compute" not in device:
            return trace.program
        with progress(f"Reading {trace.path}"):
            return self.sim.TraceProgram(trace.path, device["compute"])

    def one(
        self, program: TraceProgram, policy: str, budget: int, device: dict[str, Any]
    ) -> dict[str, Any]:
        run = program.run(policy, budget, device, timeline=self.drawn, **with_model(self.pilot, policy))
        reason = verdict(run)
        found = {
            "reason": reason,
            "step_seconds": step_seconds(run),
            "stall_seconds": seconds_of(None if reason else per_step(run, "stall_ns")),
            "read_bytes": None if reason else per_step(run, "read_bytes"),
            "write_bytes": None if reason else per_step(run, "write_bytes"),
            "peak_bytes": run["peak_bytes"],
            "time_ns": run["time_ns"],
            "stall_ns": run["stall_ns"],
        } | {name: run[name] for name in run if name.startswith("pilot_")}
        if self.drawn and not reason:
            from outsize.page.drawn import drawn

            share = max(0.1, min(1.0, RUNS_IN_FULL / self.total))
            found["view"] = drawn(json.loads(run["timeline"]), program.names, share)
        return found

    def facts(self) -> dict[str, Any]:
        return {
            "traces": [trace.facts() for trace in self.traces],
            "devices": {name: device | {"retimed": retimed(device)} for name, device in self.devices.items()},
            "runs": self.runs,
            "runs_asked_for": self.total,
            "interrupted": self.interrupted,
        }


def seconds_of(nanos: float | None) -> float | None:
    return None if nanos is None else nanos / 1e9


def named(paths: Sequence[str]) -> dict[str, str]:
    """Short names for files: without folders, where that tells them apart."""
    short = [os.path.basename(path) for path in paths]
    return {path: path if short.count(name) > 1 else name for path, name in zip(paths, short, strict=True)}


def load(sim: Sim, args: argparse.Namespace) -> Comparison:
    """Reads all that was named, so that what is wrong is told before anything has run."""
    devices = {name: device_of(path) for path, name in named(list(dict.fromkeys(args.device))).items()}
    policies = list(dict.fromkeys(named_policies(args.policy)))
    for policy in policies:
        sim.check_policy(policy)
    named_budgets(args.budget, peak=GIB)
    model = named_model(sim, args.pilot, policies)
    traces = []
    for path, name in named(list(dict.fromkeys(args.traces))).items():
        with progress(f"Reading {path}"):
            program = sim.TraceProgram(path)
        if args.steps and args.steps[0] > program.steps:
            fail(f"{path} has {format_count(program.steps, 'step')}, and --steps begins behind them.")
        traces.append(Loaded(path, name, program, named_budgets(args.budget, program.peak)))
    drawn = None
    if args.output:
        first, last = args.steps or (1, WHOLE_RUN)
        drawn = (last - first + 1 if args.steps else STEPS_DRAWN, last, EVENTS_MAX)
    return Comparison(sim, traces, devices, policies, drawn, model)


class Progress:
    """A bar on a terminal; elsewhere a line for each run."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._bar.start()
            self._task = self._bar.add_task("simulating", total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def told(self, run: dict[str, Any]) -> None:
        self._done += 1
        which = f"{run['trace']}, {run['device']}, {run['policy']}, {run['budget']}"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, description=which)
            return
        step = run["step_seconds"]
        how = run["reason"] or ("-" if step is None else format_seconds(step))
        print(f"[{self._done}/{self._total}] {which}: {how}", file=sys.stderr, flush=True)


def carry_out(comparison: Comparison) -> None:
    try:
        with Progress(comparison.total) as progress:
            for run in comparison.each():
                comparison.runs.append(run)
                progress.told(run)
    except KeyboardInterrupt:
        comparison.interrupted = True


def show(comparison: Comparison) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    # A file or pipe has no width of its own: a row stays a row.
    console = Console(width=None if sys.stdout.isatty() else 180, highlight=False)
    for trace in comparison.traces:
        for device in comparison.devices:
            runs = [run for run in comparison.runs if (run["trace"], run["device"]) == (trace.name, device)]
            if not runs:
                continue
            plain = runs[0]["plain_seconds"]
            console.print(
                f"{trace.name} on {device}: {format_count(trace.program.ops, 'op')},"
                f" {format_count(trace.program.steps, 'step')}, at most {format_bytes(trace.program.peak)}"
                + (f"; {format_seconds(plain)} a step with room for all" if plain else ""),
                soft_wrap=True,
            )
            table = Table(box=box.SIMPLE_HEAD)
            for name in ("budget", "policy", "step", "x", "limit", "stall", "up", "down", ""):
                table.add_column(name, justify="left" if name in ("policy", "") else "right")
            for run in runs:
                table.add_row(*cells(run))
            console.print(table)
            if retimed(comparison.devices[device]):
                console.print(retimed(comparison.devices[device]), soft_wrap=True)
    console.print(
        "Simulated. A step is the mean after the first; x: against room for all; up and down: bytes read and written"
        " a step; limit: its compute, or the disk's time for the bytes that Belady's rule would move, or for what must move"
        " within a stretch of ops.",
        soft_wrap=True,
    )


def cells(run: dict[str, Any]) -> list[str]:
    def told(value: float | None, form: Callable[[float], str]) -> str:
        return "-" if value is None else form(value)

    return [
        f"{run['budget']} ({format_bytes(run['budget_bytes'])})",
        run["policy"],
        told(run["step_seconds"], format_seconds),
        told(run["ratio"], "{:.3f}".format),
        told(run["limit_seconds"], format_seconds),
        told(run["stall_seconds"], format_seconds),
        told(run["read_bytes"], format_bytes),
        told(run["write_bytes"], format_bytes),
        run["reason"],
    ]


def tell_page(path: str, facts: dict[str, Any], quiet: bool) -> None:
    from outsize.page import write_page

    try:
        write_page(path, "compare", facts)
    except OSError as error:
        fail(f"the page could not be written to {path}: {error.strerror}.")
    if not quiet:
        print(f"{path}: {format_bytes(os.path.getsize(path))}, open it in a browser.")


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    if args.output == "-":
        fail("a page goes to a file: name one.")
    if args.steps and not args.output:
        fail("--steps says what a page draws: name the page with -o.")
    sim = simulate.load()
    try:
        comparison = load(sim, args)
        carry_out(comparison)
    except ValueError as error:
        fail(str(error))
    facts = comparison.facts()
    if args.json:
        print(json.dumps(facts | {"runs": [{name: run[name] for name in run if name != "view"}
                                           for run in comparison.runs]}))  # fmt: skip
    else:
        show(comparison)
    simulate.tell_given_up(args.pilot, comparison.runs)
    if args.output:
        tell_page(args.output, facts, quiet=args.json)
    if comparison.interrupted:
        done = len(comparison.runs)
        print(f"outsize compare: interrupted; {done} of {comparison.total} runs were done.", file=sys.stderr)
        return 130
    return 0
