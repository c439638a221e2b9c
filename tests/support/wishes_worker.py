"""Pins and hints through the Python front door; one report of what they did, for both policies.

    python wishes_worker.py OUTPUT.json --faults userfaultfd|signal|auto [--jail]
"""

from __future__ import annotations

import argparse
import json
import random
from typing import Any

import jail

MIB = 1 << 20
EXPERTS, STEPS, AHEAD = 24, 40, 2


def mixture(experts: list[Any], hint: bool) -> float:
    """The next expert depends on chance, so no earlier step tells which it is."""
    import outsize
    import torch

    picker = random.Random(3)
    path = [picker.randrange(EXPERTS) for _ in range(STEPS)]
    x = torch.ones(16, 1024)
    total = 0.0
    for at, expert in enumerate(path):
        if hint:
            outsize.hint(experts[k] for k in path[at + 1 : at + 1 + AHEAD])
        total += (x @ experts[expert]).sum().item()
    return total


def hints(experts: list[Any], policy: str, faults: str) -> dict[str, Any]:
    import outsize

    result: dict[str, Any] = {}
    for hint in (False, True):
        with outsize.budget(64 * MIB, policy=policy, faults=faults):
            mixture(experts, hint)  # what was born before the budget finds its place
            before = outsize.stats()
            total = mixture(experts, hint)
            after = outsize.stats()
        result["with" if hint else "without"] = {
            "total": total,
            "demand": after.demand_bytes - before.demand_bytes,
            "hits": after.prefetch_hit_bytes - before.prefetch_hit_bytes,
        }
    return result


def pins(experts: list[Any], policy: str, faults: str) -> dict[str, Any]:
    import outsize
    import torch

    module = torch.nn.Linear(1024, 1024)
    said = []
    outsize.hint(module)
    outsize.pin(module).release()  # without a budget: nothing
    with outsize.budget(64 * MIB, policy=policy, faults=faults):
        with outsize.pin(experts[0], {"m": module}) as held:
            pinned = outsize.stats().pinned
            for expert in experts[1:]:
                expert.sum()
            read = outsize.stats().read_bytes
            experts[0].sum(), module.weight.sum()
            stayed = outsize.stats().read_bytes == read
            try:
                outsize.pin(experts[1:7])
            except outsize.BudgetError as error:
                said.append(str(error))
            kept = outsize.stats().pinned
        held.release()
        after = outsize.stats().pinned
    return {"pinned": pinned, "stayed": stayed, "kept": kept, "after": after, "said": said}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    jail.add_options(parser)
    args = parser.parse_args()
    if args.jail:
        jail.enter()
    import torch

    torch.manual_seed(0)
    experts = [torch.randn(1024, 2048) for _ in range(EXPERTS)]  # 8 MiB each
    report: dict[str, Any] = {"plain": mixture(experts, False)}
    for policy in ("lookahead", "ondemand"):
        report[policy] = {
            "hints": hints(experts, policy, args.faults),
            "pins": pins(experts, policy, args.faults),
        }
    with open(args.output, "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main()
