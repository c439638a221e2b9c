"""`outsize simulate`: what would have happened. Needs no torch and no training: a log is enough."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from typing import Any, Protocol, cast

from outsize.choices import named_budgets, named_policies
from outsize.cli import Parser, fail
from outsize.device import PROFILES, at_the_programs_expense, device_of, least_transfer_seconds, retimed
from outsize.pilot.model import PilotModel, named_model, told, with_model
from outsize.progress import progress
from outsize.simulator import load_simulator
from outsize.units import GIB, SMALLEST_SHARE, format_bytes, format_count, format_seconds


class SimrdLog(Protocol):
    """`outsize._sim.SimrdLog` as Python sees it (python/bindings/sim_module.cpp)."""

    peak: int  # bytes, with room for everything
    compute: int  # ns
    ops: int

    def run(self, policy: str, ratio: float) -> dict[str, int | str]: ...


class TraceProgram(Protocol):
    """`outsize._sim.TraceProgram` (python/bindings/trace_runs.cpp)."""

    meta: str
    peak: int  # bytes; with that budget nothing moves
    largest: int
    duration_ns: int  # waits left out
    ops: int
    steps: int
    threads_overlap: bool
    names: dict[int, str]  # of op sites

    # timeline: how many steps, the last of them, events of each kind; the answer then has it as JSON
    def run(
        self, policy: str, budget: int, device: dict[str, Any], *, spill_limit: int = 0, judge: bool = False,
        timeline: tuple[int, int, int] | None = None, pilot: PilotModel | None = None,
    ) -> dict[str, Any]: ...

    def fewest(self, budget: int) -> list[dict[str, int]] | None: ...

    # least_ns and compute_ns of so many `steps`; None: threads ran ops at once, or there is no later step
    def window_limit(
        self, budget: int, device: dict[str, Any], after_step: int = 1
    ) -> dict[str, int] | None: ...


class Sim(Protocol):
    """`outsize._sim`: a wrong argument or an unreadable file is a ValueError."""

    def SimrdLog(self, path: str) -> SimrdLog: ...

    def simrd_policies(self) -> str: ...

    # compute: a device's roofline (device.py), where ops take other times than recorded
    def TraceProgram(self, path: str, compute: dict[str, int] | None = None) -> TraceProgram: ...

    def check_policy(self, policy: str) -> None: ...

    def PilotModel(self, path: str) -> PilotModel: ...


def load() -> Sim:
    return cast(Sim, load_simulator())


def ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 8:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0 and at most 8.")
    return value


def parser() -> Parser:
    result = Parser(
        prog="outsize simulate",
        usage="outsize simulate TRACE --device FILE [--budget B,...] [--policy P,...] [--json]\n"
        "       outsize simulate --simrd LOG --policy NAME --ratio R",
        description="Says what a recorded run would have taken under another budget, policy or disk: the"
        " same engine and planners on a modelled disk. Record the run and measure the disk while the machine"
        " is quiet: how long ops and transfers take is what these say. With --simrd it runs an operator log of DTR's"
        " public simulator under a budget, by its rules, and prints one JSON object; where such a run is"
        " stopped (`oom`, `remat_exceeded`: more recomputation than the log's own compute), clock and"
        " evaluations are null.",
    )
    result.add_argument("trace", nargs="?", metavar="TRACE", help="a trace that outsize recorded")
    result.add_argument(
        "--device",
        metavar="FILE",
        help="the disk: what `outsize doctor --json` printed on that machine; or a profile: " + ", ".join(PROFILES),
    )
    result.add_argument(
        "--budget",
        default="100%,50%,25%",
        metavar="B,...",
        help="sizes, or shares of what the run held at most (100%%,50%%,25%%)",
    )
    result.add_argument("--json", action="store_true", help="print JSON")
    result.add_argument("--simrd", metavar="LOG", help="one JSON object a line")
    result.add_argument(
        "--policy",
        metavar="NAME,...",
        help="lookahead (default), auto, pilot, ondemand, deepum, weights, oracle; in simulation only: uvm, deepum-blocks; with --simrd:"
        " dtr-eqclass (default), dtr, dtr-local, lru, msps, largest, or an ablation",
    )
    result.add_argument("--pilot", metavar="FILE", help="what policy pilot begins with (`outsize pilot train`)")
    result.add_argument(
        "--ratio",
        type=ratio,
        metavar="R",
        help="the budget as a share of the bytes that the log needs with room for everything",
    )
    return result


def answer(sim: Sim, path: str, policy: str, share: float) -> dict[str, int | str | None]:
    """What is printed. A run that was stopped has no final clock and no count."""
    outcome = sim.SimrdLog(path).run(policy, share)
    finished = outcome["status"] == "ok"
    return {
        "status": outcome["status"],
        "budget": outcome["budget"],
        "clock": outcome["clock"] if finished else None,
        "evaluations": outcome["evaluations"] if finished else None,
        "peak": outcome["peak"],
    }


def step_seconds(run: dict[str, Any]) -> float | None:
    """A later step's time, in the mean: the first also learns and makes what stays. None where ops were
    refused: what did not run took no time."""
    if verdict(run):
        return None
    ends = [step["end_ns"] for step in run["at_step"]]
    if len(ends) < 2:
        return None
    return (ends[-1] - ends[0]) / (len(ends) - 1) / 1e9


def limit_of(
    program: TraceProgram, fewest: list[dict[str, int]] | None, budget: int, compute: float | None, device: dict[str, Any]
) -> float | None:
    """limit_seconds() in a budget; `fewest` is the program's there, which is the same on every device."""
    windows = program.window_limit(budget, device) if fewest else None
    return limit_seconds(fewest, windows, compute, device)


def limit_seconds(
    fewest: list[dict[str, int]] | None, windows: dict[str, int] | None, compute: float | None, device: dict[str, Any]
) -> float | None:
    """The least a step can take: its compute, the disk's time for the bytes that an omniscient planner would move, or
    what the windows say in which these bytes must move (sim/window_limit.h). None: there is no such planner for this
    program, or no step after the first."""
    read, written = (per_step({"at_step": fewest or []}, name) for name in ("read_bytes", "write_bytes"))
    if read is None or written is None or compute is None:
        return None
    in_windows = windows["least_ns"] / windows["steps"] / 1e9 if windows else 0.0
    return max(compute, least_transfer_seconds(read, written, device), in_windows)


def per_step(run: dict[str, Any], name: str) -> float | None:
    values = [step[name] for step in run["at_step"]]
    return (values[-1] - values[0]) / (len(values) - 1) if len(values) > 1 else None


def verdict(run: dict[str, Any]) -> str:
    """Empty where the run came to its end."""
    if run["problems"]:
        return f"stopped: {run['problems'][0]}"
    if run["unserved_raw_access"]:
        return "stopped: a raw access found no room"
    refused = run["refused_for_budget"] + run["refused_for_space"]
    if not refused:
        return ""
    return f"{refused:,} refused, one op needs at least {format_bytes(run['needed_bytes'])}"


def simulate_trace(sim: Sim, args: argparse.Namespace) -> dict[str, Any]:
    device = device_of(args.device)
    policies = named_policies(args.policy or "lookahead")
    model = named_model(sim, args.pilot, policies)
    with progress(f"Reading {args.trace}"):
        program = sim.TraceProgram(args.trace, device.get("compute"))
    device = at_the_programs_expense(device, program.meta)
    with progress("Simulating with room for all"):
        plain = program.run("ondemand", 2 * program.peak + GIB, device)
    if verdict(plain):
        fail(f"{args.trace} cannot be simulated, not even with room for all: {verdict(plain)}.")
    runs = []
    unlimited = step_seconds(plain)
    for written, budget in named_budgets(args.budget, program.peak):
        with progress(f"Looking for the limit in {written}"):
            limit = limit_of(program, program.fewest(budget), budget, unlimited, device)
        for policy in policies:
            with progress(f"Simulating {policy} in {written}"):
                run = program.run(policy, budget, device, **with_model(model, policy))
            named = {"policy": policy, "budget": written, "budget_bytes": budget, "limit_seconds": limit}
            step = step_seconds(run)
            ratio = step / unlimited if step and unlimited else None
            runs.append(named | {"step_seconds": step, "ratio": ratio} | run)
    return {
        "trace": args.trace,
        "ops": program.ops,
        "steps": program.steps,
        "peak_bytes": program.peak,
        "threads_overlap": program.threads_overlap,
        "device": device,
        "unlimited_step_seconds": unlimited,
        "runs": runs,
    }


def show(found: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("policy", "budget", "step", "x", "limit", "stall", "up", "down", ""):
        table.add_column(name, justify="left" if name in ("policy", "") else "right")
    plain = found["unlimited_step_seconds"]
    for run in found["runs"]:
        step, ratio, trouble = run["step_seconds"], run["ratio"], verdict(run)
        stall, *moved = (
            None if trouble else per_step(run, name) for name in ("stall_ns", "read_bytes", "write_bytes")
        )
        table.add_row(
            run["policy"],
            f"{run['budget']} ({format_bytes(run['budget_bytes'])})",
            "-" if step is None else format_seconds(step),
            "-" if ratio is None else f"{ratio:.3f}",
            "-" if run["limit_seconds"] is None else format_seconds(run["limit_seconds"]),
            "-" if stall is None else format_seconds(stall / 1e9),
            *("-" if count is None else format_bytes(count) for count in moved),
            trouble,
        )
    # A file or pipe has no width of its own: a row stays a row.
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print(
        f"{found['trace']}: {format_count(found['ops'], 'op')}, {format_count(found['steps'], 'step')}, at most"
        f" {format_bytes(found['peak_bytes'])}"
        + (f"; {format_seconds(plain)} a step with room for all" if plain else ""),
        soft_wrap=True,
    )
    console.print(table)
    if retimed(found["device"]):
        console.print(retimed(found["device"]), soft_wrap=True)
    if found["threads_overlap"]:
        console.print("Threads ran ops at once: nothing but time holds them together here.", soft_wrap=True)
    console.print(
        "Simulated. A step is the mean after the first; up and down: bytes read and written a step; limit: its"
        " compute, or the disk's time for the bytes that Belady's rule would move, or for what must move within a stretch"
        " of ops.",
        soft_wrap=True,
    )
    if any(run["budget"].endswith("%") and run["budget_bytes"] == SMALLEST_SHARE for run in found["runs"]):
        console.print(f"Shares below {format_bytes(SMALLEST_SHARE)} were raised to it.")
    if any(verdict(run) for run in found["runs"]):
        console.print(
            "Where ops are refused the program would not have come to its end: no time, no ratio.",
            soft_wrap=True,
        )


def tell_given_up(path: str | None, runs: list[dict[str, Any]]) -> None:
    """Once, for all runs of a program: it is the same in all."""
    given_up = [run for run in runs if path and run.get("pilot_given_up")]
    if path and given_up:
        run = given_up[0]
        print(f"outsize: {told(path, run['pilot_ops'], run['pilot_known_ops'], True)}", file=sys.stderr)


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    if (args.trace is None) == (args.simrd is None):
        fail("give a trace that outsize recorded, or --simrd with a log of DTR's simulator.")
    if args.simrd and args.ratio is None:
        fail("--simrd needs --ratio: the budget as a share of the bytes that the log needs.")
    if args.trace and args.device is None:
        fail("give the disk with --device FILE: what `outsize doctor --json` printed on that machine.")
    if args.simrd and args.pilot:
        fail("--pilot is for policy pilot: add --policy pilot.")
    sim = load()
    try:
        if args.simrd:
            with progress(f"Simulating {args.simrd}"):
                outcome = answer(sim, args.simrd, args.policy or "dtr-eqclass", args.ratio)
            print(json.dumps(outcome))
            return 0
        found = simulate_trace(sim, args)
    except ValueError as error:
        fail(str(error))
    tell_given_up(args.pilot, found["runs"])
    if args.json:
        print(json.dumps(found))
    else:
        show(found)
    return 0
