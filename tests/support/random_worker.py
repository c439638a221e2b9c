"""Runs random programs plain and under budgets, all in this process, and prints one JSON line each.

    python random_worker.py --faults userfaultfd|signal|auto [--jail] [--examples N] [--seed N]
    python random_worker.py --replay 'Program(...)'

Without a seed the programs are the same every time. Ends with 1 at the first one that differs,
shrunk as far as --shrink goes.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import time
import warnings
from pathlib import Path
from typing import Any

import jail

MIB = 1 << 20
HUNG_SECONDS = 300  # a program takes about five


def difference(plain: list[Any], ours: list[Any]) -> str:
    if len(plain) != len(ours):
        return f"{len(ours)} values where plain PyTorch has {len(plain)}"
    unequal = [f"{a} is not {b}" for a, b in zip(plain, ours, strict=True) if a != b]
    return "; ".join(unequal[:4])


class Broken(AssertionError):
    """A program that outsize gets wrong."""


class Irreproducible(Exception):
    """A program that plain PyTorch does not compute twice alike."""


class Prover:
    def __init__(self, faults: str, spill_dir: str) -> None:
        self.faults, self.spill_dir = faults, spill_dir
        from outsize.units import SMALLEST_BUDGET

        self.accepted = max(SMALLEST_BUDGET, 4 * MIB)  # less is refused as a slip (`8` for `8GiB`)

    def under(self, program: Any, budget: int, policy: str) -> dict[str, Any]:
        from worker import under

        return under(program, budget, policy, self.faults, self.spill_dir)

    def equal(self, plain: list[Any], run: dict[str, Any], name: str) -> None:
        if run["refused"]:
            raise Broken(f"{name}: refused: {run['refused']}")
        found = difference(plain, run["entries"])
        if found:
            raise Broken(f"{name}: {found}")
        if run["stats"]["resident_peak"] > run["budget"]:
            raise Broken(f"{name}: {run['stats']['resident_peak']} bytes in {run['budget']}")

    def prove(self, program: Any) -> dict[str, Any]:
        """Raises Broken unless every run gives plain's bytes, or is refused where it must be."""
        from worker import run_program

        say(running=repr(program))
        # A hang may hold Python's lock: this ends the process all the same.
        faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)
        start = time.monotonic()
        plain = run_program(program)
        if difference(plain, run_program(program)):
            raise Irreproducible(repr(program))
        ample = self.under(program, 4 << 30, "lookahead")
        self.equal(plain, ample, "ample")
        if ample["stats"]["evictions"] or ample["stats"]["write_bytes"]:
            raise Broken("ample: something moved")
        peak, smallest = ample["stats"]["tensor_bytes_peak"], ample["stats"]["min_budget"]
        runs = {"50%": (peak // 2, "lookahead"), "25%": (peak // 4, "ondemand"),
                "smallest": (smallest, "lookahead"), "smallest ondemand": (smallest, "ondemand"),
                "smallest deepum": (smallest, "deepum")}  # fmt: skip
        done: list[str] = []
        moved = 0
        for name, (budget, policy) in runs.items():
            if budget < smallest:
                continue
            run = self.under(program, budget, policy)
            self.equal(plain, run, f"{name} ({budget} bytes)")
            moved += run["stats"]["read_bytes"]
            done.append(name)
        if smallest - MIB >= self.accepted:
            refused = self.under(program, smallest - MIB, "lookahead")["refused"]
            if "needs" not in refused or "the budget is" not in refused:
                raise Broken(f"{smallest - MIB} bytes are not refused as they should be: {refused!r}")
            done.append("refused")
        return {
            "peak": peak, "smallest": smallest, "values": len(plain), "read": moved, "runs": done,
            "mechanism": ample["stats"]["mechanism"], "seconds": round(time.monotonic() - start, 1),
        }  # fmt: skip


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def explore(prover: Prover, examples: int, seed: int | None, shrink: bool) -> None:
    """Hypothesis makes up the programs. Its database is off: it would make two runs differ."""
    import random_programs
    from hypothesis import HealthCheck, Phase, assume, given, settings
    from hypothesis import seed as seeded

    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=seed is None,
        phases=phases, suppress_health_check=list(HealthCheck), print_blob=False,
    )  # fmt: skip
    @given(random_programs.programs())
    def equal(program: Any) -> None:
        try:
            say(**prover.prove(program))
        except Irreproducible:
            say(irreproducible=repr(program))
            assume(False)
        except Exception as error:
            say(broken=f"{type(error).__name__}: {error}", program=repr(program))
            raise

    (equal if seed is None else seeded(seed)(equal))()


def main() -> None:
    parser = argparse.ArgumentParser()
    jail.add_options(parser)
    parser.add_argument("--examples", type=int, default=12)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--spill-dir", default="")
    parser.add_argument("--replay", help="a program as it was printed, or a file with it")
    args = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    if args.jail:
        jail.enter()
    import random_programs
    import torch

    torch.set_num_threads(2)
    prover = Prover(args.faults, args.spill_dir)
    if not args.replay:
        return explore(prover, args.examples, args.seed, args.shrink)
    text = args.replay if args.replay.startswith("Program(") else Path(args.replay).read_text()
    say(**prover.prove(random_programs.example(text)))


if __name__ == "__main__":
    main()
