"""`outsize demo`: GPT-2 small, plainly and in two fifths and one fifth of its tensor memory.

Ends with exit code 0 only if every loss under outsize has the bits of plain's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from outsize import machine, report
from outsize.bench import memory, results, workloads
from outsize.bench.command import engine_options, seatings
from outsize.bench.progress import Progress
from outsize.bench.runner import Run, WorkerError, count_peaks, take_turns
from outsize.bench.workloads import Workload, WorkloadError
from outsize.cli import Parser, add_engine_options, output_file, positive
from outsize.units import GIB, MIB, SMALLEST_SHARE, format_bytes, format_seconds

PLAIN_NEEDS = 8 * GIB  # resident, with the default malloc
KNOWN_PEAK = 4070 * MIB  # counted where plain fits, by the same counter
WARMUP = 2
SHARES = (40, 20)


def parser() -> Parser:
    result = Parser(prog="outsize demo", description=__doc__.splitlines()[0])
    result.add_argument("--steps", default=6, type=positive, metavar="N", help="counted steps (6)")
    result.add_argument("--tiny", action="store_true", help="a toy model, for tests (seconds)")
    result.add_argument("--json", type=output_file, metavar="FILE", help="write everything there")
    add_engine_options(result)
    return result


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    began = time.monotonic()
    try:
        workload = workloads.find("gpt_bytes", ["--tiny"] if args.tiny else [])
        free = memory.limits().free
        with_plain = args.tiny or free > PLAIN_NEEDS + GIB
        _say(_opening(with_plain, free))
        peak = _count(workload) if with_plain else KNOWN_PEAK
        runs = contestants(workload, peak, with_plain, args.steps, engine_options(args))
    except (WorkloadError, WorkerError) as error:
        _say(f"outsize demo: {error}")
        return 1
    steps = WARMUP + args.steps
    outcome = results.Outcome(
        workload.name, list(workload.args), WARMUP, args.steps, machine.describe(), runs, peak
    )
    expected = {run.label: 10.0 for run in runs}
    with Progress("Training", {run.label: steps for run in runs}, expected) as progress:
        for group in seatings(runs, peak):
            take_turns(group, steps, progress.told)
    results.print_table(outcome)
    if args.json:
        report.write_json(args.json, outcome.as_json())
    code, text = verdict(outcome, with_plain)
    print(f"{text} ({format_seconds(time.monotonic() - began)} in all.)")
    return code


def _opening(with_plain: bool, free: int) -> str:
    if with_plain:
        return (
            "GPT-2 small on the bytes of Python's standard library: plainly, then in 40 % and 20 %"
            " of the memory that its tensors need. (The process holds Python and PyTorch beside"
            " them.) This takes some minutes."
        )
    return (
        f"Plain PyTorch needs about {format_bytes(PLAIN_NEEDS)} for this model and"
        f" {format_bytes(free)} are free here: it would not fit. So this shows outsize alone, at 40"
        f" % and 20 % of the {format_bytes(KNOWN_PEAK)} of tensors it holds where it fits."
    )


def _count(workload: Workload) -> int:
    with Progress("Counting plain's tensor bytes", {"counting": 2}, {"counting": 15.0}) as progress:
        peak = count_peaks(workload, 2, progress.told)
    _say(f"Plain holds {format_bytes(peak)} of tensors at its peak (counted by torch.profiler).")
    return peak


def contestants(
    workload: Workload, peak: int, with_plain: bool, steps: int, options: dict[str, object]
) -> list[Run]:
    told = workload.for_steps(WARMUP + steps)
    runs = [Run("plain PyTorch", "plain", told, WARMUP)] if with_plain else []
    for share in SHARES:
        budget = max(peak * share // 100, SMALLEST_SHARE)
        enable = options | {"budget": budget}
        runs.append(Run(f"outsize, {share} %", "outsize", told, WARMUP, budget, enable))
    return runs


def verdict(outcome: results.Outcome, with_plain: bool) -> tuple[int, str]:
    """Exit code and last line."""
    failed = [run for run in outcome.runs if run.failure]
    if failed:
        return 1, f"FAILED: {', '.join(run.label for run in failed)} did not finish."
    steps = outcome.warmup + outcome.steps
    compared = [outcome.losses_equal(run) for run in outcome.runs]
    if False in compared or any(len(run.losses) != steps for run in outcome.runs):
        return 1, "FAILED: losses differ."
    others = "plain PyTorch's" if with_plain else "each other's"
    return 0, f"All {steps} losses equal {others} to the last bit."


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
