"""Programs that get into trouble and go on: plain, and under a budget, all in this process.

    python trouble_worker.py OUTPUT.json [--faults userfaultfd|signal|auto] [--jail] [PROGRAM …]

A program's own view of itself must be the same in both: what it computes, what it is told, and that
nothing of what failed stays behind. The troubles themselves are in error_cases.py, held_cases.py and
fork_steps.py.
"""

from __future__ import annotations

import argparse
import gc
import json
import traceback
from collections.abc import Callable
from typing import Any

import jail

MIB = 1 << 20
BUDGET = 20 * MIB


class Watch:
    """What is held, asked by the program itself at moments that are alike; plain has nothing to tell."""

    def __init__(self, core: Any = None) -> None:
        self.core = core
        self.looks: list[dict[str, int]] = []

    def look(self) -> None:
        gc.collect()
        if self.core is None:
            return
        stats = self.core.stats()
        names = ("tensor_bytes", "small_live", "small_held", "resident", "pinned", "arena_bytes",
                 "spill_file", "evictions")  # fmt: skip
        self.looks.append({name: stats[name] for name in names})


Program = Callable[[Any, Watch], None]


def run(program: Program, watch: Watch) -> list[Any]:
    import torch
    from record import Record

    torch.manual_seed(5)
    record = Record()
    program(record, watch)
    gc.collect()
    return record.entries


def everything_can_leave() -> str:
    """After all that went wrong an op may use the whole budget: nothing is pinned for nobody."""
    import torch

    try:
        parts = [torch.ones(MIB) for _ in range(2)]  # 8 MiB, and as much for the result
        return "" if torch.cat(parts).sum().item() == 2 * MIB else "wrong sum"
    except RuntimeError as error:
        return str(error)


def under(program: Program, faults: str) -> dict[str, Any]:
    import outsize
    from outsize import compiled

    watch = Watch(compiled.load())
    with outsize.budget(BUDGET, faults=faults):
        entries = run(program, watch)
        pinned = everything_can_leave()
    return {"entries": entries, "looks": watch.looks, "pinned": pinned,
            "stats": outsize.stats().as_dict()}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    jail.add_options(parser)
    parser.add_argument("programs", nargs="*")
    args = parser.parse_args()
    if args.jail:
        jail.enter()
    import torch

    torch.set_num_threads(1)
    import error_cases
    import fork_steps
    import held_cases

    programs = error_cases.PROGRAMS | held_cases.PROGRAMS | fork_steps.PROGRAMS
    report: dict[str, Any] = {}
    for name in args.programs or programs:
        try:
            plain = run(programs[name], Watch())
            report[name] = {"plain": plain} | under(programs[name], args.faults)
        except Exception as error:
            report[name] = {"failed": "".join(traceback.format_exception(error))}
            traceback.clear_frames(error.__traceback__)
    with open(args.output, "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main()
