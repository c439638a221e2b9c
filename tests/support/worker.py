"""Runs one training program plain and then under budgets, all in this process, and reports as JSON.

    python worker.py OUTPUT.json PROGRAM --faults userfaultfd|signal|auto [--jail]

`--jail`: first becomes an ordinary user who may use neither userfaultfd nor io_uring.
"""

from __future__ import annotations

import argparse
import json
import os
import traceback
from collections.abc import Callable
from typing import Any

import jail

MIB = 1 << 20
THREADS = 2


def peak_tensor_bytes(run: Callable[[], Any]) -> int:
    """By PyTorch's own profiler: its allocator reports every birth and death."""
    import torch

    os.environ["KINETO_LOG_LEVEL"] = "99"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True) as profile:
        run()
    events = profile.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    held = highest = 0
    for _, change in sorted(changes, key=lambda item: item[0]):
        held += change
        highest = max(highest, held)
    return highest


def run_program(function: Callable[[Any], None]) -> list[tuple[str, str]]:
    import gc

    import torch
    from record import Record

    torch.manual_seed(11)
    record = Record()
    function(record)
    gc.collect()
    return record.entries


def under(function: Callable[[Any], None], budget: int, policy: str, faults: str,
          spill_dir: str) -> dict[str, Any]:
    """One run under a budget: what it computed or how it was refused, and the counters."""
    import outsize
    import torch

    result: dict[str, Any] = {"budget": budget, "policy": policy, "entries": [], "refused": ""}
    try:
        with outsize.budget(budget, policy=policy, faults=faults, spill_dir=spill_dir):
            try:
                result["entries"] = run_program(function)
            except torch.OutOfMemoryError as error:
                result["refused"] = f"{type(error).__name__}: {error}"
                traceback.clear_frames(error.__traceback__)
    except torch.OutOfMemoryError as error:
        result["refused"] = f"{type(error).__name__}: {error}"
    result["stats"] = outsize.stats().as_dict()
    return result


# At 50 % they move little and show nothing that 25 % does not; deepum at the smallest budget is a
# matter of random_worker.py.
SHOWS_NO_MORE = {("ondemand", "50%"), ("deepum", "50%"), ("deepum", "smallest")}


def measure(name: str, faults: str, budgets: list[str], policies: list[str],
            spill_dir: str) -> dict[str, Any]:
    import torch

    torch.set_num_threads(THREADS)
    from largest_op import largest_op_bytes
    from programs import PROGRAMS

    function = PROGRAMS[name]
    plain = run_program(function)
    report: dict[str, Any] = {
        "plain": plain,
        "peak": peak_tensor_bytes(lambda: run_program(function)),
        "largest_op": largest_op_bytes(lambda: run_program(function)),
        "uid": os.getuid(),
        "runs": {},
    }
    ample = under(function, 2 << 30, policies[0], faults, spill_dir)
    smallest = ample["stats"]["min_budget"]
    report["runs"]["ample"] = ample
    for policy in policies:
        for budget in budgets:
            if (policy, budget) in SHOWS_NO_MORE:
                continue
            amount = smallest if budget == "smallest" else parse(budget, report["peak"])
            if amount >= smallest:
                report["runs"][f"{policy} {budget}"] = under(
                    function, amount, policy, faults, spill_dir)
    report["runs"]["too small"] = under(function, smallest - MIB, policies[0], faults, spill_dir)
    return report


def parse(budget: str, peak: int) -> int:
    if budget.endswith("%"):
        return peak * int(budget[:-1]) // 100
    return int(budget)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output", help="where the report goes; the profiler writes to stdout")
    parser.add_argument("program")
    jail.add_options(parser)
    parser.add_argument("--budgets", nargs="+", default=["50%", "25%", "smallest"])
    parser.add_argument("--policies", nargs="+", default=["lookahead", "ondemand", "deepum"])
    parser.add_argument("--spill-dir", default="")
    args = parser.parse_args()
    if args.jail:
        jail.enter()
    report = measure(args.program, args.faults, args.budgets, args.policies, args.spill_dir)
    with open(args.output, "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main()
