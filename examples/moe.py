"""A mixture of experts, top-1, routed by sequence or by token: the input chooses which weights are needed.

    python moe.py
    outsize run --budget 1GiB moe.py

6 layers of 24 experts hold 695 million weights, of which a step touches a few. With `--routing
balanced` every sequence picks its experts by its own bytes, so the path changes at every step; with
`--routing learned` a gate picks them, and soon settles on few. With `--route-by token` every token picks.
"""

from __future__ import annotations

import argparse
import zlib

import torch
from common import Reporter, add_common_options, byte_windows, parse, stdlib_bytes
from torch import Tensor, nn


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--experts", type=int, default=24, help="experts per layer (%(default)s)")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--batch", type=int, default=4, help="sequences per step (%(default)s)")
    parser.add_argument("--seq", type=int, default=256, help="bytes per sequence (%(default)s)")
    parser.add_argument("--routing", choices=["balanced", "learned"], default="balanced")
    parser.add_argument("--route-by", choices=["sequence", "token"], default="sequence")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    add_common_options(parser, steps=12)
    tiny = {"layers": 2, "experts": 4, "width": 64, "batch": 2, "seq": 32, "steps": 4}
    return parse(parser, tiny=tiny)


class Expert(nn.Sequential):
    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Layer(nn.Module):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.heads = max(1, width // 64)
        self.norm_in = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_experts = nn.LayerNorm(width)
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))

    def attend(self, x: Tensor) -> Tensor:
        batch, seq, width = x.shape
        shape = (batch, seq, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.norm_in(x)).view(shape).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, seq, width))

    def forward(self, x: Tensor, fixed: list[int] | None, by_token: bool) -> Tensor:
        x = x + self.attend(x)
        normed = self.norm_experts(x)
        if by_token:
            return x + self.each_token(normed.flatten(0, 1), fixed).view_as(x)
        weights = self.gate(normed.mean(1)).softmax(-1)  # one choice for a whole sequence
        chosen = fixed if fixed is not None else weights.argmax(-1).tolist()
        outputs = []
        for row, expert in enumerate(chosen):
            outputs.append(self.experts[expert](normed[row]) * weights[row, expert])
        return x + torch.stack(outputs)

    def each_token(self, tokens: Tensor, fixed: list[int] | None) -> Tensor:
        """One choice a token; an expert sees all of its tokens at once."""
        weights = self.gate(tokens).softmax(-1)
        chosen = torch.tensor(fixed) if fixed is not None else weights.argmax(-1)
        mixed = torch.zeros_like(tokens)
        for expert in chosen.unique().tolist():
            mine = (chosen == expert).nonzero().squeeze(-1)
            mixed = mixed.index_add(0, mine, self.experts[expert](tokens[mine]) * weights[mine, expert, None])
        return mixed


class MixtureOfExperts(nn.Module):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.by_token = args.route_by == "token"
        self.tokens = nn.Embedding(256, args.width)
        self.places = nn.Embedding(args.seq, args.width)
        self.layers = nn.ModuleList(Layer(args.width, args.experts) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, 256)

    def forward(self, tokens: Tensor, routes: list[list[int]] | None) -> Tensor:
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for index, layer in enumerate(self.layers):
            x = layer(x, routes[index] if routes is not None else None, self.by_token)
        return self.head(self.norm(x))


def balanced_routes(tokens: Tensor, layers: int, experts: int, by_token: bool) -> list[list[int]]:
    """For each layer, the expert of each sequence, or token: fixed by its bytes, even over the experts."""
    rows = tokens.reshape(-1, 1) if by_token else tokens
    seeds = [zlib.crc32(bytes(row)) for row in rows.tolist()]
    return [
        [zlib.crc32(layer.to_bytes(4, "little"), seed) % experts for seed in seeds]
        for layer in range(layers)
    ]


def main() -> None:
    args = parse_args()
    text = stdlib_bytes()
    generator = torch.Generator().manual_seed(args.seed)
    model = MixtureOfExperts(args)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    reporter = Reporter("moe")
    for _ in range(args.steps):
        reporter.start_step()
        optimizer.zero_grad()
        window = byte_windows(text, args.batch, args.seq + 1, generator)
        given, following = window[:, :-1], window[:, 1:]
        routes = None
        if args.routing == "balanced":
            routes = balanced_routes(given, args.layers, args.experts, model.by_token)
        scores = model(given, routes)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())
        loss.backward()
        optimizer.step()
        reporter.end_step(loss)
    reporter.finish(model.parameters(), args.digest)


if __name__ == "__main__":
    main()
