"""A long job in little: many steps of ever new random programs, under one budget, in one process.

    python soak.py OUTPUT.json --steps 100000 [--seed N] [--faults …] [--jail] [--plain]

Beside the programs (random_programs.py) there is what a job keeps: a model that does not fit, of which
every few steps use a part, and losses that outlive their step. Ten times on the way it looks at what is
held and how long one op and one step of the model take. `--plain` is the same without outsize: what
the programs compute, and by how much Python and PyTorch grow by themselves.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import gc
import hashlib
import json
import os
import random
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jail

MIB = 1 << 20
BUDGET = 24 * MIB
LOOKS = 10
STEPS_EACH = 20  # of one program
MODEL_EVERY = 3  # steps
KEPT_MAX = 1000
LARGEST = BUDGET // 6  # a tensor joined with itself again and again would not fit in the end
# Of random_programs.SHAPES: those below 1 MiB, and one that has an extent of its own.
SMALL, LARGE = range(9), 9


class _Malloc(ctypes.Structure):
    """struct mallinfo2 of glibc 2.33."""

    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
              "fordblks", "keepcost")  # fmt: skip
    _fields_ = [(name, ctypes.c_size_t) for name in _names]


def malloced() -> dict[str, int]:
    """Bytes that malloc has handed out, and that it keeps though they are free; where it says so."""
    look = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if look is None:
        return {}
    look.restype = _Malloc
    seen = look()
    return {"malloc_used": seen.uordblks + seen.hblkhd, "malloc_free": seen.fordblks}


def memory() -> dict[str, int]:
    """As the kernel sees this process."""
    with open("/proc/self/statm") as pages:
        rss = int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "rss": rss,
        "mappings": len(Path("/proc/self/maps").read_bytes().splitlines()),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    } | malloced()


def new_program(seed: int, number: int) -> Any:
    """Without hypothesis, which remembers whatever it has made."""
    from random_ops import OPS
    from random_programs import OPTIMIZERS, Instruction, Program

    chance = random.Random(f"{seed} {number}")
    names = sorted(OPS)

    def shape() -> int:
        return LARGE if chance.random() < 0.15 else chance.choice(SMALL)

    return Program(
        seed=chance.randrange(1000), steps=STEPS_EACH,
        weights=tuple(shape() for _ in range(chance.randint(2, 3))),
        inputs=tuple(shape() for _ in range(chance.randint(1, 3))),
        optimizer=chance.randrange(len(OPTIMIZERS)), options=chance.randrange(64),
        body=tuple(Instruction(chance.choice(names), chance.randrange(60), chance.randrange(60),
                               chance.randrange(60)) for _ in range(chance.randint(2, 6))),
    )  # fmt: skip


class Job:
    """What lives as long as the process."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        torch.manual_seed(1)
        self.model = [torch.full((MIB // 4,), float(number)) for number in range(40)]  # 40 MiB
        self.momenta = [torch.zeros(MIB // 4) for _ in range(40)]  # and as much again
        self.kept: list[Any] = []
        self.turn = 0

    def step(self) -> None:
        """The next part of the model."""
        at = self.turn % len(self.model)
        self.turn += 1
        weight, momentum = self.model[at], self.momenta[at]
        gradient = (weight * 0.5).sub_(self.model[at - 1])
        momentum.mul_(0.9).add_(gradient)
        weight.sub_(momentum, alpha=1e-3)
        self.kept.append(gradient.sum())
        del self.kept[:-KEPT_MAX]

    def digest(self) -> str:
        from record import digest

        parts = [digest(tensor) for tensor in (*self.model, *self.momenta, *self.kept)]
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def timed(repeat: int, action: Callable[[], Any], tries: int = 5) -> float:
    """Nanoseconds of one action: the best of a few goes, as others use this machine too."""
    goes = []
    for _ in range(tries):
        begin = time.perf_counter_ns()
        for _ in range(repeat):
            action()
        goes.append((time.perf_counter_ns() - begin) / repeat)
    return min(goes)


def look(job: Job) -> dict[str, Any]:
    import outsize

    gc.collect()
    torch = job.torch
    few, more = torch.ones(64), torch.ones(MIB // 2)
    seen: dict[str, Any] = {
        "op_ns": timed(3000, lambda: few.add_(1)),
        "birth_ns": timed(3000, lambda: few + 1),
        "large_ns": timed(50, lambda: more.add_(1)),
    }
    del few, more
    seen["model_ns"] = timed(len(job.model), job.step, tries=1)
    names = ("resident", "resident_peak", "small_live", "small_held", "arena_bytes", "spill_file",
             "tensor_bytes", "evictions", "read_bytes", "pinned", "steps", "ops")  # fmt: skip
    stats = outsize.stats()
    return seen | memory() | {name: getattr(stats, name) for name in names}


def one_program(program: Any, job: Job) -> str:
    """A hash of all that it computed; the job's own model takes its turns in between."""
    import random_programs
    from record import Record

    record = Record()
    machine = random_programs.Machine(program, record)
    # The weights of its modules stay as they are: updating them would be most of a step.
    machine.all_weights = machine.weights
    machine.largest = LARGEST
    machine.optimizer = random_programs.OPTIMIZERS[program.optimizer](machine.weights)
    learn = machine.learn

    def learn_both(step: int) -> None:
        try:
            learn(step)
        except (RuntimeError, TypeError) as error:  # some optimizers do not take every program
            machine.failed(error)
        if step % MODEL_EVERY == 0:
            job.step()

    machine.learn = learn_both  # type: ignore[method-assign]
    try:
        machine.run()
    except (RuntimeError, TypeError, ValueError) as error:  # plain PyTorch refuses it too, or else:
        machine.failed(error)  # what it computed differs
    finally:
        del machine.learn
    return hashlib.sha256(repr(record.entries).encode()).hexdigest()[:12]


def soak(args: argparse.Namespace) -> dict[str, Any]:
    job = Job()
    count = args.steps // STEPS_EACH
    looks: list[dict[str, Any]] = []
    digests: list[str] = []
    began = time.monotonic()
    for number in range(count):
        program = new_program(args.seed, number)
        if args.verbose:
            print(number, program, file=sys.stderr, flush=True)
        digests.append(one_program(program, job))
        if args.verbose:
            print(number, digests[-1], file=sys.stderr, flush=True)
        if (number + 1) * LOOKS % count < LOOKS:
            seconds = time.monotonic() - began
            looks.append({"programs": number + 1, "seconds": seconds} | look(job))
            print(json.dumps(looks[-1]), flush=True)
    return {"looks": looks, "digests": digests, "job": job.digest(),
            "seconds": time.monotonic() - began}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    jail.add_options(parser)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--plain", action="store_true", help="without outsize")
    parser.add_argument("--verbose", action="store_true", help="every program, before it runs")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.jail:
        jail.enter()
    import torch

    import outsize

    torch.set_num_threads(1)
    budget = contextlib.nullcontext() if args.plain else outsize.budget(args.budget, faults=args.faults)
    with budget:
        report = soak(args)
    report |= {"budget": args.budget, "seed": args.seed, "stats": dataclasses.asdict(outsize.stats())}
    with open(args.output, "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main()
