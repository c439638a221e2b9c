"""One rank of a training on several processes, with gloo; reports to rank-N.json in a folder.

    torchrun --nproc-per-node 2 ranks.py ddp|fsdp OUTPUT_FOLDER [--die-at STEP]

With --die-at, rank 1 of the first start kills itself at that step, after a checkpoint of the step
before; the restarted ranks go on from it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from record import Record
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

WIDTH, LAYERS, STEPS = 768, 4, 3  # 2.25 MiB a weight, half of it a shard
BATCH = {"ddp": 1408, "fsdp": 1280}  # activations enough for the largest op to be a quarter of all


def model_of(kind: str) -> nn.Module:
    torch.manual_seed(7)
    layers = (m for _ in range(LAYERS) for m in (nn.Linear(WIDTH, WIDTH), nn.GELU()))
    model = nn.Sequential(*layers)
    if kind == "ddp":
        return DistributedDataParallel(model)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return fully_shard(model)


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def train(kind: str, folder: Path, die_at: int) -> list[Any]:
    rank, restart = dist.get_rank(), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    model = model_of(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    record = Record()
    first = 0
    saved = folder / f"checkpoint-{kind}-{rank}.pt"
    if restart:
        state = torch.load(saved, weights_only=False)
        set_state_dict(model, optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])  # fmt: skip
        first = state["step"]
    for step in range(first, STEPS):
        generator = torch.Generator().manual_seed(100 * step + rank)
        x, y = (torch.randn(BATCH[kind], WIDTH, generator=generator) for _ in range(2))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        record.entries.append((f"step {step}", loss.item().hex()))
        if die_at and step + 1 == die_at and not restart:
            weights, moments = get_state_dict(model, optimizer)
            torch.save({"model": weights, "optimizer": moments, "step": die_at}, saved)
            dist.barrier()
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
    for name, parameter in model.named_parameters():
        record.add(name, local(parameter), local(parameter.grad))
        state = optimizer.state[parameter]
        record.add(name, *(local(state[key]) for key in ("exp_avg", "exp_avg_sq")))
    return record.entries


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["ddp", "fsdp"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--die-at", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    # The agent's own store still holds the addresses of the killed ranks: plain PyTorch's restarted
    # ranks fail to connect every other time.
    store = args.folder.resolve() / f"store-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))  # fmt: skip
    entries = train(args.kind, args.folder, args.die_at)
    import outsize

    report = {"entries": entries, "stats": outsize.stats().as_dict(),
              "restarts": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))}  # fmt: skip
    (args.folder / f"rank-{dist.get_rank()}.json").write_text(json.dumps(report))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
