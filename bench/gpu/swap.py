"""Taking the bytes of storages away and bringing them back, below an unchanged program."""

from __future__ import annotations

import os
import random
import statistics
import time

import torch
from library import ops
from torch import nn

MIB = 1 << 20
WAYS = {  # release of the block, stream that owns the block it comes back to
    "hold, compute's pool": (True, False),
    "record, compute's pool": (False, False),
    "record, copy's pool": (False, True),
}


class Model(nn.Module):
    def __init__(self, width: int, layers: int, words: int = 1000):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True) for _ in range(layers))
        self.out = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def _train(device: str, steps: int, *, width=256, layers=4, batch=16, lengths=(128, 128), keep=True, seed=5):
    """Gradients and losses of every step, on the host."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    model = Model(width, layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seen = []
    for _ in range(steps):
        tokens = torch.randint(0, 1000, (batch, draw.randint(*lengths)), device=device)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        if keep:
            seen.append([loss.detach().cpu()] + [p.grad.detach().cpu() for p in model.parameters()])
        optimizer.step()
    return seen


def _equal(a, b) -> bool:
    return all(torch.equal(x, y) for left, right in zip(a, b, strict=True) for x, y in zip(left, right, strict=True))


def _micros(nanos: list[int]) -> tuple[float, float]:
    nanos = sorted(nanos)
    return round(statistics.median(nanos) / 1e3, 1), round(nanos[len(nanos) * 9 // 10] / 1e3, 1)


def equality(device: str = "cuda", steps: int = 20) -> dict:
    """Gradients with and without evictions by chance, bit by bit, with dropout on."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    plain = _train(device, steps)
    again = _train(device, steps)
    rows = []
    for name, (hold, copy_pool) in WAYS.items():
        ops.configure(torch.empty(1, device=device), hold, copy_pool, True)
        ops.set_mode(True, 300, 512, False)
        start = time.perf_counter()
        swapped = _train(device, steps)
        seconds = time.perf_counter() - start
        out, back = ops.evict_nanos(), ops.restore_nanos()
        ops.set_mode(True, 0, 512, False)  # on the CPU what was kept may be away, too
        equal = _equal(plain, swapped)
        ops.set_mode(False, 0, 512, False)
        (evict, evict90), (restore, restore90) = _micros(out), _micros(back)
        rows.append({
            "way": name, "evictions": len(out), "restores": len(back), "gradients equal": equal,
            "evict us": evict, "90 %": evict90, "restore us": restore, "90 % ": restore90,
            "ms a step": round(seconds / steps * 1e3, 1)})
    return {"rows": rows, "plain equals itself": _equal(plain, again), "steps": steps}


def _loop(buffers, square, products: int, swap: bool, compute: bool) -> float:
    """Seconds for one use of each buffer, which comes before its use and goes after it."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for i, buffer in enumerate(buffers):
        if swap:
            ops.restore(buffers[(i + 1) % len(buffers)])
        if compute:
            for _ in range(products):
                torch.matmul(square, square)
        if swap:
            ops.await_(buffer)
        buffer.add_(1)
        if swap:
            ops.evict(buffer)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def overlap() -> dict:
    """What share of the copies hides behind matrix products: (compute + copies - together) / the shorter."""
    size, count = 64 * MIB, 24
    square = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    rows = []
    for name, (hold, copy_pool) in WAYS.items():
        buffers = [torch.full((size // 4,), float(i), device="cuda") for i in range(count)]
        ops.configure(square, hold, copy_pool, True)
        for products in (1, 2, 4):
            alone = min(_loop(buffers, square, products, False, True) for _ in range(3))
            for buffer in buffers[1:]:
                ops.evict(buffer)
            copies, both = [], []
            for _ in range(3):
                copies.append(_loop(buffers, square, products, True, False))
                both.append(_loop(buffers, square, products, True, True))
            ops.restore_all(buffers)
            hidden = (alone + min(copies) - min(both)) / min(alone, min(copies))
            rows.append({
                "way": name, "products a buffer": products, "compute ms": round(alone * 1e3, 2),
                "copies ms": round(min(copies) * 1e3, 2), "together ms": round(min(both) * 1e3, 2),
                "hidden %": round(hidden * 100, 1)})
        # three rounds of three with 1 added to each buffer, and three without copies
        right = all(torch.equal(b, torch.full_like(b, i + 27.0)) for i, b in enumerate(buffers))
        rows[-1]["bytes right"] = right
        del buffers
        torch.cuda.empty_cache()
    return {"rows": rows}


def fragmentation(chance: int, way: str, steps: int = 500) -> dict:
    """Bytes that the allocator has taken against bytes in use, over steps of any length."""
    torch.backends.cuda.matmul.allow_tf32 = True
    hold, copy_pool = WAYS[way]
    ops.configure(torch.empty(1, device="cuda"), hold, copy_pool, True)
    ops.set_mode(chance > 0, chance, 512, False)
    start = time.perf_counter()
    _train("cuda", steps, width=256, layers=6, lengths=(32, 1024), keep=False)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    ops.set_mode(False, 0, 512, False)
    stats = torch.cuda.memory_stats()
    reserved, allocated = stats["reserved_bytes.all.peak"], stats["allocated_bytes.all.peak"]
    return {"rows": [{
        "segments": "expandable" if "expandable_segments:True" in os.environ.get("PYTORCH_ALLOC_CONF", "") else "fixed",
        "evictions": len(ops.evict_nanos()), "way": way if chance else "none",
        "allocated MiB": allocated // MIB, "reserved MiB": reserved // MIB,
        "reserved / allocated": round(reserved / allocated, 3),
        "device allocations": stats["num_device_alloc"], "ms a step": round(seconds / steps * 1e3, 1)}]}
