"""An unrolled GAN: the generator learns through the steps that the discriminator would take next.

    python unrolled_gan.py
    outsize bench unrolled_gan --budgets 40%

After Metz, Poole, Pfau and Sohl-Dickstein, Unrolled Generative Adversarial Networks (2017). What is real are windows
of source text, a byte a value. How many steps are unrolled depends on the batch: with `--unroll sample`
on its first text (the more even its bytes, the fewer), with `--unroll learned` on whether another step would still move
the discriminator. Every unrolled step keeps copies of the discriminator's weights and all its activations.
"""

from __future__ import annotations

import argparse

import torch
from common import Reporter, add_common_options, byte_windows, parse, stdlib_bytes
from torch import Tensor, nn
from torch.func import functional_call

Weights = dict[str, Tensor]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=4, help="layers of either network (%(default)s)")
    parser.add_argument("--noise", type=int, default=128)
    parser.add_argument("--seq", type=int, default=256, help="bytes per window (%(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="windows per step (%(default)s)")
    parser.add_argument("--most", type=int, default=8, help="steps unrolled at most (%(default)s)")
    parser.add_argument("--unroll", choices=["sample", "learned"], default="sample")
    parser.add_argument("--moves", type=float, default=0.01, help="less of a step's loss ends it (%(default)s)")
    parser.add_argument("--inner-lr", type=float, default=0.05)
    parser.add_argument("--lr", type=float, default=2e-4)
    add_common_options(parser, steps=12)
    tiny = {"width": 64, "depth": 2, "noise": 16, "seq": 32, "batch": 8, "most": 3, "steps": 4}
    return parse(parser, tiny=tiny)


def layers(first: int, width: int, depth: int, last: int) -> nn.Sequential:
    sizes = [first] + [width] * (depth - 1) + [last]
    parts: list[nn.Module] = []
    for index in range(depth):
        parts += [nn.Linear(sizes[index], sizes[index + 1]), nn.SiLU()]
    return nn.Sequential(*parts[:-1])


def loss_of(judge: nn.Module, weights: Weights, real: Tensor, made: Tensor) -> Tensor:
    """The discriminator's: 0 where it tells all apart."""
    of_real = functional_call(judge, weights, (real,))
    of_made = functional_call(judge, weights, (made,))
    return nn.functional.softplus(-of_real).mean() + nn.functional.softplus(of_made).mean()


def unrolled(judge: nn.Module, real: Tensor, made: Tensor, steps: int | None, args: argparse.Namespace) -> Weights:
    """The discriminator's weights after `steps` of its own steps, or after as many as still move it."""
    weights: Weights = dict(judge.named_parameters())
    before = float("inf")
    for _ in range(args.most if steps is None else steps):
        loss = loss_of(judge, weights, real, made)
        if steps is None and before - loss.item() < args.moves * loss.item():
            break
        before = loss.item()
        grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        pairs = zip(weights.items(), grads, strict=True)
        weights = {name: weight - args.inner_lr * grad for (name, weight), grad in pairs}
    return weights


def steps_of(windows: Tensor, most: int) -> int:
    """Between 1 and `most`, by the share of the commonest byte of the first window."""
    commonest = int(windows[0].bincount().max())
    return 1 + min(commonest * 2 * most // windows.shape[1], most - 1)


def main() -> None:
    args = parse_args()
    text = stdlib_bytes()
    generator = torch.Generator().manual_seed(args.seed)
    maker = layers(args.noise, args.width, args.depth, args.seq)
    judge = layers(args.seq, args.width, args.depth, 1)
    of_maker = torch.optim.Adam(maker.parameters(), lr=args.lr)
    of_judge = torch.optim.Adam(judge.parameters(), lr=args.lr)
    reporter = Reporter("unrolled_gan")
    for _ in range(args.steps):
        reporter.start_step()
        windows = byte_windows(text, args.batch, args.seq, generator)
        real = windows / 128.0 - 1.0
        made = torch.tanh(maker(torch.randn(args.batch, args.noise, generator=generator)))
        of_judge.zero_grad()
        judge_loss = loss_of(judge, dict(judge.named_parameters()), real, made.detach())
        judge_loss.backward()
        of_judge.step()
        of_maker.zero_grad()
        steps = steps_of(windows, args.most) if args.unroll == "sample" else None
        weights = unrolled(judge, real, made, steps, args)
        maker_loss = nn.functional.softplus(-functional_call(judge, weights, (made,))).mean()
        maker_loss.backward(inputs=list(maker.parameters()))
        of_maker.step()
        reporter.end_step(judge_loss.detach() + maker_loss.detach())
    reporter.finish([*maker.parameters(), *judge.parameters()], args.digest)


if __name__ == "__main__":
    main()
