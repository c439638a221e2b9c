"""Measures what moving takes the processors, for `outsize doctor`: `python -m outsize.moves DIRECTORY BYTES`; or, with
`held-up` after that, only by how much a program is held up.

A process of its own, for that takes a session: tensors of an earlier one would be moved too.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from outsize import compiled
from outsize.machine import usable_cores
from outsize.units import MIB

ROUNDS = 6  # each way
LONGEST_S = 20.0  # after which two each way are enough
MOST = 256 * MIB  # moved in one
SIDE = 1024  # of the matrices that are multiplied meanwhile: a kernel on all cores, of some milliseconds


def delays(
    load: compiled.DiskLoad, compute: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> list[int]:
    """By how many nanoseconds a program that computes on all cores was held up for each MiB that was read or written
    meanwhile: by the I/O threads, and in a virtual machine by its host, which may work for the disk on the same processors, in
    time that stands in nobody's account. By turns with transfers and as long without; a figure for each."""
    compute()  # the first time takes longer
    turns: list[Turn] = []
    began = clock()
    while len(turns) < 4 or (len(turns) < 2 * ROUNDS and clock() - began < LONGEST_S):
        turns += [_while_moving(load, write, compute, clock) for write in (False, True)]
    pace = statistics.median(turn.alone / turn.alone_pieces for turn in turns)
    return [int((turn.moving - turn.pieces * pace) * 1e9 * MIB / load.bytes) for turn in turns]


def held_up(measured: Sequence[int]) -> int:
    """The mean of the middle half; below 0 by chance."""
    middle = sorted(measured)[len(measured) // 4 : len(measured) - len(measured) // 4]
    return int(statistics.mean(middle))


@dataclass(frozen=True)
class Turn:
    """Seconds, and how often `compute` came to its end in them."""

    moving: float
    pieces: int
    alone: float
    alone_pieces: int


def _while_moving(
    load: compiled.DiskLoad, write: bool, compute: Callable[[], object], clock: Callable[[], float]
) -> Turn:
    failed: list[Exception] = []

    def move() -> None:
        try:
            load.move(write)
        except Exception as error:
            failed.append(error)

    mover = threading.Thread(target=move)
    mover.start()
    moving, pieces = _computing(compute, clock, lambda _: not mover.is_alive())
    mover.join()
    if failed:
        raise failed[0]
    return Turn(moving, pieces, *_computing(compute, clock, lambda took: took >= moving))


def _computing(
    compute: Callable[[], object], clock: Callable[[], float], ended: Callable[[float], bool]
) -> tuple[float, int]:
    took, pieces, began = 0.0, 0, clock()
    while pieces == 0 or not ended(took):
        compute()
        pieces += 1
        took = clock() - began
    return took, pieces


def _multiplication() -> Callable[[], object]:
    import torch

    torch.set_num_threads(usable_cores())
    a, b = (torch.full((SIDE, SIDE), value) for value in (0.5, 0.25))
    into = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=into)


def main(directory: str, sample: str, only: str = "") -> None:
    found: dict[str, Any] = {}
    try:
        core = compiled.load()
        if only != "held-up":
            found = dict(core.measure_moves(directory, int(sample)))
    except Exception as error:  # whatever it is: whoever asked has a disk and pages to tell of
        found = {"error": str(error)}
    else:
        try:
            load = core.DiskLoad(directory, min(int(sample) // ROUNDS, MOST))
            found["delays"] = delays(load, _multiplication())
        except Exception as error:  # what else was found is told without it
            found["held_up_error"] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
