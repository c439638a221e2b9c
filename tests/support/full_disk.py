"""A disk that somebody else fills while a program spills to it, and empties again when told of it.

    python full_disk.py OUTPUT.json SPILL_DIR [--faults userfaultfd|signal|auto] [--jail]

The program does one thing after the other, and again what failed. What it has in the end must be what
plain PyTorch computes; what it was told, and what was true of its tensors then, is reported.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jail

MIB = 1 << 20
BUDGET = 16 * MIB
LIMIT = 1 << 30  # the disk is smaller than that


class Other:
    """Another program that takes all the space there is."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "filler"
        self.full = 0

    def fill(self) -> None:
        """In ever smaller pieces, until not a page is left."""
        for piece in ("1M", "4K"):
            subprocess.run(["dd", "if=/dev/zero", f"of={self.file}", f"bs={piece}", "oflag=append",
                            "conv=notrunc,fsync"], stderr=subprocess.DEVNULL, check=False)  # fmt: skip
        self.full += 1

    def leave(self) -> None:
        self.file.unlink(missing_ok=True)


class Work:
    """Tensors made one after the other, each from the one before it."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []

    def actions(self, other: Other | None) -> Iterator[Callable[[], None]]:
        import outsize
        import torch

        def make(number: int) -> None:
            last = self.tensors[-1] if self.tensors else torch.zeros(MIB)
            self.tensors.append((last * 0.5).add_(float(number)))  # 4 MiB

        def change(at: int) -> None:
            self.tensors[at].mul_(2)

        yield lambda: make(0)
        if other:
            other.fill()  # before anything was spilled
        for number in range(1, 30):
            yield lambda number=number: make(number)
            if number == 12 and other:
                other.fill()  # when the spill file has to grow once more
        for at in range(30):
            yield lambda at=at: change(at)
        del self.tensors[3:]
        for _ in range(8):  # the file gives back what it does not use ...
            outsize.step()
        if other:
            other.fill()  # ... and somebody takes it
        for number in range(30, 60):
            yield lambda number=number: make(number)

    def digests(self) -> list[str]:
        from record import digest

        return [digest(tensor) for tensor in self.tensors]


def insist(action: Callable[[], Any], tell: Callable[[Exception], None]) -> Any:
    import outsize

    for _ in range(50):
        try:
            return action()
        except outsize.SpillError as error:
            tell(error)
    raise AssertionError("told fifty times in a row")


def go_on(work: Work, other: Other | None, told: list[Any]) -> None:
    def tell(error: Exception) -> None:
        # RAM and disk are full: what is there can be read all the same, behind every dispatcher's back.
        told.append([str(error), len(work.tensors), all((t.numpy() == t[0].item()).all() for t in work.tensors)])
        other.leave()

    def look() -> bool:
        return all(bool((t == t[0]).all()) for t in work.tensors)

    for action in work.actions(other):
        before = len(told)
        insist(action, tell)
        if len(told) > before:  # what was spilled before has come through it
            told[-1].append(insist(look, lambda error: None))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("spill_dir", type=Path)
    jail.add_options(parser)
    args = parser.parse_args()
    if args.jail:
        jail.enter()
    import outsize
    import torch

    torch.set_num_threads(1)
    plain = Work()
    go_on(plain, None, [])
    other = Other(args.spill_dir)
    other.fill()
    report: dict[str, Any] = {"plain": plain.digests(), "told": []}
    try:
        outsize.enable(BUDGET, faults=args.faults, spill_dir=args.spill_dir, spill_limit=LIMIT)
    except outsize.SpillError as error:
        report["at the start"] = str(error)
    other.leave()
    work = Work()
    with outsize.budget(BUDGET, faults=args.faults, spill_dir=args.spill_dir, spill_limit=LIMIT):
        go_on(work, other, report["told"])
        report["ours"] = work.digests()
        report["stats"] = outsize.stats().as_dict()
    report["after"] = work.digests()
    report["full"] = other.full
    with open(args.output, "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main()
