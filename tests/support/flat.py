"""Ten thousand steps that each keep their loss, a tensor of one number, and what is held on the way.

    python flat.py OUTPUT.json --faults userfaultfd|signal|auto [--jail]

The losses are born among tensors that die: a kept one must not keep its neighbours' memory.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import jail

MIB = 1 << 20
STEPS = 10_000
LOOKS = (1000, 5000, 10_000)
BUDGET = 16 * MIB


def spill_file() -> dict[str, int]:
    """Length and allocated bytes of the one open file without a name; no counter of outsize."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            target, status = os.readlink(link), link.stat()
        except OSError:  # the folder's own descriptor
            continue
        if target.startswith("/") and target.endswith("(deleted)") and status.st_size:
            found.append({"length": status.st_size, "allocated": status.st_blocks * 512})
    assert len(found) == 1, found
    return found[0]


def held() -> dict[str, int]:
    import gc

    import outsize

    gc.collect()
    stats = outsize.stats()
    file = spill_file()
    with open("/proc/self/statm") as pages:
        rss = int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    names = ("resident", "resident_peak", "small_live", "small_held", "arena_bytes", "spill_file",
             "tensor_bytes", "evictions", "read_bytes")  # fmt: skip
    return {name: getattr(stats, name) for name in names} | {
        "rss": rss, "file_length": file["length"], "file_allocated": file["allocated"],
        "mappings": len(Path("/proc/self/maps").read_bytes().splitlines()),
    }  # fmt: skip


def train() -> dict[str, Any]:
    import torch
    from torch import nn

    torch.manual_seed(3)
    torch.set_num_threads(1)
    # Sixteen activations of 56 KiB: more than one extent of small storages holds.
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), *[nn.Hardsigmoid()] * 12)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    large = [torch.full((MIB // 2,), float(number)) for number in range(12)]  # 24 MiB
    losses, looks = [], {}
    for step in range(1, STEPS + 1):
        x, y = torch.randn(896, 16), torch.randn(896, 16)
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())  # the same storage; the nodes of its graph are not our matter
        if step % 20 == 0:  # something is always spilled, and something comes back
            large[step // 20 % len(large)].add_(large[(step // 20 + 5) % len(large)])
        if step in LOOKS:
            looks[str(step)] = held()
    return {"looks": looks, "losses": [loss.item() for loss in losses]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    jail.add_options(parser)
    args = parser.parse_args()
    if args.jail:
        jail.enter()
    import outsize

    with outsize.budget(BUDGET, faults=args.faults):
        report = train()
        report["mechanism"] = outsize.stats().mechanism
    report["budget"] = BUDGET
    with open(args.output, "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main()
