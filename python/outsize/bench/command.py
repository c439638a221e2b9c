"""`outsize bench WORKLOAD`: who is compared, in what order, and what is written down."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from outsize import machine, report
from outsize.bench import memory, results, workloads
from outsize.bench.predict import predict, tell_least_waits
from outsize.bench.progress import Progress
from outsize.bench.recorded import Recorded, is_oracle, recorded
from outsize.bench.runner import Run, WorkerError, ample, count_peaks, take_turns
from outsize.bench.swap import SwapUnavailable, kernel_swap
from outsize.bench.workloads import Workload, WorkloadError
from outsize.checkup import default_spill_dir
from outsize.choices import named_budgets, named_policies
from outsize.cli import Parser, add_engine_options, fail, output_file, positive, size
from outsize.pilot.model import is_pilot
from outsize.units import GIB, SMALLEST_SHARE, SizeError, format_bytes, parse_size

MALLOCS = {
    "default malloc": {},
    "MALLOC_MMAP_THRESHOLD_=65536": {"MALLOC_MMAP_THRESHOLD_": "65536"},
}


def parser() -> Parser:
    result = Parser(
        prog="outsize bench",
        usage="outsize bench WORKLOAD [options] [-- workload options]",
        description="Times a workload plainly, under budgets and (as root) under the kernel's swap,"
        f" step by step in turns. Examples: {', '.join(workloads.example_names())}; or a script.",
    )
    result.add_argument("workload", metavar="WORKLOAD", help="an example's name, or a script")
    result.add_argument(
        "--budgets",
        default="40%,20%",
        metavar="LIST",
        help="shares of plain's peak tensor bytes, or sizes (default: 40%%,20%%)",
    )
    result.add_argument(
        "--policies",
        default="lookahead",
        metavar="LIST",
        help="e.g. lookahead,auto,pilot,weights,ondemand,deepum:degree=16,chaining=off; "
        "oracle is told what a recording says",
    )
    result.add_argument("--ample", action="store_true", help="also a budget in which all fits")
    result.add_argument("--swap", action="store_true", help="also the kernel's swap (root)")
    result.add_argument("--no-plain", action="store_true", help="plain does not fit: sizes only")
    result.add_argument(
        "--both-mallocs", action="store_true", help="plain also with MMAP_THRESHOLD"
    )
    result.add_argument("--steps", type=positive, metavar="N", help="counted (5; with --quick 2)")
    result.add_argument("--warmup", type=positive, metavar="N", help="before that (3; with --quick 2)")
    result.add_argument(
        "--swap-steps", type=positive, metavar="N", help="counted under swap (as --steps)"
    )
    result.add_argument("--peak", type=size, metavar="SIZE", help="plain's peak, if known already")
    result.add_argument("--disk-sample", type=size, metavar="SIZE", help="(8GiB; with --quick 64MiB)")
    result.add_argument("--no-disk", action="store_true", help="do not measure the disk")
    result.add_argument(
        "--predict",
        action="store_true",
        help="simulate every run first, from a recorded trace; with --json also written before any runs",
    )
    result.add_argument("--pilot", default="", metavar="FILE", help="what policy pilot begins with")
    result.add_argument("--json", type=output_file, metavar="FILE", help="write everything there")
    result.add_argument("--quick", action="store_true", help="a smoke test: toy size, few steps")
    add_engine_options(result)
    result.otherwise = "; options of the workload stand behind --"
    return result


def main(argv: Sequence[str]) -> int:
    words = list(argv)
    cut = words.index("--") if "--" in words else len(words)
    args = parser().parse_args(words[:cut])
    extra = words[cut + 1 :]
    if args.quick:
        extra = extra or ["--tiny"]
    settle(args)
    try:
        workload = workloads.find(args.workload, extra)
        outcome = bench(workload, args)
    except (WorkloadError, WorkerError, SizeError) as error:
        print(f"outsize bench: {error}", file=sys.stderr)
        return 1 if isinstance(error, WorkerError) else 2
    results.print_table(outcome)
    if args.json:
        report.write_json(args.json, outcome.as_json())
    return 1 if any(run.failure for run in outcome.runs) else 0


def settle(args: argparse.Namespace) -> None:
    """What nobody named: a smoke test has few steps, and measures the disk only where that is asked for."""
    if args.quick and not args.predict and not args.disk_sample:
        args.no_disk = True
    args.steps = args.steps or (2 if args.quick else 5)
    args.warmup = args.warmup or (2 if args.quick else 3)
    args.disk_sample = args.disk_sample or ("64MiB" if args.quick else "8GiB")


def bench(workload: Workload, args: argparse.Namespace) -> results.Outcome:
    """Runs everything that was asked for."""
    outcome = results.Outcome(
        workload.name, list(workload.args), args.warmup, args.steps, machine.describe(), []
    )
    peak = parse_size(args.peak) if args.peak else 0
    named_budgets(args.budgets, 0 if args.no_plain and not peak else GIB)  # a slip is told at once
    if not peak and not args.no_plain:
        with Progress("Counting plain's tensor bytes", {"counting": 3}, {}) as progress:
            peak = count_peaks(workload, 3, progress.told)
    outcome.peak_tensor_bytes = peak
    outcome.runs = contestants(workload, args, peak)
    if any(run.budget == SMALLEST_SHARE for run in outcome.runs):
        outcome.notes.append(
            f"Shares below {format_bytes(SMALLEST_SHARE)} were raised to it: this is a toy."
        )
    outcome.disk_before, torch_version = measure_disk(args)
    outcome.machine |= torch_version
    steps = args.warmup + args.steps
    with contextlib.ExitStack() as stack:
        recording = record_what_is_told(stack, outcome, workload, args)
        with Progress(
            f"Timing {workload.name}", {r.label: steps for r in outcome.runs}, {}
        ) as progress:
            for group in seatings(outcome.runs, peak):
                take_turns(group, steps, progress.told)
        if args.swap:
            run_under_swap(outcome, workload, args)
        outcome.disk_after, _ = measure_disk(args)
        if recording is not None:
            outcome.notes += tell_least_waits(recording, outcome.runs, [outcome.disk_before, outcome.disk_after])
    return outcome


def record_what_is_told(
    stack: contextlib.ExitStack, outcome: results.Outcome, workload: Workload, args: argparse.Namespace
) -> Recorded | None:
    """One recording, kept as long as `stack`, for predictions and for the oracles; before anything is timed."""
    oracles = [run for run in outcome.runs if is_oracle(run)]
    if not args.predict and not oracles:
        return None
    if args.predict and "read" not in outcome.disk_before:
        why = outcome.disk_before.get("error", "leave --no-disk out")
        raise WorkloadError(f"--predict needs the disk's bandwidths: {why}.")
    if not workload.is_example:
        raise WorkloadError(
            "--predict takes the examples. Record your script with `outsize record`, and ask `outsize simulate`."
            if args.predict
            else "Policy oracle is timed on the examples. Record your script with `outsize record`, and give the trace to"
            " `outsize run --policy oracle --foresee`."
        )
    steps = args.warmup + args.steps
    with Progress("Recording", {"recording": steps}, {}) as bar:
        recording = stack.enter_context(recorded(workload, steps, outcome.peak_tensor_bytes, bar.told))
    for run in oracles:
        run.enable["foresee"] = recording.path
    if args.predict:
        outcome.notes += predict(recording, outcome.runs, outcome.disk_before, steps)
        if args.json and args.json != "-":  # which proves that nothing of it has run
            report.write_json(args.json, outcome.as_json())
    return recording


def contestants(workload: Workload, args: argparse.Namespace, peak: int) -> list[Run]:
    told = workload.for_steps(args.warmup + args.steps)
    runs = []
    if not args.no_plain:
        mallocs = list(MALLOCS.items())[: 2 if args.both_mallocs else 1]
        for name, environment in mallocs:
            label = "plain" if name == "default malloc" else f"plain, {name}"
            runs.append(Run(label, "plain", told, args.warmup, environment=environment))
    budgets = named_budgets(args.budgets, peak)
    if args.ample and peak:
        budgets.append(("ample", ample(peak)))
    policies = named_policies(args.policies)
    if args.pilot and not any(map(is_pilot, policies)):
        fail("--pilot is for policy pilot: add --policies pilot.")
    for policy in policies:
        for name, budget in budgets:
            label = f"outsize {name}" + (f", {policy}" if len(policies) > 1 else "")
            enable = engine_options(args) | {"budget": budget, "policy": policy}
            if args.pilot and is_pilot(policy):
                enable["pilot"] = os.path.abspath(args.pilot)
            runs.append(Run(label, "outsize", told, args.warmup, budget, enable))
    return runs


def engine_options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "spill_dir": args.spill_dir,
        "spill_limit": args.spill_limit,
        "disk_write_limit": args.disk_write_limit,
        "faults": args.faults,
        "io_threads": args.io_threads,
    }


def seatings(runs: list[Run], peak: int) -> list[list[Run]]:
    """All runs at one table if their memory fits together, else one after the other."""
    # Plain malloc keeps up to twice what is live; every process imports half a GiB.
    needed = sum((run.budget or 2 * peak) + GIB // 2 for run in runs)
    return [runs] if needed < memory.limits().free else [[run] for run in runs]


def run_under_swap(outcome: results.Outcome, workload: Workload, args: argparse.Namespace) -> None:
    """The kernel's swap at each budget's limit, alone on the machine, with either malloc."""
    reference = next((run for run in outcome.runs if run.imports_rss), None)
    if reference is None:
        outcome.notes.append("Kernel swap: not run, nothing told the size of the imports.")
        return
    steps = args.warmup + (args.swap_steps or args.steps)
    directory = args.spill_dir or default_spill_dir()
    swap_bytes = max(4 * outcome.peak_tensor_bytes, GIB)
    targets = {r.budget: r for r in outcome.runs if r.mode == "outsize" and "ample" not in r.label}
    for budget in targets:
        limit = reference.imports_rss + budget + budget // 10
        for name, environment in MALLOCS.items():
            label = f"kernel swap {format_bytes(limit)}, {name}"
            run = Run(label, "plain", workload.for_steps(steps), args.warmup, budget)
            try:
                with contextlib.ExitStack() as stack:
                    prefix = stack.enter_context(kernel_swap(directory, swap_bytes, limit))
                    run = replace(run, prefix=prefix, environment=environment)
                    progress = stack.enter_context(Progress(label, {label: steps}, {}))
                    take_turns([run], steps, progress.told)
            except SwapUnavailable as reason:
                outcome.notes.append(f"Kernel swap: not run: {reason}.")
                return
            outcome.runs.append(run)


def measure_disk(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Disk bandwidths (in a process of its own, this one stays small) and the torch version."""
    sample = "1MiB" if args.no_disk else args.disk_sample
    command = [sys.executable, "-m", "outsize", "doctor", "--json", "--sample", sample]
    if args.spill_dir:
        command += ["--spill-dir", args.spill_dir]
    if not args.no_disk:
        print(f"Measuring the disk, {sample} each way ...", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        fail(done.stderr.strip().removeprefix("outsize: "))
    found = json.loads(done.stdout)
    software = {k: v for k, v in found["machine"].items() if k.startswith("torch")}
    return ({} if args.no_disk else found["disk"] | {"moves": found["moves"]}), software
