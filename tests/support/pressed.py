"""Trains on weights that lie in a mapped file, plain and then under a budget while memory is scarce.

    python pressed.py OUTPUT.json FILE [--faults userfaultfd|signal|auto] [--jail]

Says `under a budget` when the caller may make memory scarce, and `done` when it should stop.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import jail

MIB = 1 << 20
BUDGET = 24 * MIB
LAYERS, WIDTH = 12, 1024  # 48 MiB of weights
STEPS = 4


def mapped(path: str) -> list[Any]:
    """As `from_pretrained` hands a model over: private, and adopted with the file as its copy."""
    import torch

    whole = torch.UntypedStorage.from_file(path, shared=False, nbytes=LAYERS * WIDTH * WIDTH * 4)
    each = WIDTH * WIDTH
    flat = torch.tensor([], dtype=torch.float32).set_(whole)
    return [flat[i * each : (i + 1) * each].view(WIDTH, WIDTH) for i in range(LAYERS)]


def train(path: str) -> list[Any]:
    import torch
    from record import Record

    torch.manual_seed(2)
    record = Record()
    base = mapped(path)
    adapters = [torch.zeros(WIDTH, WIDTH, requires_grad=True) for _ in range(LAYERS)]
    optimizer = torch.optim.SGD(adapters, 0.05, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        x = torch.randn(32, WIDTH)
        for weight, adapter in zip(base, adapters, strict=True):
            x = torch.tanh(x @ weight + x @ adapter)
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        base[step].mul_(0.5)  # from now on its file is no copy of it
        record.add("loss", loss)
    record.add("weight", *base, *adapters)
    record.optimizer(optimizer)
    return record.entries


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("file")
    jail.add_options(parser)
    args = parser.parse_args()
    if args.jail:
        jail.enter()
    import outsize
    import torch

    torch.set_num_threads(1)
    plain = train(args.file)
    with outsize.budget(BUDGET, faults=args.faults):
        print("under a budget", flush=True)
        ours = train(args.file)
        print("done", flush=True)
        input()
    with open(args.output, "w") as file:
        json.dump({"plain": plain, "ours": ours, "stats": outsize.stats().as_dict()}, file)


if __name__ == "__main__":
    main()
