"""Ends sessions while something else goes on; a hang is what the caller's time limit is for.

    python session_end.py running_ops|dying_tensors|forks FAULTS
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import outsize
import torch
from outsize import compiled

MIB = 1 << 20
SESSIONS = 12


def in_background(work: Callable[[], None]) -> Callable[[], None]:
    """Repeats `work` on a thread until the returned function is called."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def loop() -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=loop)
    thread.start()

    def finish() -> None:
        stop.set()
        thread.join()
        if errors:
            raise errors[0]

    return finish


def sessions(faults: str) -> None:
    """Each has more tensors than fit, so that its end has something to bring back."""
    for number in range(SESSIONS):
        with outsize.budget(24 * MIB, faults=faults):
            tensors = [torch.full((MIB,), float(i + number)) for i in range(10)]
            outsize.step()
        for i, tensor in enumerate(tensors):
            assert tensor[0] == tensor[-1] == i + number


def running_ops(faults: str) -> None:
    rows = [torch.ones(64) for _ in range(500)]
    finish = in_background(lambda: torch.stack(rows).sum().item())
    sessions(faults)
    finish()
    # Nobody is believed to be inside an op any more: where no room can be made one is refused, and
    # does not wait for somebody to end an op.
    with outsize.budget(24 * MIB, faults=faults):
        held = torch.ones(5 * MIB)
        pin = compiled.load().pin(held)
        try:
            torch.empty(2 * MIB)
        except torch.OutOfMemoryError:
            return
        finally:
            pin.release()
    raise AssertionError("28 MiB were resident in a budget of 24 MiB")


def dying_tensors(faults: str) -> None:
    alive: list[torch.Tensor] = []

    def churn() -> None:
        alive.append(torch.ones(100_000))
        if len(alive) > 20:
            del alive[::2]

    finish = in_background(churn)
    sessions(faults)
    finish()


def forks(faults: str) -> None:
    def fork() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    finish = in_background(fork)
    sessions(faults)
    finish()


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]](sys.argv[2])
