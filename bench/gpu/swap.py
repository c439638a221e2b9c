"""Taking the bytes of storages away and bringing them back, below an unchanged program."""

from __future__ import annotations

import os
import random
import statistics
import time

import torch
from library import ops
from torch import nn
from transfers import registered_slab

MIB = 1 << 20
ROUNDS = 7
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
    again = _train(device, steps)  # the first run pays for what is loaded
    start = time.perf_counter()
    plain = _train(device, steps)
    rows = [{"way": "plain", "ms a step": round((time.perf_counter() - start) / steps * 1e3, 1)}]
    ops.configure(torch.empty(1, device=device), False, False, True)
    ops.set_mode(True, 0, 512, False)
    start = time.perf_counter()
    _train(device, steps)
    rows.append({"way": "key on, no evictions", "ms a step": round((time.perf_counter() - start) / steps * 1e3, 1)})
    for name, (hold, copy_pool) in WAYS.items():
        ops.set_mode(True, 300, 512, False)
        ops.configure(torch.empty(1, device=device), hold, copy_pool, True)
        _train(device, steps)  # pinned memory is at hand after it
        ops.configure(torch.empty(1, device=device), hold, copy_pool, True)
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
    if device == "cuda":
        rows += [_limited(share, plain, steps) for share in (0.8, 0.6, 0.5)]
    return {"rows": rows, "plain equals itself": _equal(plain, again), "steps": steps}


def _limited(share: float, plain, steps: int) -> dict:
    """The same with storages that go when an op finds no memory below a share of plain's peak."""
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    _train("cuda", 3, keep=False)
    limit = int(share * torch.cuda.max_memory_allocated())
    torch.cuda.empty_cache()
    ops.configure(torch.empty(1, device="cuda"), True, False, True)
    ops.room(4 * MIB)
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
    row: dict = {"way": f"out of memory at {share:.0%} ({limit // MIB} MiB)"}
    ops.set_mode(True, 0, 512, True)
    before = ops.retries()
    try:
        start = time.perf_counter()
        row["gradients equal"] = _equal(plain, _train("cuda", steps))
        row["ms a step"] = round((time.perf_counter() - start) / steps * 1e3, 1)
    except torch.OutOfMemoryError as error:
        row["gradients equal"] = str(error).splitlines()[0][:60]
    ops.set_mode(False, 0, 512, False)
    row["evictions"], row["restores"] = len(ops.evict_nanos()), len(ops.restore_nanos())
    row["ops out of memory"] = ops.retries() - before
    return row


def host_time() -> dict:
    """Microseconds of the calling thread for one eviction and one restore, by size and by the host's memory."""
    slab = torch.empty(64 * MIB, dtype=torch.uint8, pin_memory=True)  # taken once: as good as registered
    registered = registered_slab(64 * MIB)
    rows = []
    for name, (hold, copy_pool) in WAYS.items():
        for kib in (64, 1024, 16384):
            tensor = torch.ones(kib << 10, dtype=torch.uint8, device="cuda")
            row: dict = {"way": name, "KiB": kib}
            for where, memory in (("host allocator", None), ("its slab", slab), ("registered slab", registered)):
                for times in (300, 300):  # the first warms up
                    ops.configure(tensor, hold, copy_pool, True)
                    ops.swap_many(tensor, memory, times)
                    torch.cuda.synchronize()
                row[f"{where}: evict us"], _ = _micros(ops.evict_nanos())
                row[f"{where}: restore us"], _ = _micros(ops.restore_nanos())
            row["bytes right"] = bool((tensor == 1).all())
            rows.append(row)
    return {"rows": rows}


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
        here = [torch.zeros_like(buffer) for buffer in buffers]  # stay, for products alone
        for products in (1, 2, 4):
            for buffer in buffers[1:]:
                ops.evict(buffer)
            products_alone, copies, both = [], [], []
            for _ in range(ROUNDS):
                products_alone.append(_loop(here, square, products, False, True))
                copies.append(_loop(buffers, square, products, True, False))
                both.append(_loop(buffers, square, products, True, True))
            ops.restore_all(buffers)
            alone = statistics.median(products_alone)
            apart, together = statistics.median(copies), statistics.median(both)
            hidden = (alone + apart - together) / min(alone, apart)
            rows.append({
                "way": name, "products a buffer": products, "compute ms": round(alone * 1e3, 2),
                "copies ms": round(apart * 1e3, 2), "together ms": round(together * 1e3, 2),
                "hidden %": round(hidden * 100, 1)})
        # each round with copies added 1, in three rows of two kinds
        right = all(torch.equal(b, torch.full_like(b, i + 6.0 * ROUNDS)) for i, b in enumerate(buffers))
        rows[-1]["bytes right"] = right
        del buffers, here
        torch.cuda.empty_cache()
    return {"rows": rows}


def fragmentation(chance: int, way: str, limit: int = 0, steps: int = 500) -> dict:
    """Bytes that the allocator has taken against bytes in use, over steps of any length. `limit`, MiB: more cannot
    be taken, and storages go, by chance, when an op runs out of memory."""
    torch.backends.cuda.matmul.allow_tf32 = True
    hold, copy_pool = WAYS[way]
    ops.configure(torch.empty(1, device="cuda"), hold, copy_pool, True)
    if limit:
        ops.room(64 * MIB)
        torch.cuda.set_per_process_memory_fraction(limit * MIB / torch.cuda.get_device_properties(0).total_memory)
    ops.set_mode(chance > 0 or limit > 0, chance, 512, limit > 0)
    start = time.perf_counter()
    _train("cuda", steps, width=256, layers=6, lengths=(32, 1024), keep=False)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    ops.set_mode(False, 0, 512, False)
    stats = torch.cuda.memory_stats()
    reserved, allocated = stats["reserved_bytes.all.peak"], stats["allocated_bytes.all.peak"]
    return {"rows": [{
        "segments": "expandable" if "expandable_segments:True" in os.environ.get("PYTORCH_ALLOC_CONF", "") else "fixed",
        "evictions": len(ops.evict_nanos()), "way": way if chance or limit else "none",
        "limit MiB": limit or "", "out of memory": ops.retries(),
        "allocated MiB": allocated // MIB, "reserved MiB": reserved // MIB,
        "reserved / allocated": round(reserved / allocated, 3),
        "device allocations": stats["num_device_alloc"], "the allocator's own retries": stats["num_alloc_retries"], "ms a step": round(seconds / steps * 1e3, 1)}]}
