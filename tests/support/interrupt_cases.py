"""Ctrl-C and SIGTERM at any moment: in mid-step, while a budget begins, while it ends.

    python interrupt_cases.py OUTPUT.json --seed N [--faults …] [--jail]

Another process sends a signal a little later, by chance; what it hits is counted. A step that was hit
is done again from the state before it, so that the end must be that of a run that nobody disturbed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from typing import Any

import jail

MIB = 1 << 20
BUDGET = 20 * MIB
STEPS = 12
TRIES = 2  # of each step that may be hit
SPANS = 48  # budgets that begin and end


class Sender:
    """Sends this process a signal after so many seconds, for as long as it is asked to."""

    def __init__(self) -> None:
        loop = "while read s w; do sleep $w; kill -$s $PPID; done"
        self.shell = subprocess.Popen(["sh", "-c", loop], stdin=subprocess.PIPE, text=True)

    def send(self, number: signal.Signals, seconds: float) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(f"{number.name[3:]} {seconds:.6f}\n")
        self.shell.stdin.flush()

    def close(self) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.close()
        self.shell.wait(60)


class Terminated(Exception):
    """What this program's handler makes of SIGTERM."""


def terminated(number: int, frame: Any) -> None:
    raise Terminated


HITS = (KeyboardInterrupt, Terminated)


class Training:
    """Its whole state can be set back."""

    def __init__(self) -> None:
        import torch
        from torch import nn

        torch.manual_seed(3)
        layers = [m for _ in range(8) for m in (nn.Linear(512, 512), nn.Dropout(0.1), nn.ReLU())]
        self.model = nn.Sequential(*layers)  # 8 MiB; with Adam's state, gradients and copies 64
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-3, foreach=False)
        self.losses: list[float] = []
        self.step()

    def tensors(self) -> list[Any]:
        states = [v for state in self.optimizer.state.values() for v in state.values()]
        return [*self.model.parameters(), *states]

    def step(self) -> None:
        import torch

        self.optimizer.zero_grad()
        loss = self.model(torch.randn(256, 512)).square().mean()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())

    def saved(self) -> Any:
        import torch

        copies = [tensor.detach().clone() for tensor in self.tensors()]
        return copies, torch.get_rng_state(), len(self.losses)

    def restore(self, saved: Any) -> None:
        import torch

        copies, generator, losses = saved
        with torch.no_grad():
            for tensor, copy in zip(self.tensors(), copies, strict=True):
                tensor.copy_(copy)
        torch.set_rng_state(generator)
        del self.losses[losses:]

    def digest(self) -> list[Any]:
        from record import digest

        return [*map(digest, self.tensors()), *[loss.hex() for loss in self.losses]]


def wait_for_signal() -> None:
    time.sleep(300)
    raise AssertionError("no signal came")


def train(chance: random.Random | None) -> tuple[list[Any], Counter[str]]:
    """With `chance`, every step is hit once or twice, somewhere."""
    training = Training()
    hits: Counter[str] = Counter()
    sender = Sender() if chance else None
    begin = time.monotonic()
    training.step()
    duration = time.monotonic() - begin
    for _ in range(STEPS):
        saved = training.saved()
        for _ in range(TRIES if chance else 0):
            done = False
            try:
                number = chance.choice([signal.SIGINT, signal.SIGTERM])
                sender.send(number, chance.uniform(0, duration))
                training.step()
                done = True
                wait_for_signal()
            except HITS as hit:
                hits["after the step" if done else type(hit).__name__] += 1
            training.restore(saved)
        training.step()
    if sender:
        sender.close()
    return training.digest(), hits


def spans(chance: random.Random, faults: str) -> tuple[Counter[str], list[str]]:
    """Budgets that are hit while they begin or end are on or off, never half."""
    import outsize
    import torch
    from outsize import compiled

    core = compiled.load()
    hits: Counter[str] = Counter()
    wrong: list[str] = []
    kept = [torch.full((MIB,), float(number)) for number in range(8)]  # 32 MiB
    sender = Sender()
    where = ""

    def span() -> None:
        nonlocal where
        where = "beginning"
        with outsize.budget(BUDGET, faults=faults):
            where = "inside"
            for tensor in kept:
                tensor.add_(0)
            where = "ending"
        where = "after its end"

    durations = []
    for _ in range(3):
        begin = time.monotonic()
        span()
        durations.append(time.monotonic() - begin)
    for turn in range(SPANS):
        where = "before it begins"
        try:
            sender.send(signal.SIGINT, chance.uniform(0, sorted(durations)[1]))
            span()
            wait_for_signal()
        except KeyboardInterrupt:
            hits[where] += 1
        if where == "ending" and core.running() and outsize.enabled():
            hits["before the end began"] += 1  # no context manager in Python can help that
            outsize.disable()
        if core.running() or outsize.enabled() or core.include_thread(False):
            wrong.append(f"turn {turn}, hit while {where}: {core.running()}, {outsize.enabled()}")
            outsize.disable()
            core.shutdown()
        wrong += [f"turn {turn}, tensor {number}" for number, tensor in enumerate(kept)
                  if not bool((tensor == number).all())]  # fmt: skip
    sender.close()
    return hits, wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    jail.add_options(parser)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.jail:
        jail.enter()
    import outsize
    import torch
    from outsize import compiled, session  # noqa: F401  (not to be hit in an import)

    compiled.load()
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, terminated)
    plain, _ = train(None)
    with outsize.budget(BUDGET, faults=args.faults):
        ours, hits = train(random.Random(args.seed))
        gc.collect()
        held = outsize.stats().as_dict()
    with outsize.budget(BUDGET, faults=args.faults):
        after = outsize.stats().as_dict()
    span_hits, wrong = spans(random.Random(args.seed), args.faults)
    report = {"plain": plain, "ours": ours, "hits": hits, "stats": held, "after": after,
              "spans": span_hits, "wrong": wrong, "pid": os.getpid()}  # fmt: skip
    with open(args.output, "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main()
