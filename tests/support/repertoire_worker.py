"""Runs the programs of some chapters plain and then under budgets, all in this process.

    python repertoire_worker.py OUTPUT.json CHAPTER… --faults userfaultfd|signal|auto [--jail]

The report is written after every run, so that it names the program that ended the process.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from typing import Any

import jail

SHARES = (50, 25)


def outcome(function: Any, budget: int, faults: str, spill_dir: str) -> dict[str, Any]:
    """One run under a budget: what it computed, what went wrong, and the counters."""
    import outsize
    from worker import run_program

    result: dict[str, Any] = {"budget": budget, "entries": [], "error": ""}
    try:
        with outsize.budget(budget, faults=faults, spill_dir=spill_dir):
            try:
                result["entries"] = run_program(function)
            except Exception as error:
                result["error"] = traceback.format_exc()[-3000:]
                traceback.clear_frames(error.__traceback__)
    except Exception:
        result["error"] += traceback.format_exc()[-3000:]
    result["stats"] = outsize.stats().as_dict()
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("chapters", nargs="+")
    parser.add_argument("--only", nargs="+", help="these programs of the chapters")
    parser.add_argument("--spill-dir", default="")
    jail.add_options(parser)
    args = parser.parse_args()
    if args.jail:
        jail.enter()
    import torch
    from repertoire import programs
    from worker import peak_tensor_bytes, run_program

    torch.set_num_threads(1)  # no two threads wait for each other at every op: CI is busy
    report: dict[str, Any] = {}

    def written() -> None:
        with open(args.output, "w") as file:
            json.dump(report, file)

    chosen = {name: function for chapter in args.chapters
              for name, function in programs(chapter).items()
              if not args.only or name in args.only}
    for name, function in chosen.items():
        began = time.monotonic()
        mine: dict[str, Any] = {"runs": {}}
        # TorchScript computes otherwise the first time: that run is for the peak alone.
        mine["peak"] = peak_tensor_bytes(lambda: run_program(function))
        mine["plain"] = run_program(function)
        report[name] = mine
        for share in SHARES:
            mine["running"] = f"{share}%"
            written()
            run = outcome(function, mine["peak"] * share // 100, args.faults, args.spill_dir)
            mine["runs"][f"{share}%"] = run
        mine["running"] = ""
        mine["seconds"] = time.monotonic() - began
        written()


if __name__ == "__main__":
    main()
