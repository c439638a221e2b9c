"""Early exit and adaptive depth with an expert per branch: easy text leaves early, hard text goes deep.

    python early_exit.py
    outsize run --budget 1GiB early_exit.py

A window of bytes passes through stages. In each stage it takes one of several branches, each with weights of
its own, by what sort of text it is there (the branch of the byte that stands first in its part of the window).
After each stage it may leave. With `--exits sample` the text decides when: the more different bytes, the
deeper. With `--exits learned` it leaves once the network is sure enough of its guesses.

`--hint` shows how a program that knows its path ahead may say so (`outsize.hint`).
"""

from __future__ import annotations

import argparse

import torch
from common import Reporter, add_common_options, byte_windows, parse, stdlib_bytes
from torch import Tensor, nn


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stages", type=int, default=8, help="deepest path (%(default)s)")
    parser.add_argument("--branches", type=int, default=8, help="experts per stage (%(default)s)")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--batch", type=int, default=4, help="windows per step (%(default)s)")
    parser.add_argument("--seq", type=int, default=256, help="bytes per window (%(default)s)")
    parser.add_argument("--exits", choices=["sample", "learned"], default="sample")
    parser.add_argument("--sure", type=float, default=0.2, help="mean probability at which it leaves (%(default)s)")
    parser.add_argument("--hint", action="store_true", help="tells outsize each window's path, if text decides")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    add_common_options(parser, steps=12)
    tiny = {"stages": 3, "branches": 3, "width": 64, "batch": 2, "seq": 48, "steps": 4}
    return parse(parser, tiny=tiny)


class Branch(nn.Module):
    """A transformer block without attention's share: that is the stage's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(self.norm(x))


class Stage(nn.Module):
    def __init__(self, width: int, branches: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.MultiheadAttention(width, max(1, width // 64), batch_first=True)
        self.branches = nn.ModuleList(Branch(width) for _ in range(branches))

    def forward(self, x: Tensor, branch: int) -> Tensor:
        normed = self.norm(x)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        mixed, _ = self.mix(normed, normed, normed, attn_mask=later, need_weights=False)
        return self.branches[branch](x + mixed)


class AdaptiveDepth(nn.Module):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.sure = args.sure if args.exits == "learned" else None
        self.tokens = nn.Embedding(256, args.width)
        self.places = nn.Embedding(args.seq, args.width)
        self.stages = nn.ModuleList(Stage(args.width, args.branches) for _ in range(args.stages))
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, 256)

    def forward(self, window: Tensor) -> Tensor:
        """Scores (bytes of the window, 256) of one window, from the stage at which it left."""
        x = (self.tokens(window) + self.places.weight[: len(window)]).unsqueeze(0)
        scores = self.head(self.norm(x))
        for index in range(len(self.stages)):
            if self.leaves(window, index, scores):
                break
            stage = self.stages[index]
            assert isinstance(stage, Stage)
            x = stage(x, self.branch_of(window, index))
            scores = self.head(self.norm(x))
        return scores.squeeze(0)

    def branch_of(self, window: Tensor, index: int) -> int:
        return self.branch_for(int(window[self.place_of(len(window), index)]), index)

    def place_of(self, length: int, index: int) -> int:
        return index * length // len(self.stages)

    def branch_for(self, byte: int, index: int) -> int:
        stage = self.stages[index]
        assert isinstance(stage, Stage)
        return byte % len(stage.branches)

    def leaves(self, window: Tensor, index: int, scores: Tensor) -> bool:
        if index == 0:
            return False  # everybody takes the first
        if self.sure is not None:
            return scores.softmax(-1).amax(-1).mean().item() > self.sure
        return index > self.last_stage(len(window.unique()))

    def last_stage(self, different: int) -> int:
        """A window of source text mostly has 20 to 44 different bytes: they are spread over the stages."""
        return min(max((different - 20) * len(self.stages) // 24, 0), len(self.stages) - 1)

    def path_of(self, window: Tensor) -> dict[str, int]:
        """The branches that a window will take and where it leaves; none where the network decides that.

        Ops of PyTorch would be part of the program that is to be foreseen: so plain numbers.
        """
        if self.sure is not None:
            return {}
        text = window.tolist()
        leaves = self.last_stage(len(set(text))) + 1
        taken = {f"stage {i}": self.branch_for(text[self.place_of(len(text), i)], i) for i in range(leaves)}
        return {"leaves": leaves} | taken


def hinted(model: AdaptiveDepth, window: Tensor) -> Tensor:
    import outsize  # its hint does nothing without `outsize run`

    outsize.hint(says=model.path_of(window))
    return model(window)


def main() -> None:
    args = parse_args()
    text = stdlib_bytes()
    generator = torch.Generator().manual_seed(args.seed)
    model = AdaptiveDepth(args)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    reporter = Reporter("early_exit")
    for _ in range(args.steps):
        reporter.start_step()
        optimizer.zero_grad()
        windows = byte_windows(text, args.batch, args.seq + 1, generator)
        scores = torch.stack([hinted(model, window[:-1]) if args.hint else model(window[:-1]) for window in windows])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        reporter.end_step(loss)
    reporter.finish(model.parameters(), args.digest)


if __name__ == "__main__":
    main()
