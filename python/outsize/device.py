"""What is simulated on: a disk or a link, and for another processor than the recorded one its roofline.

A device is a file that `outsize doctor --json` printed, or one of the profiles in `device_profiles/`, each with its
sources.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from outsize.cli import fail

PROFILES = {path.stem: path for path in sorted((Path(__file__).parent / "device_profiles").glob("*.json"))}
RATES = ("read", "write", "mixed_read", "mixed_write")
ROOFLINE = ("flops", "bytes", "op_ns")
# What a transfer takes before its first byte, where a device does not say: an NVMe's.
LATENCY_NS = 100_000


def device_of(path: str) -> dict[str, Any]:
    """Bytes a second and nanoseconds; `compute`, where ops take other times than recorded: floating point operations
    and bytes of memory a second, and the least that an op takes, in nanoseconds; `page_ns`, what moving or guarding a
    small page of RAM takes the program: nothing where a device does not say."""
    try:
        with open(PROFILES.get(path, path)) as file:
            found = json.load(file)
        disk, roofline = found["disk"], found.get("compute")
        device: dict[str, Any] = {name: int(disk[name]) for name in RATES}
        device["latency_ns"] = int(disk.get("latency_ns", LATENCY_NS))
        device["page_ns"] = int(found.get("faults", {}).get("page_ns", 0))
        if roofline is not None:
            device["compute"] = {name: int(roofline[name]) for name in ROOFLINE}
        if "name" in found:
            device["name"] = str(found["name"])
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}. Profiles that outsize has: {', '.join(PROFILES)}.")
    except (ValueError, KeyError, TypeError, AttributeError):
        fail(f"{path} holds no disk's bandwidths: make one with: outsize doctor --json > disk.json")
    if min(*(device[name] for name in RATES), *device.get("compute", {"flops": 1}).values()) <= 0:
        fail(f"{path} holds a bandwidth that is not above 0.")
    return device


def retimed(device: dict[str, Any]) -> str:
    """Empty where ops take as long as they took where they were recorded."""
    if "compute" not in device:
        return ""
    compute = device["compute"]
    return (
        f"Ops are timed by a roofline, not as recorded: {compute['flops'] / 1e12:g} TFLOPS,"
        f" {compute['bytes'] / 1e9:g} GB/s of memory, no op below {compute['op_ns'] / 1000:g} us."
    )
