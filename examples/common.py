"""What the examples share: real data from Python's own standard library, and one way to report.

Nothing here (or in any example, but for early_exit.py's `--hint`) knows about outsize: run an example with plain
Python, then with `outsize run --budget 512MiB example.py`, and compare the losses it prints.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch


def stdlib_files() -> list[Path]:
    """The top-level modules of the standard library, in an order that is the same everywhere."""
    return sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"), key=lambda path: path.name)


def stdlib_bytes(limit: int = 4 << 20) -> torch.Tensor:
    """The sources of the standard library, one after the other, as a vector of bytes."""
    text = bytearray()
    for path in stdlib_files():
        text += path.read_bytes()
        if len(text) >= limit:
            break
    return torch.frombuffer(text[:limit], dtype=torch.uint8).clone()


def stdlib_functions() -> Iterator[ast.FunctionDef]:
    """Every function of the standard library's top-level modules, as a syntax tree."""
    for path in stdlib_files():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef):
                yield node


def byte_windows(
    text: torch.Tensor, batch: int, length: int, generator: torch.Generator
) -> torch.Tensor:
    """`batch` windows of `length` bytes from random places, as integers."""
    starts = torch.randint(len(text) - length, (batch,), generator=generator)
    return torch.stack([text[start : start + length] for start in starts.tolist()]).long()


def add_common_options(parser: argparse.ArgumentParser, steps: int) -> None:
    parser.add_argument("--steps", type=int, default=steps, help="training steps (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data (%(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="torch threads (0: torch decides)")
    parser.add_argument("--tiny", action="store_true", help="a toy size that runs in seconds")
    parser.add_argument("--digest", action="store_true", help="end with a SHA-256 of the weights")


def parse(parser: argparse.ArgumentParser, tiny: dict[str, object]) -> argparse.Namespace:
    """Parses the command line; with --tiny, sizes that were not given become toy sizes."""
    if "--tiny" in sys.argv[1:]:
        parser.set_defaults(**tiny)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    settle_vector_math()
    return args


def settle_vector_math() -> None:
    """Calls what PyTorch leaves to MKL once on one thread, so that losses are the same from run to run.

    MKL settles which code such a function runs when it is first called; of two threads that call it
    first at once, one may get code of low accuracy: pytorch/pytorch issue 188792.
    """
    few = torch.full((4,), 0.5)
    for function in (torch.cos, torch.erf, torch.exp, torch.log, torch.sin, torch.sqrt, torch.tanh):
        function(few)


class Reporter:
    """Prints `step I loss X time S s` for every step and a line of JSON at the end.

    Nine significant digits name a float32 exactly, so equal lines mean equal bits.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.losses: list[float] = []
        self.step_seconds: list[float] = []
        self._started = time.perf_counter()

    def start_step(self) -> None:
        self._started = time.perf_counter()

    def end_step(self, loss: torch.Tensor) -> None:
        value = loss.item()
        seconds = time.perf_counter() - self._started
        self.losses.append(value)
        self.step_seconds.append(round(seconds, 6))
        print(f"step {len(self.losses)} loss {value:.9g} time {seconds:.3f} s", flush=True)

    def finish(self, parameters: Iterable[torch.Tensor], digest: bool) -> None:
        result: dict[str, object] = {
            "example": self.name,
            "losses": [f"{loss:.9g}" for loss in self.losses],
            "step_seconds": self.step_seconds,
        }
        if digest:
            result["weights_sha256"] = weights_digest(parameters)
        print(json.dumps(result), flush=True)


def weights_digest(parameters: Iterable[torch.Tensor]) -> str:
    sha = hashlib.sha256()
    for parameter in parameters:
        sha.update(parameter.detach().contiguous().numpy().data)
    return sha.hexdigest()
