"""A variable-length encoder: a function's source is read piece by piece, as many pieces as it has.

    python varlen_encoder.py
    outsize bench varlen_encoder --budgets 40%

Every piece of bytes passes through the same layers and is joined with what the pieces before it left behind; long
functions pass through the loop forty times, short ones once. The network guesses bytes that were masked.
"""

from __future__ import annotations

import argparse
import ast
import random

import torch
from common import Reporter, add_common_options, parse, stdlib_files
from torch import Tensor, nn

MASK = 256  # the byte that stands for a masked one


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4, help="functions per step (%(default)s)")
    parser.add_argument("--piece", type=int, default=128, help="bytes per piece (%(default)s)")
    parser.add_argument("--longest", type=int, default=5000, help="bytes of the longest function (%(default)s)")
    parser.add_argument("--files", type=int, default=0, help="how many modules to read (0: all)")
    parser.add_argument("--masked", type=float, default=0.15, help="share of bytes (%(default)s)")
    parser.add_argument("--lr", type=float, default=3e-4)
    add_common_options(parser, steps=12)
    tiny = {"layers": 2, "width": 64, "batch": 2, "piece": 48, "longest": 400, "files": 12, "steps": 4}
    return parse(parser, tiny=tiny)


def load_functions(files: int, longest: int) -> list[bytes]:
    """The source of every function of the standard library that is short enough."""
    found: list[bytes] = []
    for path in stdlib_files()[: files or None]:
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines(keepends=True)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                text = "".join(lines[node.lineno - 1 : node.end_lineno]).encode()
                if 32 <= len(text) <= longest:
                    found.append(text)
    return found


class Layer(nn.Module):
    """Attention of a piece to itself and to the memory of the pieces before it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_in = nn.LayerNorm(width)
        self.mix = nn.MultiheadAttention(width, max(1, width // 64), batch_first=True)
        self.norm_out = nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        normed = self.norm_in(x)
        seen = torch.cat([memory, normed], 1)
        mixed, _ = self.mix(normed, seen, seen, need_weights=False)
        x = x + mixed
        return x + self.body(self.norm_out(x))


class Encoder(nn.Module):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.piece = args.piece
        self.tokens = nn.Embedding(257, args.width)
        self.places = nn.Embedding(args.piece, args.width)
        self.start = nn.Parameter(torch.zeros(args.layers, 1, 1, args.width))
        self.layers = nn.ModuleList(Layer(args.width) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, 256)

    def forward(self, text: Tensor) -> Tensor:
        """Scores (bytes of the text, 256)."""
        memories = list(self.start)
        scores = []
        for piece in text.split(self.piece):
            x = (self.tokens(piece) + self.places.weight[: len(piece)]).unsqueeze(0)
            for index, layer in enumerate(self.layers):
                x = layer(x, memories[index])
                memories[index] = torch.cat([memories[index][:, -7:], x.mean(1, keepdim=True)], 1)
            scores.append(self.head(self.norm(x)).squeeze(0))
        return torch.cat(scores)


def main() -> None:
    args = parse_args()
    functions = load_functions(args.files, args.longest)
    model = Encoder(args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    picker = random.Random(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    reporter = Reporter("varlen_encoder")
    for _ in range(args.steps):
        reporter.start_step()
        optimizer.zero_grad()
        losses = []
        for function in picker.sample(functions, args.batch):
            text = torch.tensor(list(function))
            hidden = torch.rand(len(text), generator=generator) < args.masked
            hidden[0] = True
            scores = model(text.masked_fill(hidden, MASK))
            losses.append(nn.functional.cross_entropy(scores[hidden], text[hidden]))
        loss = torch.stack(losses).mean()
        loss.backward()
        optimizer.step()
        reporter.end_step(loss)
    reporter.finish(model.parameters(), args.digest)


if __name__ == "__main__":
    main()
