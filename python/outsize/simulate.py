"""`outsize simulate`: what would have happened. Needs no torch and no training: a log is enough."""

from __future__ import annotations

import argparse
import importlib
import json
import math
from collections.abc import Sequence
from typing import Protocol, cast

from outsize.cli import Parser, fail


class SimrdLog(Protocol):
    """`outsize._sim.SimrdLog` as Python sees it (python/bindings/sim_module.cpp)."""

    peak: int  # bytes, with room for everything
    compute: int  # ns
    ops: int

    def run(self, policy: str, ratio: float) -> dict[str, int | str]: ...


class Sim(Protocol):
    """`outsize._sim`: a wrong argument or an unreadable file is a ValueError."""

    def SimrdLog(self, path: str) -> SimrdLog: ...

    def simrd_policies(self) -> str: ...


def load() -> Sim:
    try:
        return cast(Sim, importlib.import_module("outsize._sim"))
    except ImportError as error:
        fail(f"the compiled simulator cannot be loaded: {error}. Build it with: make setup")


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
        usage="outsize simulate --simrd LOG --policy NAME --ratio R",
        description="Runs an operator log of DTR's public simulator under a budget, by its rules,"
        " and prints one JSON object. Where a run is stopped (`oom`, `remat_exceeded`: more"
        " recomputation than the log's own compute), clock and evaluations are null.",
    )
    result.add_argument("--simrd", required=True, metavar="LOG", help="one JSON object a line")
    result.add_argument(
        "--policy",
        default="dtr-eqclass",
        metavar="NAME",
        help="dtr-eqclass (default), dtr, dtr-local, lru, msps, largest, or an ablation",
    )
    result.add_argument(
        "--ratio",
        required=True,
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


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    sim = load()
    try:
        print(json.dumps(answer(sim, args.simrd, args.policy, args.ratio)))
    except ValueError as error:
        fail(str(error))
    return 0
