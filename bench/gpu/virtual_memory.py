"""The driver's virtual memory management: would stable addresses be affordable?"""

from __future__ import annotations

import statistics

import torch
from library import ops

MIB = 1 << 20
EACH = ("create", "map", "set access", "unmap", "map again")


def _medians(chunk: int, chunks: int) -> dict:
    times = ops.virtual_memory(chunk, chunks)
    parts: dict = {"reserve us": round(times.pop(0), 1)}
    for name in EACH:
        parts[f"{name} us"] = round(statistics.median(times[:chunks]), 1)
        parts[f"most {name}"] = round(max(times[:chunks]), 1)
        del times[:chunks]
    parts["set access of all us"] = round(times.pop(0), 1)
    parts["unmap all us"] = round(times.pop(0), 1)
    parts["release us"] = round(statistics.median(times[:chunks]), 1)
    parts["free us"] = round(times[-1], 1)
    return parts


def costs() -> dict:
    """Microseconds a call, on an idle device and beside a kernel that runs for a tenth of a second."""
    torch.empty(1, device="cuda")
    _medians(2 * MIB, 8)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    torch.cuda._sleep(10_000_000)
    end.record()
    torch.cuda.synchronize()
    cycles = int(10_000_000 * 100 / begin.elapsed_time(end))
    rows = []
    for chunk, chunks in ((2 * MIB, 64), (16 * MIB, 16), (128 * MIB, 8)):
        rows.append({"chunk MiB": chunk // MIB, "beside": "nothing", **_medians(chunk, chunks)})
        torch.cuda._sleep(cycles)
        done = torch.cuda.Event()
        done.record()
        parts = _medians(chunk, chunks)
        rows.append({"chunk MiB": chunk // MIB, "beside": "a kernel", **parts, "kernel still ran": not done.query()})
        torch.cuda.synchronize()
    return {"rows": rows}
