"""Cases of raw_worker.py in which a forked child touches spilled tensors.

A child reports by its exit code; one that hangs is killed by its alarm clock.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from registry import Registry

CASES: Registry[Callable[[Path], None]] = Registry()
case = CASES.add
HANGING = 120  # seconds


def fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.alarm(HANGING)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait(child: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"the child ended with {code}"


def eight() -> tuple[list[Any], list[np.ndarray]]:
    """32 MiB of a budget of 24: the first ones are spilled, the last are not."""
    from raw_worker import evict, pattern, present, spillable

    tensors = [spillable(seed) for seed in range(8)]
    evict(*tensors[:6])
    tensors[5].sum()  # clean and resident
    tensors[6].sum()
    tensors[7].add_(0)  # changed and resident
    assert not present(tensors[0]) and present(tensors[5]) and present(tensors[7])
    return tensors, [pattern(seed) for seed in range(8)]


@case
def child_reads(folder: Path) -> None:
    """By views taken before the fork, by views taken after it, and by ops; and a child's child."""
    from raw_worker import right

    tensors, wanted = eight()
    views = {1: tensors[1].numpy(), 7: tensors[7].numpy()}
    addresses = [tensor.data_ptr() for tensor in tensors]

    def reads() -> None:
        import torch

        for index, view in views.items():
            right(view, wanted[index], f"old view {index}")
        assert [tensor.data_ptr() for tensor in tensors] == addresses
        assert torch.equal(tensors[2] + 0, torch.from_numpy(wanted[2]))

        def all_again() -> None:
            for index, tensor in enumerate(tensors):
                right(tensor.numpy(), wanted[index], f"new view {index}")

        wait(fork(all_again))
        all_again()

    for child in [fork(reads), fork(reads)]:
        wait(child)
    for index, tensor in enumerate(tensors):
        right(tensor.numpy(), wanted[index], f"the parent's {index}")


@case
def child_writes(folder: Path) -> None:
    """A child's writes, into spilled, clean and changed bytes, by views and ops, are its own."""
    from raw_worker import evict, right

    tensors, wanted = eight()
    views = [tensor.numpy() for tensor in tensors]

    def writes() -> None:
        for index, (view, tensor) in enumerate(zip(views, tensors, strict=True)):
            view[index::4096] = -5.0
            mine = wanted[index].copy()
            mine[index::4096] = -5.0
            right(tensor.numpy(), mine, f"the child's {index}")
            tensor.mul_(2)
            right(view, mine * 2, f"the child's {index}, doubled")

    wait(fork(writes))
    for _ in range(2):
        for index, tensor in enumerate(tensors):
            right(tensor.numpy(), wanted[index], f"the parent's {index}")
        evict(*tensors)


@case
def parent_goes_on(folder: Path) -> None:
    """What the parent writes and spills after a fork does not reach the child, which reads late."""
    from raw_worker import evict, right

    tensors, wanted = eight()
    begin, go = os.pipe()

    def reads_late() -> None:
        os.close(go)
        assert os.read(begin, 1) == b"g"
        for index, tensor in enumerate(tensors):
            right(tensor.numpy(), wanted[index], f"the child's {index}")

    child = fork(reads_late)
    for _ in range(4):  # new copies, in the file's freed places too
        for tensor in tensors:
            tensor.add_(1)
        evict(*tensors)
    dead = tensors.pop()
    del dead
    tensors[0].numpy()[:] = 0
    evict(*tensors)
    os.write(go, b"g")
    wait(child)
    for index, tensor in enumerate(tensors[1:], 1):
        assert np.array_equal(tensor.numpy(), wanted[index] + 1 + 1 + 1 + 1), index


def checksum(index: int) -> int:
    return int(POOLED[index].numpy().view(np.uint32).sum(dtype=np.uint64))


POOLED: list[Any] = []


@case
def multiprocessing_reads(folder: Path) -> None:
    from raw_worker import evict

    tensors, wanted = eight()
    POOLED.extend(tensors)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        sums = pool.map_async(checksum, list(range(8)) * 2).get(timeout=HANGING)
        evict(*tensors)
        again = pool.map_async(checksum, range(8)).get(timeout=HANGING)
    expected = [int(array.view(np.uint32).sum(dtype=np.uint64)) for array in wanted]
    assert sums == expected * 2 and again == expected
    assert [checksum(index) for index in range(8)] == expected
