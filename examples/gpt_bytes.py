"""GPT-2 small on the bytes of Python's standard library, with AdamW. The demo.

    python gpt_bytes.py                                # plain PyTorch: about 7.5 GB of RAM
    outsize run --budget 1628MiB gpt_bytes.py  # the same losses in two fifths of the memory

At its peak the default size holds 4 GiB of tensors: weights, gradients, two moments per weight and
the activations that backward needs.
"""

from __future__ import annotations

import argparse

import torch
from common import Reporter, add_common_options, byte_windows, parse, stdlib_bytes
from transformers import GPT2Config, GPT2LMHeadModel


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=256, help="bytes per sequence (%(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument(
        "--optimizer-impl",
        choices=["forloop", "foreach", "fused"],
        default="forloop",
        help="how AdamW updates: tensor by tensor, or all at once (%(default)s)",
    )
    add_common_options(parser, steps=8)
    return parse(parser, tiny={"layers": 2, "width": 64, "batch": 2, "seq": 32, "steps": 4})


def build_model(args: argparse.Namespace) -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=256,
        n_positions=args.seq,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=max(1, args.width // 64),
        resid_pdrop=args.dropout,
        embd_pdrop=args.dropout,
        attn_pdrop=args.dropout,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    model = GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # what transformers would choose, with a warning
    return model


def main() -> None:
    args = parse_args()
    text = stdlib_bytes()
    generator = torch.Generator().manual_seed(args.seed)
    model = build_model(args)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=args.lr,
        foreach=args.optimizer_impl == "foreach",
        fused=args.optimizer_impl == "fused",
    )
    reporter = Reporter("gpt_bytes")
    for _ in range(args.steps):
        reporter.start_step()
        optimizer.zero_grad()
        tokens = byte_windows(text, args.batch, args.seq, generator)
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        reporter.end_step(loss)
    reporter.finish(model.parameters(), args.digest)


if __name__ == "__main__":
    main()
