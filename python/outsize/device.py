"""What is simulated on: a disk or a link, and for another processor than the recorded one its roofline.

A device is a file that `outsize doctor --json` printed, or one of the profiles in `device_profiles/`, each with its
sources.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outsize.cli import fail
from outsize.trace import meta_of

PROFILES = {path.stem: path for path in sorted((Path(__file__).parent / "device_profiles").glob("*.json"))}
RATES = ("read", "write", "mixed_read", "mixed_write")
# Nanoseconds that moving takes beside the disk's time: a small page that moves or is guarded; a MiB of fresh pages,
# small ones, huge ones, and huge ones again that were given back, which come after so many bytes; a read, write or
# eviction of the program's thread; a transfer of the I/O threads'; and by how much each MiB that comes or goes meanwhile
# holds up a program that computes on all processors.
MOVES = (
    "page_ns", "fresh_mib_ns", "fresh_huge_mib_ns", "warm_huge_mib_ns", "cold_bytes",
    "command_ns", "transfer_ns", "mib_ns",
)  # fmt: skip
ROOFLINE = ("flops", "bytes", "op_ns")
# With one call of the system under way; 0 where a device does not say: one is as fast as several.
SINGLE = ("single_read", "single_write")
# What a transfer takes before its first byte, waking threads included, where a device does not say: an NVMe's.
LATENCY_NS = 100_000


def measured(disk: dict[str, Any], moves: dict[str, Any]) -> dict[str, Any]:
    """A device without a processor of its own, from what `outsize doctor` says of the disk and of moves."""
    device = {name: int(disk[name]) for name in RATES} | {name: int(disk.get(name, 0)) for name in SINGLE}
    device["latency_ns"] = int(disk.get("latency_ns", moves.get("wait_ns", LATENCY_NS)))
    # An older `outsize doctor` tells of what I/O threads take by their own account.
    known = moves | {"mib_ns": moves.get("held_up_mib_ns", moves.get("mib_ns", 0))}
    return device | {name: int(known.get(name, 0)) for name in MOVES}


def mean_rates(disks: Sequence[dict[str, Any]]) -> dict[str, float] | None:
    """Bandwidths in the mean of those that were measured; None: none was."""
    known = [disk for disk in disks if "read" in disk]
    return {name: statistics.mean(disk[name] for disk in known) for name in RATES} if known else None


def least_transfer_seconds(read: float, written: float, device: dict[str, Any]) -> float:
    """The least time for bytes that may be read and written in any order or together: a linear program in the time in
    which both ways are busy and that in which one is alone, as in sim/window_limit.cpp."""
    apart = read / device["read"] + written / device["write"]
    reads, writes = read / device["mixed_read"], written / device["mixed_write"]
    together = min(reads, writes)
    rest = max(read - together * device["mixed_read"], 0) / device["read"]
    rest += max(written - together * device["mixed_write"], 0) / device["write"]
    return min(apart, together + rest, max(reads, writes))


def at_the_programs_expense(device: dict[str, Any], meta: str) -> dict[str, Any]:
    """Transfers take processors from a program as far as it keeps them busy: with fewer threads than there are
    cores, the less. `meta` is the trace's; all of it where that does not say."""
    recorded = meta_of(meta)
    threads, cores = recorded.get("threads"), recorded.get("cores")
    if not (isinstance(threads, int) and isinstance(cores, int) and 0 < threads < cores):
        return device
    return device | {name: int(device.get(name, 0)) * threads // cores for name in ("transfer_ns", "mib_ns")}


def device_of(path: str) -> dict[str, Any]:
    """Bytes a second and nanoseconds; `compute`, where ops take other times than recorded: floating point operations
    and bytes of memory a second, and the least that an op takes, in nanoseconds; `page_ns`, what moving or guarding a
    small page of RAM takes the program, and what else moving takes (MOVES): nothing where a device does not say."""
    try:
        with open(PROFILES.get(path, path)) as file:
            found = json.load(file)
        device, roofline = measured(found["disk"], found.get("moves", {})), found.get("compute")
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
