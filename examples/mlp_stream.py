"""A deep stack of square linear layers with SGD: almost nothing but weights streaming by.

    python mlp_stream.py
    outsize run --budget 800MiB mlp_stream.py

48 layers of 2048 x 2048 weigh 768 MiB, their gradients as much again. The network reads 2048 bytes
of Python's standard library and predicts the 2048 bytes that follow.
"""

from __future__ import annotations

import argparse

import torch
from common import Reporter, add_common_options, byte_windows, parse, stdlib_bytes
from torch import nn


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--lr", type=float, default=0.01)
    add_common_options(parser, steps=8)
    return parse(parser, tiny={"layers": 4, "width": 256, "batch": 16, "steps": 4})


def build_model(layers: int, width: int) -> nn.Sequential:
    model = nn.Sequential()
    for index in range(layers):
        linear = nn.Linear(width, width)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        model.append(linear)
        if index + 1 < layers:
            model.append(nn.ReLU())
    return model


def main() -> None:
    args = parse_args()
    text = stdlib_bytes()
    generator = torch.Generator().manual_seed(args.seed)
    model = build_model(args.layers, args.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    reporter = Reporter("mlp_stream")
    for _ in range(args.steps):
        reporter.start_step()
        optimizer.zero_grad()
        window = byte_windows(text, args.batch, 2 * args.width, generator).float() / 128 - 1
        given, following = window[:, : args.width], window[:, args.width :]
        loss = nn.functional.mse_loss(model(given), following)
        loss.backward()
        optimizer.step()
        reporter.end_step(loss)
    reporter.finish(model.parameters(), args.digest)


if __name__ == "__main__":
    main()
