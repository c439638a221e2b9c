"""An Evoformer, AlphaFold's trunk, on alignments of source lines: variable length, depth and number of recycles.

    python evoformer.py
    outsize bench evoformer --budgets 40%

After Jumper et al., Highly accurate protein structure prediction with AlphaFold (2021), supplement 1.6; our own
code, with one MSA stack and no templates. A "protein" is a line of source text; its relatives are the lines of the
same module that begin with the same word, aligned column by column. The network guesses masked bytes of the
alignment, and which two columns of the line lie in the same word. How often its guess is fed back depends on
the input: with `--recycles sample` on how much of the alignment is gaps, with `--recycles learned` on whether the
last round still changed the pairs.
"""

from __future__ import annotations

import argparse
import random
import re

import torch
from common import Reporter, add_common_options, parse, stdlib_files
from torch import Tensor, nn

GAP, MASK = 256, 257


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--msa-width", type=int, default=128)
    parser.add_argument("--pair-width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--batch", type=int, default=1, help="alignments per step (%(default)s)")
    parser.add_argument("--longest", type=int, default=96, help="bytes of a line (%(default)s)")
    parser.add_argument("--deepest", type=int, default=64, help="lines of an alignment (%(default)s)")
    parser.add_argument("--most", type=int, default=4, help="rounds at most (%(default)s)")
    parser.add_argument("--recycles", choices=["sample", "learned"], default="sample")
    parser.add_argument("--changes", type=float, default=0.3, help="less of the pairs ends it (%(default)s)")
    parser.add_argument("--files", type=int, default=60, help="how many modules to read (%(default)s)")
    parser.add_argument("--lr", type=float, default=1e-3)
    add_common_options(parser, steps=12)
    tiny = {"blocks": 2, "msa_width": 16, "pair_width": 8, "heads": 2, "steps": 4}
    return parse(parser, tiny=tiny | {"longest": 28, "deepest": 6, "files": 8})


def load_families(files: int, longest: int) -> list[list[bytes]]:
    """Lines of a module that begin with the same word, at least four of them."""
    families: list[list[bytes]] = []
    for path in stdlib_files()[:files]:
        by_word: dict[bytes, list[bytes]] = {}
        for line in path.read_bytes().splitlines():
            line = line.strip()[:longest]
            word = re.match(rb"\w+", line)
            if word and len(line) >= 12:
                by_word.setdefault(word[0], []).append(line)
        families += [by_word[word] for word in sorted(by_word) if len(by_word[word]) >= 4]
    return families


def align(lines: list[bytes]) -> Tensor:
    """(lines, columns of the first), cut or filled with gaps."""
    columns = len(lines[0])
    return torch.tensor([[*line[:columns], *[GAP] * (columns - len(line))] for line in lines])


def same_word(line: bytes) -> Tensor:
    """(columns, columns): 1 where both lie in one word."""
    of = torch.zeros(len(line), dtype=torch.long)
    for number, word in enumerate(re.finditer(rb"\w+", line), start=1):
        of[word.start() : word.end()] = number
    return ((of[:, None] == of[None]) & (of[:, None] > 0)).float()


class Attention(nn.Module):
    """Gated attention within the last but one dimension, biased by pairs where there are some."""

    def __init__(self, width: int, heads: int, pair_width: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.gate = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.bias = nn.Linear(pair_width, heads, bias=False) if pair_width else None

    def forward(self, x: Tensor, pair: Tensor | None = None) -> Tensor:
        rows, places, width = x.shape
        x = self.norm(x)
        q, k, v = self.qkv(x).view(rows, places, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        if self.bias is not None and pair is not None:
            scores = scores + self.bias(pair).permute(2, 0, 1)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, places, width)
        return self.out(torch.sigmoid(self.gate(x)) * mixed)


class Transition(nn.Sequential):
    def __init__(self, width: int) -> None:
        super().__init__(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))


class OuterProductMean(nn.Module):
    def __init__(self, msa_width: int, pair_width: int, inner: int = 16) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(msa_width)
        self.left, self.right = nn.Linear(msa_width, inner), nn.Linear(msa_width, inner)
        self.out = nn.Linear(inner * inner, pair_width)

    def forward(self, msa: Tensor) -> Tensor:
        msa = self.norm(msa)
        outer = torch.einsum("sic,sjd->ijcd", self.left(msa), self.right(msa)) / len(msa)
        return self.out(outer.flatten(2))


class TriangleProduct(nn.Module):
    def __init__(self, width: int, outgoing: bool) -> None:
        super().__init__()
        self.edges = "ikc,jkc->ijc" if outgoing else "kic,kjc->ijc"
        self.norm_in, self.norm_out = nn.LayerNorm(width), nn.LayerNorm(width)
        self.sides, self.gates = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.gate, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, pair: Tensor) -> Tensor:
        pair = self.norm_in(pair)
        left, right = (torch.sigmoid(self.gates(pair)) * self.sides(pair)).chunk(2, -1)
        product = torch.einsum(self.edges, left, right)
        return torch.sigmoid(self.gate(pair)) * self.out(self.norm_out(product))


class Block(nn.Module):
    def __init__(self, msa: int, pair: int, heads: int) -> None:
        super().__init__()
        self.rows, self.columns = Attention(msa, heads, pair), Attention(msa, heads)
        self.msa_transition, self.outer = Transition(msa), OuterProductMean(msa, pair)
        self.outgoing, self.incoming = TriangleProduct(pair, True), TriangleProduct(pair, False)
        self.starting, self.ending = Attention(pair, heads, pair), Attention(pair, heads, pair)
        self.pair_transition = Transition(pair)

    def forward(self, msa: Tensor, pair: Tensor) -> tuple[Tensor, Tensor]:
        msa = msa + self.rows(msa, pair)
        msa = msa + self.columns(msa.transpose(0, 1)).transpose(0, 1)
        msa = msa + self.msa_transition(msa)
        pair = pair + self.outer(msa)
        pair = pair + self.outgoing(pair)
        pair = pair + self.incoming(pair)
        pair = pair + self.starting(pair, pair)
        turned = pair.transpose(0, 1)
        pair = pair + self.ending(turned, turned).transpose(0, 1)
        return msa, pair + self.pair_transition(pair)


class Evoformer(nn.Module):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        msa, pair = args.msa_width, args.pair_width
        self.most, self.changes = args.most, args.changes if args.recycles == "learned" else None
        self.bytes, self.left, self.right = nn.Embedding(258, msa), nn.Embedding(258, pair), nn.Embedding(258, pair)
        self.apart = nn.Embedding(65, pair)
        self.again_msa, self.again_pair = nn.LayerNorm(msa), nn.LayerNorm(pair)
        self.blocks = nn.ModuleList(Block(msa, pair, args.heads) for _ in range(args.blocks))
        self.byte_head, self.word_head = nn.Linear(msa, 256), nn.Linear(pair, 1)

    def round(self, lines: Tensor, last: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        places = torch.arange(lines.shape[1])
        apart = (places[:, None] - places[None]).clamp(-32, 32) + 32
        msa = self.bytes(lines)
        pair = self.left(lines[0])[:, None] + self.right(lines[0])[None] + self.apart(apart)
        if last is not None:
            msa = torch.cat([(msa[0] + self.again_msa(last[0][0]))[None], msa[1:]])
            pair = pair + self.again_pair(last[1])
        for block in self.blocks:
            msa, pair = block(msa, pair)
        return msa, pair

    def forward(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of bytes (lines, columns, 256) and of pairs (columns, columns); only the last round learns."""
        last: tuple[Tensor, Tensor] | None = None
        with torch.no_grad():
            for done in range(1, self.most):
                if self.changes is None and done >= self.rounds_of(lines):
                    break
                new = self.round(lines, last)
                settled = last is not None and (new[1] - last[1]).norm() < (self.changes or 0) * last[1].norm()
                last = new
                if settled:
                    break
        msa, pair = self.round(lines, last)
        return self.byte_head(msa), self.word_head(pair).squeeze(-1)

    def rounds_of(self, lines: Tensor) -> int:
        gaps = int((lines == GAP).sum())
        return 1 + min(gaps * self.most * 2 // lines.numel(), self.most - 1)


def loss_of(model: Evoformer, lines: list[bytes], generator: torch.Generator) -> Tensor:
    aligned = align(lines)
    hidden = (torch.rand(aligned.shape, generator=generator) < 0.15) & (aligned != GAP)
    hidden[0, 0] = True
    guessed, words = model(aligned.masked_fill(hidden, MASK))
    of_bytes = nn.functional.cross_entropy(guessed[hidden], aligned[hidden])
    return of_bytes + nn.functional.binary_cross_entropy_with_logits(words, same_word(lines[0]))


def main() -> None:
    args = parse_args()
    families = load_families(args.files, args.longest)
    model = Evoformer(args)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    picker = random.Random(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    reporter = Reporter("evoformer")
    for _ in range(args.steps):
        reporter.start_step()
        optimizer.zero_grad()
        losses = []
        for family in picker.sample(families, args.batch):
            lines = picker.sample(family, min(len(family), args.deepest))
            losses.append(loss_of(model, lines, generator))
        loss = torch.stack(losses).mean()
        loss.backward()
        optimizer.step()
        reporter.end_step(loss)
    reporter.finish(model.parameters(), args.digest)


if __name__ == "__main__":
    main()
