"""Describes this machine: the lines without which a measurement means nothing to anybody else."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

from outsize.units import GIB, MemoryLimits, format_bytes, format_count


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith(("model name", "cpu model", "hardware")):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))


def total_ram() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def describe() -> dict[str, Any]:
    """Machine and software as plain data, for --json files. Imports nothing heavy."""
    description: dict[str, Any] = {
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "ram_bytes": total_ram(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        description["torch"] = torch.__version__
        description["torch_threads"] = torch.get_num_threads()
    else:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            description["torch"] = importlib.metadata.version("torch")
    return description


def one_line(description: dict[str, Any]) -> str:
    parts = [
        f"{format_count(description['cores'], 'core')} of {description['cpu']}",
        f"{description['ram_bytes'] / GIB:.1f} GiB RAM",
        f"Linux {description['kernel']}",
        f"Python {description['python']}",
    ]
    if "torch" in description:
        parts.append(f"torch {description['torch']}")
    return ", ".join(parts)


def describe_memory(limits: MemoryLimits) -> str:
    text = f"{format_bytes(limits.available)} available of {format_bytes(limits.total)}"
    if limits.cgroup:
        text += (
            f"; memory cgroup: {format_bytes(limits.cgroup_used)} used of"
            f" {format_bytes(limits.cgroup)}"
        )
    return text
