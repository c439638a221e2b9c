"""How fast bytes go between pinned host memory and the device, and what pinning costs."""

from __future__ import annotations

import mmap
import time

import torch
from library import ops

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def _rate(copies, size: int, times: int) -> float:
    """GB/s of `copies` (pairs of stream and function), each run `times` times (of four), all at once."""
    for _, copy in copies:
        copy(1)
    torch.cuda.synchronize()
    here = torch.cuda.current_stream()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for stream, _ in copies:
        stream.wait_event(begin)
    for _ in range(4):
        for stream, copy in copies:
            with torch.cuda.stream(stream):
                copy(times // 4)
    for stream, _ in copies:
        here.wait_stream(stream)
    end.record()
    torch.cuda.synchronize()
    return len(copies) * size * times / (begin.elapsed_time(end) * 1e6)


def bandwidth(slab: bool) -> dict:
    """By size, from PyTorch's pinned memory or from slabs that were registered. PyTorch records an event for
    each copy of its own pinned memory, and none for a slab's."""
    if slab:
        host = [registered_slab(GIB) for _ in range(2)]
    else:
        host = [torch.empty(GIB, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    device = [torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(2)]
    for buffer in host + device:
        buffer.fill_(7)
    up, down = torch.cuda.Stream(), torch.cuda.Stream()
    rows = []
    for shift in range(16, 31):
        size = 1 << shift
        times = max(4, min(2000, 2 * GIB // size)) // 4 * 4
        to = (up, lambda n, size=size: ops.copy_many(device[0][:size], host[0][:size], n))
        back = (down, lambda n, size=size: ops.copy_many(host[1][:size], device[1][:size], n))
        rows.append({
            "from": "registered slab" if slab else "pin_memory", "KiB": size // KIB,
            "up GB/s": round(_rate([to], size, times), 1),
            "down GB/s": round(_rate([back], size, times), 1),
            "both GB/s": round(_rate([to, back], size, times), 1),
        })
    return {"rows": rows}


def _seconds(work) -> tuple[float, object]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def _slab(size: int, huge: bool) -> torch.Tensor:
    memory = mmap.mmap(-1, size)
    if huge:
        memory.madvise(mmap.MADV_HUGEPAGE)
    slab = torch.frombuffer(memory, dtype=torch.uint8)
    slab.fill_(1)
    return slab


def registered_slab(size: int) -> torch.Tensor:
    slab = _slab(size, huge=True)
    error = torch.cuda.cudart().cudaHostRegister(slab.data_ptr(), size, 0)
    if int(error):
        raise RuntimeError(f"cudaHostRegister of {size} bytes answered {error}")
    return slab


def registration() -> dict:
    """Milliseconds to get pinned host memory, by its size."""
    driver = torch.cuda.cudart()
    torch.empty(1, pin_memory=True)
    rows = []
    for mib in (1, 4, 16, 64, 256, 1024):
        size = mib * MIB
        torch._C._host_emptyCache()
        row: dict = {"MiB": mib}
        fresh, kept = _seconds(lambda size=size: torch.empty(size, dtype=torch.uint8, pin_memory=True))
        row["pin_memory, fresh ms"] = round(fresh * 1e3, 3)
        del kept
        row["pin_memory, from cache ms"] = round(
            _seconds(lambda size=size: torch.empty(size, dtype=torch.uint8, pin_memory=True))[0] * 1e3, 3)
        for huge in (False, True):
            pages = "huge" if huge else "4 KiB"
            filled, slab = _seconds(lambda size=size, huge=huge: _slab(size, huge))
            took, error = _seconds(lambda slab=slab: driver.cudaHostRegister(slab.data_ptr(), slab.numel(), 0))
            if int(error):
                row[f"slab of {pages} pages"] = f"error {int(error)}"
                continue
            row[f"slab of {pages} pages: fill ms"] = round(filled * 1e3, 3)
            row["register ms" + (", huge" if huge else "")] = round(took * 1e3, 3)
            if mib == 1024 and huge:
                device = torch.empty(size, dtype=torch.uint8, device="cuda")
                device.copy_(slab, non_blocking=True)
                seconds, _ = _seconds(lambda d=device, s=slab: [d.copy_(s, non_blocking=True) for _ in range(4)])
                row["up from it GB/s"] = round(4 * size / seconds / 1e9, 1)
            row["unregister ms" + (", huge" if huge else "")] = round(
                _seconds(lambda slab=slab: driver.cudaHostUnregister(slab.data_ptr()))[0] * 1e3, 3)
        rows.append(row)
    return {"rows": rows}
