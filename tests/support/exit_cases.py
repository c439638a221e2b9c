"""How programs end that hold spilled tensors: each case is a child of one process that has PyTorch
imported, and ends as its own interpreter ends.

    python exit_cases.py OUTPUT.json plain|userfaultfd|signal [--jail] [CASE …]

Reports each case's exit code and output. `plain` runs them without outsize, which says what is right.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import jail
from registry import Registry

MIB = 1 << 20
BUDGET = 16 * MIB
HANGING = 120  # seconds
Budget = Callable[[], AbstractContextManager[Any]]
CASES: Registry[Callable[[Budget], None]] = Registry()
case = CASES.add
KEPT: list[Any] = []  # dies with the interpreter


def many(first: int = 0) -> list[Any]:
    """40 MiB, of which a budget holds less than half."""
    import torch

    return [torch.full((MIB,), float(first + index)) for index in range(10)]


def right(tensors: list[Any], first: int = 0) -> None:
    for index, tensor in enumerate(tensors):
        assert tensor[0] == tensor[-1] == tensor.numpy()[77] == first + index, index


def say(text: str) -> None:
    """Also where Python's own streams are gone already."""
    os.write(1, f"{text}\n".encode())


def forever(budget: Budget) -> Any:
    """A budget that nobody ends."""
    entered = budget()
    entered.__enter__()
    KEPT.append(entered)
    KEPT.append(many())
    return KEPT[-1]


class Holder:
    """Looks at its tensors when it dies, at the very end."""

    def __init__(self) -> None:
        self.tensors = many(20)

    def __del__(self) -> None:
        right(self.tensors, 20)
        say("died with right bytes")


@case
def all_kinds_of_leftovers(budget: Budget) -> None:
    """Globals, an object with __del__, a generator half-run, a pool of threads, a caught exception;
    read at exit, beside new tensors."""
    import torch

    tensors = forever(budget)
    KEPT.append(Holder())
    def generate() -> Iterator[Any]:
        mine = many(40)
        try:
            yield from mine
        finally:
            right(mine, 40)
            say("generator closed")

    generator = generate()
    assert next(generator)[5] == 40
    KEPT.append(generator)
    pool = ThreadPoolExecutor(2)
    KEPT.extend([pool, [pool.submit(right, tensors) for _ in range(4)]])
    try:
        held = many(60)
        torch.mm(held[0], held[1])
    except RuntimeError as error:
        KEPT.append(error)

    def look() -> None:
        right(tensors)
        right(many(80), 80)
        say("read at exit")

    atexit.register(look)


@case
def a_thread_outlives_main(budget: Budget) -> None:
    tensors = forever(budget)

    def work() -> None:
        time.sleep(0.2)
        for _ in range(3):
            right(tensors)
            right(many(20), 20)
        say("the thread is done")

    threading.Thread(target=work).start()


@case
def daemon_reads_raw(budget: Budget) -> None:
    """Through NumPy views: page faults while the interpreter goes away."""
    views = [tensor.numpy() for tensor in forever(budget)]
    turns = []

    def loop() -> None:
        while True:
            for view in views:
                view.sum()
            turns.append(1)

    threading.Thread(target=loop, daemon=True).start()
    while not turns:
        time.sleep(0.01)
    say("ends now")


@case
def sys_exit_in_a_thread(budget: Budget) -> None:
    """And a graph that is a cycle, which nobody ever frees."""
    import torch

    tensors = forever(budget)
    leaf = torch.full((MIB,), 2.0, requires_grad=True)
    hidden = (leaf * leaf).tanh()
    hidden.register_hook(lambda gradient, hidden=hidden: gradient)
    KEPT.append(hidden.sum())

    def work() -> None:
        KEPT.append(many(20))
        sys.exit(7)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    right(tensors)
    right(KEPT[-1], 20)
    say("main went on")


@case
def sys_exit_in_the_block(budget: Budget) -> None:
    with budget():
        KEPT.append(many())
        atexit.register(right, KEPT[-1])
        sys.exit(4)


@case
def an_error_leaves_the_block(budget: Budget) -> None:
    """Python keeps its traceback, and with it the tensors of its frames."""

    def fail() -> None:
        mine = many(20)
        raise ValueError(f"with {len(mine)} tensors")

    with budget():
        KEPT.append(many())
        fail()


@case
def os_exit(budget: Budget) -> None:
    right(forever(budget))
    os._exit(9)


@case
def os_exit_in_a_thread(budget: Budget) -> None:
    tensors = forever(budget)

    def work() -> None:
        right(tensors)
        os._exit(11)

    threading.Thread(target=work).start()
    while True:
        many()



def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("faults", choices=["plain", "userfaultfd", "signal", "auto"])
    parser.add_argument("--jail", action="store_true")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    if args.jail:
        jail.enter()
    import torch

    import outsize
    from outsize import compiled

    compiled.load()
    torch.set_num_threads(1)  # a fork leaves OpenMP's threads behind

    def budget() -> AbstractContextManager[Any]:
        if args.faults == "plain":
            return contextlib.nullcontext()
        return outsize.budget(BUDGET, faults="auto" if args.jail else args.faults)

    report = {}
    for name in args.cases or CASES:
        with tempfile.TemporaryFile("w+") as said:
            child = os.fork()
            if child == 0:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                signal.alarm(HANGING)
                CASES[name](budget)
                return  # and so the interpreter ends
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            report[name] = {"code": code, "said": said.read()}
    with open(args.output, "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main()
