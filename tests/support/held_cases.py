"""Programs of trouble_worker.py in which generators, tracebacks and frames hold tensors longer than
anybody wants: across steps, across failed steps, and (in exit_cases.py) across the end of a budget."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from registry import Registry
from torch import Tensor, nn

PROGRAMS: Registry[Callable[[Any, Any], None]] = Registry()
program = PROGRAMS.add
LENGTH = 1 << 18  # numbers: 1 MiB


def batches(count: int, made: list[str]) -> Iterator[Tensor]:
    """Holds all of its batches while it waits to be asked for the next."""
    mine = [torch.randn(LENGTH) for _ in range(count)]
    try:
        for batch in mine:
            mine[0].add_(batch, alpha=0.1)
            yield batch
    finally:
        made.append(f"closed with {len(mine)}")


def fails_holding(depth: int, x: Tensor) -> Tensor:
    """A traceback of so many frames, each with a tensor of its own."""
    mine = x * depth
    if depth == 0:
        return torch.mm(mine.view(-1, 1), torch.ones(5, 5))
    return fails_holding(depth - 1, mine.sin())


def caught(x: Tensor) -> BaseException:
    try:
        fails_holding(10, x)
    except RuntimeError as error:
        return error
    raise AssertionError("did not fail")


def held_by(error: BaseException) -> list[Tensor]:
    found = []
    step = error.__traceback__
    while step is not None:
        found += [v for v in step.tb_frame.f_locals.values() if isinstance(v, Tensor)]
        step = step.tb_next
    return found


@program
def generators_and_tracebacks_held_for_long(record: Any, watch: Any) -> None:
    weight = torch.randn(LENGTH, requires_grad=True)
    optimizer = torch.optim.Adam([weight], 1e-2)
    made: list[str] = []
    errors: list[BaseException] = []
    halfway = [batches(6, made) for _ in range(4)]  # 24 MiB that only they hold
    for turn in range(24):
        generator = halfway[turn % 4]
        batch = next(generator, None)
        if batch is None:
            halfway[turn % 4] = generator = batches(6, made)
            batch = next(generator)
        optimizer.zero_grad()
        loss = (weight * batch).tanh().square().mean()
        loss.backward()
        optimizer.step()
        record.add("loss", loss)
        errors = [*errors[-1:], caught(batch)]  # two tracebacks of 11 MiB each
        sys.last_traceback = errors[-1].__traceback__  # as an interactive session keeps it
        del loss, batch, generator
        if turn % 8 == 7:
            watch.look()
    for error in errors:
        record.add("held by a traceback", *held_by(error))
    for generator in halfway:
        record.add("left in a generator", *generator)
    record.add("weight", weight)
    record.entries.append(("closed", str(made)))
    del sys.last_traceback


class Node(nn.Module):
    """Knows its parent: what it holds dies only with the next look at cycles."""

    def __init__(self, parent: Any) -> None:
        super().__init__()
        self.parents = [parent]
        self.weight = nn.Parameter(torch.randn(LENGTH))


@program
def garbage_in_cycles(record: Any, watch: Any) -> None:
    import gc

    gc.disable()
    try:
        for turn in range(12):
            first = Node(None)
            first.parents = [Node(first), Node(first)]
            total = sum((node.weight * turn).sin().sum() for node in (first, *first.parents))
            total.backward()
            first.saved = total.grad_fn  # a graph in the cycle
            record.add("total", total, first.weight.grad)
            del first, total
            if turn % 4 == 3:
                watch.look()  # collects
    finally:
        gc.enable()
