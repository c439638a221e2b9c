"""A thread waits for room that another thread's op holds, whose kernel is Python: whoever waits must
not keep the GIL. Writes what was found as JSON."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import torch

import outsize

MIB = 1 << 20
inside = threading.Event()
slept = threading.Event()


def slow_trace(x: torch.Tensor) -> torch.Tensor:
    inside.set()
    time.sleep(1)  # gives the GIL away, and needs it to go on
    slept.set()
    return x[0, :1].clone()


def main() -> None:
    output, *_ = sys.argv[1:]
    traces = []
    library = torch.library.Library("aten", "IMPL")
    library.impl("trace", slow_trace, "CPU")  # an op of PyTorch's own, for which operands are pinned
    with outsize.budget("96MiB"):
        x = torch.full((15, MIB), 5.0)  # 60 MiB
        thread = threading.Thread(target=lambda: traces.append(x.trace().item()))
        thread.start()
        inside.wait()
        sevens = torch.tensor([7.0] * (6 * MIB), dtype=torch.float64)  # 48 MiB; holds the GIL
        waited = slept.is_set()
        thread.join()
        assert sevens.sum().item() == 7 * sevens.numel()
        peak = outsize.stats().resident_peak
    Path(output).write_text(json.dumps({"traces": traces, "waited": waited, "peak": peak}))


if __name__ == "__main__":
    main()
