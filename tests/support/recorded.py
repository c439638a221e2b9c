"""A short run, recorded, and two disks: what the tests of simulated runs begin with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.launch import clean_environment

TRAIN = """\
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(6)))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(64, 1024)).square().mean().backward()
    optimizer.step()
"""
FAST = {"read": 10**12, "write": 10**12, "mixed_read": 10**12, "mixed_write": 10**12, "latency_ns": 0}
SLOW = {"read": 10**8, "write": 10**8, "mixed_read": 5 * 10**7, "mixed_write": 5 * 10**7}


def outsize(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "outsize", *words], cwd=folder, env=clean_environment(), text=True,
        capture_output=True, stdin=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done


def record_into(folder: Path) -> Path:
    """run.trace, fast.json and slow.json."""
    (folder / "train.py").write_text(TRAIN)
    outsize(folder, "record", "--budget", "1GiB", "--quiet", "train.py", "-o", "run.trace")
    for name, disk in (("fast", FAST), ("slow", SLOW)):
        (folder / f"{name}.json").write_text(json.dumps({"disk": disk}))
    return folder
